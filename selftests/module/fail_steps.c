// SPDX-License-Identifier: GPL-2.0-only
/*
 * See fail_steps.h. The undo of a step checks whether the call succeeded in the end: a call may
 * have an effect before it fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fail_steps.h"

#define ARENA (4ull << 20)
#define PAGE  4096

static int or_errno(long result)
{
	return result < 0 ? -errno : 0;
}

int fail_write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int err;

	if (fd < 0)
		return -errno;
	err = or_errno(write(fd, text, strlen(text)));
	close(fd);
	return err;
}

long fail_read_number(const char *path)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	return strtol(text, NULL, 10);
}

static int act_open(struct state *state)
{
	state->fd = open("/dev/hab", O_RDWR | O_CLOEXEC);
	return or_errno(state->fd);
}

static void undo_open(struct state *state)
{
	if (state->done)
		close(state->fd);
}

/* An open file. */

static int prepare_open(struct state *state)
{
	state->create = (struct hab_ioc_create){
		.size = sizeof(state->create),
		.arena_bytes = ARENA,
		.nr_levels = 4,
		.levels = { { 1 << 20, HAB_DOMAIN_NODE, HAB_LEVEL_GROWING },
			    { 256 << 10, HAB_DOMAIN_PACKAGE, 0 },
			    { 64 << 10, HAB_DOMAIN_CORE, HAB_LEVEL_GROWING },
			    { 16 << 10, HAB_DOMAIN_CPU, 0 } },
		.name = "fail",
	};
	return act_open(state);
}

static void undo_open_always(struct state *state)
{
	close(state->fd);
}

static int act_version(struct state *state)
{
	struct hab_ioc_version version = { .size = sizeof(version) };

	return or_errno(ioctl(state->fd, HAB_IOC_VERSION, &version));
}

static int act_create(struct state *state)
{
	return or_errno(ioctl(state->fd, HAB_IOC_CREATE, &state->create));
}

static int act_close(struct state *state)
{
	return or_errno(close(state->fd));
}

/* A heap. */

static int prepare_heap(struct state *state)
{
	int err = prepare_open(state);

	if (err)
		return err;
	err = act_create(state);
	if (err)
		return err;
	state->refill = (struct hab_ioc_refill){
		.size = sizeof(state->refill),
		.min_bytes = state->step->number,
		.want_bytes = state->step->number,
	};
	return 0;
}

/* Memory that is not handed out is free or waste, also if the caller did not get the result. */
int fail_check_books(const struct state *state)
{
	struct hab_ioc_stats stats = { .size = sizeof(stats) };
	__u64 sum = 0;
	int l, err;

	err = or_errno(ioctl(state->fd, HAB_IOC_STATS, &stats));
	if (err)
		return err;
	for (l = 0; l <= HAB_MAX_LEVELS; l++)
		sum += stats.levels[l].free_bytes + stats.levels[l].waste_bytes;
	return sum + state->taken == ARENA ? 0 : -EUCLEAN;
}

static int act_refill(struct state *state)
{
	int err;

	state->refill.chunk_bytes = 0;
	err = or_errno(ioctl(state->fd, HAB_IOC_REFILL, &state->refill));
	if (!err)
		state->taken += state->refill.chunk_bytes;
	return err;
}

static int act_reset(struct state *state)
{
	return or_errno(ioctl(state->fd, HAB_IOC_RESET, 0));
}

static int act_stats(struct state *state)
{
	struct hab_ioc_stats stats = { .size = sizeof(stats) };

	return or_errno(ioctl(state->fd, HAB_IOC_STATS, &stats));
}

static int prepare_return(struct state *state)
{
	int err = prepare_heap(state);

	return err ? err : act_refill(state);
}

static int act_return(struct state *state)
{
	struct hab_ioc_return give = {
		.size = sizeof(give),
		.offset = state->refill.chunk_offset,
		.bytes = state->refill.chunk_bytes,
	};
	int err = or_errno(ioctl(state->fd, HAB_IOC_RETURN, &give));

	if (!err)
		state->taken = 0;
	return err;
}

static int act_stack(struct state *state)
{
	__u64 frames[HAB_STACK_DEPTH] = { 1 };
	struct hab_ioc_stack stack = {
		.size = sizeof(stack),
		.nr_frames = HAB_STACK_DEPTH,
		.sample_id = 1,
		.frames = (__u64)(unsigned long)frames,
	};

	return or_errno(ioctl(state->fd, HAB_IOC_STACK, &stack));
}

static int act_report(struct state *state)
{
	struct hab_ioc_report report = {
		.size = sizeof(report),
		.kind = HAB_EVENT_SAMPLE,
		.bytes = 64,
		.chunk_bytes = 64,
		.parts = 1,
		.tag = "tag",
	};

	return or_errno(ioctl(state->fd, HAB_IOC_REPORT, &report));
}

static int prepare_listened(struct state *state)
{
	int err = fail_write_file(state->step->path, "1");

	return err ? err : prepare_heap(state);
}

static void undo_listened(struct state *state)
{
	close(state->fd);
	fail_write_file(TRACING "enable", "0");
}

/* Mappings. */

static size_t area_bytes(const struct state *state, unsigned long offset)
{
	if (offset == HAB_MAP_INFO)
		return state->create.info_bytes;
	return offset == HAB_MAP_WORDS ? state->create.words_bytes : ARENA;
}

static int act_map(struct state *state)
{
	state->bytes = area_bytes(state, state->step->number);
	state->memory = mmap(NULL, state->bytes, state->step->protection, state->step->flags,
			     state->fd, state->step->number);
	return state->memory == MAP_FAILED ? -errno : 0;
}

static void undo_map(struct state *state)
{
	if (state->done)
		munmap(state->memory, state->bytes);
	close(state->fd);
}

static int prepare_mapped(struct state *state)
{
	int err = prepare_heap(state);

	if (!err)
		err = act_map(state);
	if (!err && state->step->number == HAB_MAP_ARENA)
		memset(state->memory, 1, state->bytes);
	return err;
}

static void undo_mapped(struct state *state)
{
	munmap(state->memory, state->bytes);
	close(state->fd);
}

static int act_unmap(struct state *state)
{
	return or_errno(munmap(state->memory, state->bytes));
}

static void undo_unmap(struct state *state)
{
	if (!state->done)
		munmap(state->memory, state->bytes);
	close(state->fd);
}

/* From the middle, so that one mapping becomes three. */
static int act_protect(struct state *state)
{
	return or_errno(mprotect((char *)state->memory + ARENA / 4, ARENA / 2, PROT_READ));
}

static int act_punch(struct state *state)
{
	return or_errno(munmap((char *)state->memory + ARENA / 4, ARENA / 2));
}

static int act_move(struct state *state)
{
	void *moved = mremap(state->memory, state->bytes, 2 * state->bytes, MREMAP_MAYMOVE);

	if (moved == MAP_FAILED)
		return -errno;
	state->memory = moved;
	state->bytes *= 2;
	return 0;
}

static int act_drop(struct state *state)
{
	return or_errno(madvise(state->memory, state->bytes, MADV_DONTNEED));
}

static int act_fork(struct state *state)
{
	state->child = fork();
	if (!state->child)
		_exit(0);
	return or_errno(state->child);
}

static void undo_fork(struct state *state)
{
	if (state->done)
		waitpid(state->child, NULL, 0);
	state->child = 0;
	undo_mapped(state);
}

/* Files of sysfs and of the tracing system. */

static int act_open_file(struct state *state)
{
	state->target = open(state->step->path, O_RDWR | O_CLOEXEC);
	return or_errno(state->target);
}

static void undo_open_file(struct state *state)
{
	if (state->done)
		close(state->target);
}

static int prepare_file(struct state *state)
{
	state->target =
		open(state->step->path, (state->step->text ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
	return or_errno(state->target);
}

static int act_file(struct state *state)
{
	char text[PAGE];

	if (state->step->text)
		return or_errno(
			pwrite(state->target, state->step->text, strlen(state->step->text), 0));
	return or_errno(pread(state->target, text, sizeof(text), 0));
}

static void undo_file(struct state *state)
{
	close(state->target);
}

static void undo_listening(struct state *state)
{
	close(state->target);
	fail_write_file(TRACING "enable", "0");
}

#define STEP(_name, _prepare, _act, _undo, ...)                                               \
	{                                                                                     \
		.name = _name, .prepare = _prepare, .act = _act, .undo = _undo, ##__VA_ARGS__ \
	}
#define RW		     (PROT_READ | PROT_WRITE)
#define SHARED(offset, prot) .number = offset, .protection = prot, .flags = MAP_SHARED
#define PRIVATE		     .number = HAB_MAP_ARENA, .protection = RW, .flags = MAP_PRIVATE | MAP_NORESERVE
#define POPULATED	     .number = HAB_MAP_ARENA, .protection = RW, .flags = MAP_PRIVATE | MAP_POPULATE
#define BYTES(n)	     .number = n, .books = true
#define LISTENED(event)	     .path = TRACING event "/enable"
#define READ_FILE(file)	     STEP("read " file, prepare_file, act_file, undo_file, .path = SYSFS file)
#define WRITE_FILE(file, _text) \
	STEP("write " file, prepare_file, act_file, undo_file, .path = SYSFS file, .text = _text)

/* clang-format off */
const struct step fail_steps[] = {
	STEP("open", NULL, act_open, undo_open),
	STEP("VERSION", prepare_open, act_version, undo_open_always),
	STEP("CREATE", prepare_open, act_create, undo_open_always),
	STEP("REFILL of a buffer", prepare_heap, act_refill, undo_open_always, BYTES(PAGE)),
	STEP("REFILL past the buffers", prepare_heap, act_refill, undo_open_always, BYTES(2 << 20)),
	STEP("REFILL, listened to", prepare_listened, act_refill, undo_listened, BYTES(PAGE),
	     LISTENED("hab_refill")),
	STEP("REFILL, counted by a listener", prepare_listened, act_refill, undo_listened,
	     BYTES(PAGE), LISTENED("hab_refills")),
	STEP("STATS", prepare_heap, act_stats, undo_open_always),
	STEP("RETURN", prepare_return, act_return, undo_open_always, BYTES(2 << 20)),
	STEP("STACK", prepare_heap, act_stack, undo_open_always),
	STEP("REPORT", prepare_heap, act_report, undo_open_always),
	STEP("REPORT, listened to", prepare_listened, act_report, undo_listened,
	     LISTENED("hab_sample")),
	STEP("RESET", prepare_heap, act_reset, undo_open_always),
	STEP("close of a heap", prepare_heap, act_close, NULL, .once = true),
	STEP("mmap of info", prepare_heap, act_map, undo_map, SHARED(HAB_MAP_INFO, PROT_READ)),
	STEP("mmap of words", prepare_heap, act_map, undo_map, SHARED(HAB_MAP_WORDS, RW)),
	STEP("mmap of the arena", prepare_heap, act_map, undo_map, PRIVATE),
	STEP("mmap of the arena, populated", prepare_heap, act_map, undo_map, POPULATED),
	STEP("munmap of info", prepare_mapped, act_unmap, undo_unmap,
	     SHARED(HAB_MAP_INFO, PROT_READ)),
	STEP("munmap of words", prepare_mapped, act_unmap, undo_unmap, SHARED(HAB_MAP_WORDS, RW)),
	STEP("munmap of the arena", prepare_mapped, act_unmap, undo_unmap, PRIVATE),
	STEP("munmap within the arena", prepare_mapped, act_punch, undo_mapped, PRIVATE),
	STEP("mprotect within the arena", prepare_mapped, act_protect, undo_mapped, PRIVATE),
	STEP("mremap of the arena", prepare_mapped, act_move, undo_mapped, PRIVATE),
	STEP("madvise of the arena", prepare_mapped, act_drop, undo_mapped, PRIVATE),
	STEP("fork with the arena", prepare_mapped, act_fork, undo_fork, PRIVATE),
	STEP("fork with the words", prepare_mapped, act_fork, undo_fork, SHARED(HAB_MAP_WORDS, RW)),
	STEP("open of rate", NULL, act_open_file, undo_open_file, .path = SYSFS "rate"),
	READ_FILE("rate"),
	READ_FILE("heaps"),
	READ_FILE("refills"),
	READ_FILE("sampled"),
	READ_FILE("throttled"),
	READ_FILE("share_by"),
	READ_FILE("sampling_interval"),
	READ_FILE("domains/core"),
	READ_FILE("domains/llc"),
	WRITE_FILE("rate", "100/s"),
	WRITE_FILE("share_by", "process"),
	WRITE_FILE("sampling_interval", "524288"),
	STEP("listening", prepare_file, act_file, undo_listening, LISTENED("hab_sample"),
	     .text = "1"),
};
/* clang-format on */
const size_t fail_nr_steps = sizeof(fail_steps) / sizeof(fail_steps[0]);

/* Loading the module. */

static int act_load(struct state *state)
{
	return or_errno(syscall(SYS_finit_module, state->target, "max_heaps_per_user=100", 0));
}

/* A process that reads one of its files just now keeps the module busy. */
int fail_unload(void)
{
	int err, tries;

	for (tries = 0; tries < 100; tries++) {
		err = or_errno(syscall(SYS_delete_module, "hab", O_NONBLOCK));
		if (err != -EAGAIN && err != -EBUSY)
			break;
		usleep(20000);
	}
	return err;
}

static int prepare_load(struct state *state)
{
	if (!access("/sys/module/hab", F_OK) || !access("/dev/hab", F_OK))
		return -EEXIST;
	state->target = open(MODULE, O_RDONLY | O_CLOEXEC);
	return or_errno(state->target);
}

static void undo_load(struct state *state)
{
	close(state->target);
	if (state->done)
		fail_unload();
}

const struct step fail_load_step = STEP("loading", prepare_load, act_load, undo_load);
