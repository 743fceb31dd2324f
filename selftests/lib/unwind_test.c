// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stacks: they equal those of the compiler's unwinder, and rows of unwind tables those that readelf
 * prints.
 */
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "kselftest_harness.h"
#include "inside/unwind.h"
#include "inside/unwind_table.h"
#include "selftests/lib/registers.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
TEST(stack_equals_the_compilers)
{
	SKIP(return, "not x86-64 or arm64: the compiler's unwinder is the only one");
}
#else

#define DEPTH	 64
#define PAGE	 ((unsigned long)sysconf(_SC_PAGESIZE))

/* What the two unwinders say at the same place. */
static struct stacks {
	uint64_t ours[DEPTH], compilers[DEPTH];
	uint32_t nr_ours, nr_compilers;
	int err;
} stacks;

static _Unwind_Reason_Code add(struct _Unwind_Context *context,
			       void *argument __attribute__((unused)))
{
	uint64_t pc = _Unwind_GetIP(context);

	if (stacks.nr_compilers == DEPTH)
		return _URC_END_OF_STACK;
	if (pc)
		stacks.compilers[stacks.nr_compilers++] = pc;
	return _URC_NO_REASON;
}

__attribute__((noinline)) static void look(void)
{
	stacks.nr_compilers = 0;
	_Unwind_Backtrace(add, NULL);
	errno = 77;
	stacks.nr_ours = hab_unwind(0, stacks.ours, NULL, DEPTH, 0);
	stacks.err = errno;
}

/* Index of the first difference, behind the two calls in look(); -1: none. */
static int difference(void)
{
	uint32_t i;

	if (stacks.nr_ours != stacks.nr_compilers)
		printf("# %u frames, the compiler's unwinder %u\n", stacks.nr_ours,
		       stacks.nr_compilers);
	for (i = 1; i < stacks.nr_compilers || i < stacks.nr_ours; i++)
		if (i >= stacks.nr_ours || i >= stacks.nr_compilers ||
		    stacks.ours[i] != stacks.compilers[i])
			return (int)i;
	return -1;
}

#define NOINLINE __attribute__((noinline, optimize("omit-frame-pointer")))

static volatile int depth_left;
static void (*volatile at_leaf)(void) = look;

NOINLINE static int without_frame_pointer(int a, int b)
{
	volatile char bytes[100];

	bytes[a] = (char)b;
	if (--depth_left > 0)
		return without_frame_pointer(b, a) + bytes[a];
	at_leaf();
	return bytes[a];
}

NOINLINE static int with_alloca(int bytes)
{
	volatile char *room = alloca((size_t)bytes);

	room[bytes - 1] = 1;
	return without_frame_pointer(1, 2) + room[bytes - 1];
}

/* Aligned locals of a function with alloca make the compiler realign the stack. */
NOINLINE static int realigned(int bytes)
{
	_Alignas(64) volatile char line[64];
	volatile char *room = alloca((size_t)bytes);

	line[0] = 2;
	room[0] = 1;
	return with_alloca(bytes) + line[0] + room[0];
}

static int compare(const void *a, const void *b)
{
	if (depth_left)
		realigned(1000);
	depth_left = 0;
	return *(const int *)a - *(const int *)b;
}

NOINLINE static void sort(void)
{
	int numbers[] = { 3, 1, 2 };

	qsort(numbers, 3, sizeof(numbers[0]), compare);
}

TEST(stack_equals_the_compilers)
{
	for (int depth = 1; depth < 40; depth += 7) {
		depth_left = depth;
		sort();
		EXPECT_EQ(-1, difference());
		EXPECT_LT((uint32_t)depth, stacks.nr_ours);
	}
}

static void *thread_main(void *argument __attribute__((unused)))
{
	depth_left = 3;
	sort();
	return NULL;
}

TEST(stack_of_a_thread_equals_the_compilers)
{
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, thread_main, NULL));
	pthread_join(thread, NULL);
	EXPECT_EQ(-1, difference());
}

static void handle(int number __attribute__((unused)))
{
	depth_left = 2;
	sort();
}

static void raise_signal(void)
{
	raise(SIGUSR1);
}

static void take_signal(struct __test_metadata *_metadata, int flags)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = flags }, before;

	ASSERT_EQ(0, sigaction(SIGUSR1, &action, &before));
	raise_signal();
	EXPECT_EQ(-1, difference());
	EXPECT_LT(8u, stacks.nr_ours);
	sigaction(SIGUSR1, &before, NULL);
}

TEST(stack_in_a_signal_handler_equals_the_compilers)
{
	take_signal(_metadata, 0);
}

TEST(stack_in_a_handler_with_a_stack_of_its_own_equals_the_compilers)
{
	stack_t own = { .ss_sp = malloc(65536), .ss_size = 65536 };

	ASSERT_EQ(0, sigaltstack(&own, NULL));
	take_signal(_metadata, SA_ONSTACK);
}

/* A function whose first instruction is interrupted; what is before it has no table. */
#ifdef __x86_64__
#define UNDEFINED "ud2"
#define UNDEFINED_BYTES 2
#else
#define UNDEFINED "udf #0"
#define UNDEFINED_BYTES 4
#endif
__asm__(".text\n\tnop\n\tnop\n\tnop\n\tnop\n"
	"interrupted_at_once:\n\t.cfi_startproc\n\t" UNDEFINED "\n\tret\n\t.cfi_endproc\n");
extern void interrupted_at_once(void);

static void leave_instruction(int number __attribute__((unused)),
			      siginfo_t *info __attribute__((unused)), void *context)
{
	look();
	PC_OF_CONTEXT((ucontext_t *)context) += UNDEFINED_BYTES;
}

TEST(stack_of_an_interrupted_first_instruction_equals_the_compilers)
{
	struct sigaction action = { .sa_sigaction = leave_instruction, .sa_flags = SA_SIGINFO },
			 before;

	ASSERT_EQ(0, sigaction(SIGILL, &action, &before));
	interrupted_at_once();
	sigaction(SIGILL, &before, NULL);
	EXPECT_EQ(-1, difference());
	EXPECT_LT(5u, stacks.nr_ours);
}

TEST(errno_is_kept)
{
	look();
	EXPECT_EQ(77, stacks.err);
}

TEST(frames_below_the_entry_are_left_out)
{
	uint64_t frames[DEPTH];
	uint32_t all = hab_unwind(0, frames, NULL, DEPTH, 0);
	uint64_t outer = frames[1];

	EXPECT_EQ(all - 1, hab_unwind((uintptr_t)__builtin_frame_address(0) + 16, frames, NULL, DEPTH,
				      0));
	EXPECT_EQ(outer, frames[0]);
}

TEST(no_more_frames_than_there_is_room_for)
{
	uint64_t frames[3] = { 0, 0, 42 };

	EXPECT_EQ(2, hab_unwind(0, frames, NULL, 2, 0));
	EXPECT_EQ(42, frames[2]);
}

/* --- code without tables -------------------------------------------------------------- */

#ifdef __x86_64__
/* push rbp; mov rbp, rsp; call *rdi; nop; pop rbp; ret */
static const uint8_t with_pointer[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x90, 0x5d, 0xc3 };
/* push rbp; mov rbp, rsi; call *rdi; nop; pop rbp; ret: the frame pointer is @garbage */
static const uint8_t with_garbage[] = { 0x55, 0x48, 0x89, 0xf5, 0xff, 0xd7, 0x90, 0x5d, 0xc3 };
/*
 * What ends where the call returns to:
 * sub rsp, 8; call *rdi; add rsp, 8; ret, as CPython's (-X perf)
 * push rbp; mov rbp, rsi; sub rsp, 16; call *rdi; add rsp, 16; pop rbp; ret
 * push rbx; push rbp; push r12; mov rbp, rsi; call *rdi; pop r12; pop rbp; pop rbx; ret
 */
static const uint8_t trampolines[][24] = {
	{ 0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3 },
	{ 0x55, 0x48, 0x89, 0xf5, 0x48, 0x83, 0xec, 0x10, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x10, 0x5d,
	  0xc3 },
	{ 0x53, 0x55, 0x41, 0x54, 0x48, 0x89, 0xf5, 0xff, 0xd7, 0x41, 0x5c, 0x5d, 0x5b, 0xc3 },
};
#else
/* stp x29, x30, [sp, #-16]!; mov x29, sp; blr x0; nop; ldp x29, x30, [sp], #16; ret */
static const uint32_t with_pointer[] = { 0xa9bf7bfd, 0x910003fd, 0xd63f0000,
					 0xd503201f, 0xa8c17bfd, 0xd65f03c0 };
/* The same with a frame of 64 bytes, whose end is not next to the frame pointer. */
static const uint32_t with_large_frame[] = { 0xa9bc7bfd, 0x910003fd, 0xd63f0000,
					     0xd503201f, 0xa8c47bfd, 0xd65f03c0 };
/* With mov x29, x1: the frame pointer is @garbage. */
static const uint32_t with_garbage[] = { 0xa9bf7bfd, 0xaa0103fd, 0xd63f0000,
					 0xd503201f, 0xa8c17bfd, 0xd65f03c0 };
#endif

typedef void (*made_code)(void (*leaf)(void), uintptr_t garbage);

static made_code make_code(const void *bytes, size_t size)
{
	uint8_t *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(code, bytes, size);
	__builtin___clear_cache((char *)code, (char *)code + size);
	return (made_code)code;
}

NOINLINE static void call_made(made_code code, uintptr_t garbage)
{
	code(look, garbage);
	depth_left = 0; /* no tail call */
}

/* And what it was called by, up to main(). */
static void expect_left(struct __test_metadata *_metadata, made_code code)
{
	uint32_t i, made = 0, own = 0;
	uintptr_t low = (uintptr_t)call_made;

	call_made(code, 4711);
	for (i = 0; i < stacks.nr_ours; i++) {
		if (stacks.ours[i] - (uintptr_t)code < PAGE)
			made = i;
		if (made && !own && stacks.ours[i] - low < 64)
			own = i;
	}
	EXPECT_EQ(1, made);
	EXPECT_EQ(2, own);
	EXPECT_LT(5u, stacks.nr_ours);
}

TEST(made_code_is_left_by_its_frame_pointer)
{
	expect_left(_metadata, make_code(with_pointer, sizeof(with_pointer)));
}

#ifdef __aarch64__
TEST(made_code_with_a_large_frame_is_left_by_its_frame_pointer)
{
	uint32_t nr;

	expect_left(_metadata, make_code(with_pointer, sizeof(with_pointer)));
	nr = stacks.nr_ours;
	expect_left(_metadata, make_code(with_large_frame, sizeof(with_large_frame)));
	EXPECT_EQ(nr, stacks.nr_ours);
}
#endif

#ifdef __x86_64__
TEST(made_code_without_a_frame_pointer_is_left_by_its_last_instructions)
{
	uint32_t i;

	for (i = 0; i < sizeof(trampolines) / sizeof(trampolines[0]); i++)
		expect_left(_metadata, make_code(trampolines[i], sizeof(trampolines[i])));
}

/* The compiler's unwinder reads there. */
NOINLINE static void look_alone(void)
{
	stacks.nr_ours = hab_unwind(0, stacks.ours, NULL, DEPTH, 0);
}

TEST(instructions_behind_the_end_of_code_are_not_read)
{
	uint8_t *code = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t bytes;

	ASSERT_EQ(0, mprotect(code + PAGE, PAGE, PROT_NONE));
	/* Each end of the page, from the last instruction on. */
	for (bytes = 11; bytes < 40; bytes++) {
		memset(code, 0x90, PAGE);
		memcpy(code + PAGE - bytes, trampolines[0], 11);
		((made_code)(code + PAGE - bytes))(look_alone, 4711);
		EXPECT_LT(5u, stacks.nr_ours);
		EXPECT_EQ((uintptr_t)code + PAGE - bytes + 6, stacks.ours[1]);
	}
}
#endif

TEST(wrong_frame_pointers_are_not_followed)
{
	made_code code = make_code(with_garbage, sizeof(with_garbage));
	uint8_t *edge =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uintptr_t garbage[] = { 1,
				      8,
				      0xdeadbeefdeadbeef,
				      UINTPTR_MAX,
				      UINTPTR_MAX - 15,
				      (uintptr_t)edge + PAGE - 8,
				      (uintptr_t)edge + PAGE - 16,
				      1ull << 63 };
	uint32_t i;

	ASSERT_EQ(0, mprotect(edge + PAGE, PAGE, PROT_NONE));
	for (i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		call_made(code, garbage[i]);
		EXPECT_LE(2, stacks.nr_ours);
	}
	/* Just above the stack pointer, what follows is not readable. */
	for (i = 0; i < 2000; i++)
		call_made(code, (uintptr_t)__builtin_frame_address(0) + 8 * i);
}

/* --- tables --------------------------------------------------------------------------- */

struct binary {
	const char *name; /* end of its file name */
	char path[4096];
	uintptr_t base, low, high;
	size_t header_bytes; /* up to the end of its segment */
	const void *header;
};

static int find_binary(struct dl_phdr_info *info, size_t size __attribute__((unused)),
		       void *argument)
{
	struct binary *binary = argument;
	int i;

	if (!strstr(info->dlpi_name, binary->name))
		return 0;
	snprintf(binary->path, sizeof(binary->path), "%s", info->dlpi_name);
	binary->base = info->dlpi_addr;
	binary->low = UINTPTR_MAX;
	binary->high = 0;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_GNU_EH_FRAME)
			binary->header = (const void *)(info->dlpi_addr + segment->p_vaddr);
	}
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type != PT_LOAD)
			continue;
		if (start < binary->low)
			binary->low = start & -PAGE;
		if (start + segment->p_memsz > binary->high)
			binary->high = start + segment->p_memsz;
		if (binary->header && (uintptr_t)binary->header - start < segment->p_memsz)
			binary->header_bytes =
				start + segment->p_memsz - (uintptr_t)binary->header;
	}
	return 1;
}

#ifdef __x86_64__
#define SP_NAME "rsp"
#define FP_NAME "rbp"
#else
#define SP_NAME "sp"
#define FP_NAME "x29"
#endif

/* Columns of readelf's table of one entry. */
struct columns {
	int fp, ra, nr;
};

static void read_columns(char *line, struct columns *columns)
{
	char *word, *rest = NULL;

	columns->fp = columns->ra = -1;
	columns->nr = 0;
	for (word = strtok_r(line, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
		if (!strcmp(word, FP_NAME))
			columns->fp = columns->nr;
		if (!strcmp(word, "ra"))
			columns->ra = columns->nr;
		columns->nr++;
	}
}

/* A row as text, like readelf's: the frame's end, the frame pointer, the return address. */
static void print_row(const struct hab_unwind_row *row, char *end, char *fp, char *ra)
{
	strcpy(fp, "u");
	strcpy(ra, "u");
	switch (row->base) {
	case HAB_UNWIND_SP:
		sprintf(end, SP_NAME "%+d", row->end);
		break;
	case HAB_UNWIND_FP:
		sprintf(end, FP_NAME "%+d", row->end);
		break;
	case HAB_UNWIND_AT_FP:
		strcpy(end, "exp");
		break;
	default:
		sprintf(end, "base %d", row->base);
	}
	if (row->fp == HAB_UNWIND_SAVED)
		sprintf(fp, "c%+d", row->fp_offset);
	if (row->fp == HAB_UNWIND_SAVED_FP)
		strcpy(fp, "exp");
	if (row->ra == HAB_UNWIND_SAVED)
		sprintf(ra, "c%+d", row->ra_offset);
}

struct comparison {
	unsigned long rows, unknown, different;
};

static void compare_row(const struct binary *binary, const struct columns *columns, char *line,
			struct comparison *comparison)
{
	char *words[32] = {}, *word, *rest = NULL, end[32], fp[32], ra[32];
	const char *wanted_fp, *wanted_ra;
	struct hab_unwind_row row;
	uintptr_t pc;
	int nr = 0;

	/* "r10 (r10)" is one column. */
	for (word = strtok_r(line, " \n", &rest); word && nr < 32;
	     word = strtok_r(NULL, " \n", &rest))
		if (word[0] != '(')
			words[nr++] = word;
	if (!words[1] || !strtoull(words[0], NULL, 16))
		return; /* what entries have in common is at 0 */
	pc = binary->base + strtoull(words[0], NULL, 16);
	row = hab_unwind_row_find(pc, binary->header, binary->low, binary->high);
	comparison->rows++;
	wanted_fp = columns->fp > 0 ? words[columns->fp] : "u";
	wanted_ra = columns->ra > 0 ? words[columns->ra] : "u";
	/* On arm64 readelf prints the same where a register has the return address. */
	if (row.base == HAB_UNWIND_END && !strcmp(wanted_ra, "u"))
		return;
	if (row.base == HAB_UNWIND_UNKNOWN || row.base == HAB_UNWIND_SIGNAL) {
		comparison->unknown++;
		return;
	}
	print_row(&row, end, fp, ra);
	/* readelf prints s where a function says that the register is as it was. */
	if (!strcmp(wanted_fp, "s"))
		wanted_fp = "u";
	if (!strcmp(wanted_ra, "s"))
		wanted_ra = "u";
	if (!strcmp(end, words[1]) && !strcmp(fp, wanted_fp) && !strcmp(ra, wanted_ra))
		return;
	/* An expression may say anything. */
	if (!strcmp(wanted_fp, "exp") || !strcmp(wanted_fp, "vexp")) {
		comparison->unknown++;
		return;
	}
	if (!comparison->different++)
		printf("# %s %#lx: end %s fp %s ra %s, readelf says %s, %s and %s\n", binary->name,
		       pc - binary->base, end, fp, ra, words[1], wanted_fp, wanted_ra);
}

static void compare_binary(struct __test_metadata *_metadata, const char *name)
{
	struct binary binary = { .name = name };
	struct comparison comparison = {};
	struct columns columns = {};
	char command[4200], *line = NULL;
	size_t room = 0;
	FILE *table;

	ASSERT_EQ(1, dl_iterate_phdr(find_binary, &binary));
	snprintf(command, sizeof(command), "readelf --debug-dump=frames-interp %s 2>/dev/null",
		 binary.path);
	table = popen(command, "r");
	ASSERT_NE(NULL, table);
	while (getline(&line, &room, table) > 0) {
		if (strstr(line, "   LOC "))
			read_columns(line, &columns);
		else if (strspn(line, "0123456789abcdef") == 16 && !strstr(line, " CIE ") &&
			 !strstr(line, " FDE "))
			compare_row(&binary, &columns, line, &comparison);
	}
	free(line);
	pclose(table);
	printf("# %s: %lu rows, %lu not supported, %lu different\n", name, comparison.rows,
	       comparison.unknown, comparison.different);
	EXPECT_LT(10000u, comparison.rows);
	EXPECT_EQ(0, comparison.different);
	EXPECT_GT(comparison.rows / 100, comparison.unknown);
}

TEST(rows_of_libc_are_those_of_readelf)
{
	compare_binary(_metadata, "/libc.so");
}

TEST(rows_of_a_cplusplus_library_are_those_of_readelf)
{
	if (!dlopen("libstdc++.so.6", RTLD_NOW))
		SKIP(return, "no libstdc++ here");
	compare_binary(_metadata, "/libstdc++.so");
}

/* Copies of a binary's tables whose bytes are changed, between pages that cannot be read. */
TEST(damaged_tables_are_not_read_outside_of_the_binary)
{
	struct binary binary = { .name = "/libc.so" };
	size_t size;
	uint8_t *copy, *room;
	unsigned int seed = 1, round, i;

	ASSERT_EQ(1, dl_iterate_phdr(find_binary, &binary));
	size = binary.header_bytes & -PAGE;
	size = size < 64 * PAGE ? size : 64 * PAGE;
	room = mmap(NULL, size + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	copy = room + PAGE;
	ASSERT_EQ(0, mprotect(copy, size, PROT_READ | PROT_WRITE));
	for (round = 0; round < 4000; round++) {
		/* Cut off at any place. */
		size_t length = 100 + (size_t)rand_r(&seed) % (size - 100);
		uint8_t *tables = copy + size - length;
		uintptr_t code = (uintptr_t)tables - 1000000;

		memcpy(tables, binary.header, length);
		for (i = 0; i < 50; i++)
			tables[(size_t)rand_r(&seed) % (i % 5 ? length : 64)] =
				(uint8_t)rand_r(&seed);
		if (round % 2)
			memcpy(tables, binary.header, 12);
		for (i = 0; i < 100; i++)
			hab_unwind_row_find(code + (uintptr_t)rand_r(&seed) % 2000000, tables,
					    (uintptr_t)tables, (uintptr_t)copy + size);
	}
}

#endif
TEST_HARNESS_MAIN
