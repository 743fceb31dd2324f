// SPDX-License-Identifier: GPL-2.0-only
/* Strategies of the adversary with files and mappings that habd looks at. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adversary.h"
#include "selftests/fuzz/elf_file.h"

#define PAGE	     4096ul
#define LEASES	     300
#define MEMFDS	     4500 /* more than the table of binaries has */
#define ROOT_FILES   4500
#define NAMES	     4500
#define MAPPINGS     60000ul /* below the kernel's limit of 65530 */
#define TARGETS	     8
#define SYMBOLS	     3900000ull
#define SYMBOL_FILES 3
#define ID_OFFSET    (ELF_NOTE + 16)

/* The mapped files that frames are drawn from. */
static uint64_t mapped[MEMFDS];
static unsigned int nr_mapped;
static uint64_t mapped_bytes = PAGE; /* of each */

static uint64_t draw_mapped(void)
{
	uint64_t random = adversary_random();

	return nr_mapped ? mapped[random % nr_mapped] + (random >> 32) % mapped_bytes :
			   random >> 17;
}

static bool map_executable(int fd, uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	if (at == MAP_FAILED) {
		adversary_add(COUNT_FAILED, 1);
		return false;
	}
	if (nr_mapped < MEMFDS)
		mapped[nr_mapped++] = (uint64_t)(uintptr_t)at;
	return true;
}

static void unmap_all(void)
{
	while (nr_mapped)
		munmap((void *)(uintptr_t)mapped[--nr_mapped], mapped_bytes);
}

/* An ELF file with a build id of its own. */
static bool write_small_elf(int fd)
{
	uint8_t file[ELF_ROOM];
	uint64_t id = adversary_random();

	elf_file_make(file);
	memcpy(file + ID_OFFSET, &id, sizeof(id));
	return pwrite(fd, file, sizeof(file), 0) == sizeof(file);
}

/* --- leases ------------------------------------------------------------------------- */

static volatile sig_atomic_t breaks;

static void on_break(int number)
{
	(void)number;
	breaks++;
}

static int make_leased(const char *folder, unsigned int number)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%u", folder, number);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	if (fd < 0 || !write_small_elf(fd) || !map_executable(fd, PAGE)) {
		adversary_add(COUNT_FAILED, 1);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

/* A lease that was broken is taken again as soon as the kernel permits it. */
static void renew(int fd)
{
	if (fd < 0 || fcntl(fd, F_GETLEASE) == F_WRLCK)
		return;
	if (!fcntl(fd, F_SETLEASE, F_WRLCK))
		adversary_add(COUNT_OPERATIONS, 1);
}

/* Executable files with a lease: an open that blocks waits for lease-break-time (45 s). */
void strategy_lease(void)
{
	struct sigaction action = { .sa_handler = on_break, .sa_flags = SA_RESTART };
	char folder[] = "/tmp/adversary-XXXXXX";
	int fds[LEASES], i;

	sigaction(SIGIO, &action, NULL);
	if (!mkdtemp(folder))
		return;
	for (i = 0; i < LEASES; i++)
		fds[i] = make_leased(folder, (unsigned int)i);
	while (adversary_runs()) {
		for (i = 0; i < LEASES; i++)
			renew(fds[i]);
		heap_announce(20, 8, draw_mapped);
		adversary_sleep_ms(100);
	}
	adversary_add(COUNT_EFFECTS, (uint64_t)breaks);
}

/* --- many files, many mappings -------------------------------------------------------- */

static bool map_memfd(unsigned int number)
{
	char name[64];
	bool ok;
	int fd;

	snprintf(name, sizeof(name), "adversary-%u-%llx", number,
		 (unsigned long long)adversary_random());
	fd = memfd_create(name, MFD_CLOEXEC);
	/* Every other one is no ELF file. */
	ok = fd >= 0 && (number % 2 ? write_small_elf(fd) : !ftruncate(fd, PAGE)) &&
	     map_executable(fd, PAGE);
	if (fd >= 0)
		close(fd);
	return ok;
}

/* More files than habd has room for, and others the next time. */
void strategy_memfds(void)
{
	unsigned int i;

	while (adversary_runs()) {
		for (i = 0; i < MEMFDS && adversary_runs(); i++)
			if (map_memfd(i))
				adversary_add(COUNT_OPERATIONS, 1);
		for (i = 0; i < 10 && adversary_runs(); i++) {
			heap_announce(50, 32, draw_mapped);
			adversary_sleep_ms(100);
		}
		unmap_all();
	}
}

#ifndef PR_SET_VMA
#define PR_SET_VMA	     0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

/* Anonymous memory with thousands of names. */
void strategy_names(void)
{
	unsigned int i;
	char name[64];
	char *area = mmap(NULL, 2 * NAMES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		return;
	if (prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, area, PAGE, "test") && errno == EINVAL)
		adversary_skip("this kernel has no CONFIG_ANON_VMA_NAME");
	while (adversary_runs()) {
		for (i = 0; i < NAMES && adversary_runs(); i++) {
			snprintf(name, sizeof(name), "n%llx",
				 (unsigned long long)adversary_random());
			mprotect(area + 2 * i * PAGE, PAGE, PROT_READ | PROT_EXEC);
			if (!prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, area + 2 * i * PAGE, PAGE,
				   name))
				adversary_add(COUNT_OPERATIONS, 1);
		}
		heap_announce(50, 32, draw_mapped);
		adversary_sleep_ms(200);
	}
}

static int map_root_file(const char *path, const struct stat *status, int type, struct FTW *place)
{
	int fd;

	(void)place;
	if (nr_mapped >= ROOT_FILES || !adversary_runs())
		return 1;
	if (type != FTW_F || !S_ISREG(status->st_mode) || status->st_uid || !status->st_size)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (map_executable(fd, PAGE))
		adversary_add(COUNT_OPERATIONS, 1);
	close(fd);
	return 0;
}

/* Thousands of files of root, in the folder of the argument: another user maps them. */
void strategy_root_files(void)
{
	if (!adversary_argument(0))
		return;
	nftw(adversary_argument(0), map_root_file, 32, FTW_PHYS);
	while (adversary_runs()) {
		heap_announce(50, 8, draw_mapped);
		adversary_sleep_ms(200);
	}
}

/* A process whose maps are megabytes of text. */
void strategy_mappings(void)
{
	char *area = mmap(NULL, MAPPINGS * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long i;

	if (area == MAP_FAILED)
		return;
	for (i = 0; i < MAPPINGS && adversary_runs(); i += 2)
		if (!mprotect(area + i * PAGE, PAGE, PROT_READ | (i % 16 ? 0 : PROT_EXEC)))
			adversary_add(COUNT_OPERATIONS, 1);
	while (adversary_runs()) {
		heap_announce(5, 8, draw_mapped);
		adversary_sleep_ms(50);
	}
}

/* --- ELF files that mislead ----------------------------------------------------------- */

#define FORGED_SYMBOLS 640
#define FORGED_BYTES   4096ul

/* A file with the build id of @path and other functions, of the same name in another folder. */
static bool map_forged(const char *folder, const char *path, unsigned int number)
{
	struct elf_shape shape = { .nr_symbols = FORGED_SYMBOLS, .symbol_bytes = FORGED_BYTES };
	char forged[PATH_MAX];
	const char *base = strrchr(path, '/');
	bool ok;
	int fd;

	if (!elf_read_build_id(path, shape.build_id))
		return false;
	if (number % 2) {
		fd = memfd_create(base ? base + 1 : path, MFD_CLOEXEC);
	} else {
		snprintf(forged, sizeof(forged), "%s/%s", folder, base ? base + 1 : path);
		unlink(forged);
		fd = open(forged, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	}
	ok = fd >= 0 && elf_write(fd, &shape) && map_executable(fd, mapped_bytes);
	if (fd >= 0)
		close(fd);
	return ok;
}

/* Files with the build ids of the honest programs (the arguments), anew every few seconds. */
void strategy_forged(void)
{
	char folder[] = "/tmp/adversary-XXXXXX";
	unsigned int i, number = 0;

	mapped_bytes = ELF_FIRST + FORGED_SYMBOLS * FORGED_BYTES;
	if (!mkdtemp(folder))
		return;
	while (adversary_runs()) {
		for (i = 0; adversary_argument(i); i++)
			if (map_forged(folder, adversary_argument(i), number))
				adversary_add(COUNT_OPERATIONS, 1);
		for (i = 0; i < 30 && adversary_runs(); i++) {
			heap_announce(20, 16, draw_mapped);
			adversary_sleep_ms(100);
		}
		unmap_all();
		number++;
	}
}

/* Files with millions of symbols, of which one is written. */
void strategy_symbols(void)
{
	struct elf_shape shape = { .nr_symbols = SYMBOLS, .symbol_bytes = 16, .sparse = true };
	unsigned int i, j;
	int fd;

	mapped_bytes = ELF_FIRST + SYMBOLS * 16;
	for (i = 0; i < SYMBOL_FILES; i++) {
		for (j = 0; j < sizeof(shape.build_id); j++)
			shape.build_id[j] = (uint8_t)adversary_random();
		fd = memfd_create("symbols", MFD_CLOEXEC);
		if (fd >= 0 && elf_write(fd, &shape) && map_executable(fd, mapped_bytes))
			adversary_add(COUNT_OPERATIONS, 1);
		if (fd >= 0)
			close(fd);
	}
	while (adversary_runs()) {
		heap_announce(20, 32, draw_mapped);
		adversary_sleep_ms(100);
	}
}
