// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs that touch little of what they allocate: malloc_sparse WAY. Prints the most that was
 * resident of it. What they read is checked here.
 *
 * It begins when it can read a byte from descriptor 3.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define KiB  1024ul
#define MiB  (1024 * KiB)
#define MANY 2000
#define MARK 0x1122334455667788

static unsigned char *objects[MANY];

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

/* A word of each @step bytes has to be @word. */
static void expect(const unsigned char *p, size_t size, size_t step, uint64_t word)
{
	size_t at;

	if (!p)
		die("allocation");
	for (at = step / 2; at + sizeof(word) <= size; at += step)
		if (memcmp(p + at, &word, sizeof(word)))
			die("other bytes than before");
}

/* Touches these words. */
static void mark(unsigned char *p, size_t size, size_t step)
{
	const uint64_t word = MARK;
	size_t at;

	if (!p)
		die("allocation");
	for (at = step / 2; at + sizeof(word) <= size; at += step)
		memcpy(p + at, &word, sizeof(word));
}

static unsigned char *sparse(size_t count, size_t size, size_t step)
{
	unsigned char *p = calloc(count, size);

	expect(p, count * size, step, 0);
	mark(p, count * size, step);
	return p;
}

static void expect_zeros(const unsigned char *p, size_t size)
{
	if (!p || *p || memcmp(p, p + 1, size - 1))
		die("no zeros");
}

/* With jemalloc each begins where the kernel has mapped it: at a multiple of 2 MiB. */
static void run_table(void)
{
	size_t size;

	for (size = 126 * MiB; size <= 130 * MiB; size += MiB)
		free(sparse(size / 8, 8, 16 * MiB));
}

/* All at once, as those of a program for numbers. */
static void run_arrays(void)
{
	size_t i;

	for (i = 0; i < 64; i++)
		objects[i] = sparse(4 * MiB, 1, MiB);
}

/* Of multiples of 2 MiB, again and again. */
static void run_rounds(void)
{
	size_t round, i;

	for (round = 0; round < 4; round++) {
		for (i = 0; i < 16; i++)
			objects[i] = sparse(2 * MiB, 1 + i % 4, MiB);
		for (i = 0; i < 16; i++)
			free(objects[i]);
	}
}

/* None has pages of its own in the heap of the C library. */
static void run_small_arrays(void)
{
	size_t i;

	for (i = 0; i < MANY; i++)
		objects[i] = sparse(25 * KiB, 4, 100 * KiB);
}

static void run_heap(void)
{
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TOP_PAD, 64 << 20);
	run_arrays();
}

static void run_aligned(void)
{
	size_t i;

	for (i = 0; i < 32; i += 4) {
		objects[i] = memalign(2 * MiB, 4 * MiB);
		objects[i + 1] = aligned_alloc(64, 4 * MiB);
		objects[i + 2] = valloc(4 * MiB);
		if (posix_memalign((void **)&objects[i + 3], 4096, 4 * MiB))
			die("posix_memalign");
	}
	for (i = 0; i < 32; i++)
		memset(objects[i] + 2 * MiB, 1, 8);
}

static void run_uninitialized(void)
{
	size_t i;

	for (i = 0; i < 32; i++)
		memset((objects[i] = malloc(8 * MiB)), 1, 1);
}

static void run_growing_table(void)
{
	unsigned char *p = sparse(MiB, 1, MiB);
	size_t size;

	for (size = MiB; size < 128 * MiB; size *= 2) {
		p = realloc(p, 2 * size);
		expect(p, size, MiB, MARK);
		mark(p + size, size, MiB);
	}
}

static void run_growing_arrays(void)
{
	size_t i, size;

	for (i = 0; i < 32; i++)
		objects[i] = sparse(MiB, 1, MiB / 2);
	for (size = MiB; size < 8 * MiB; size *= 2)
		for (i = 0; i < 32; i++) {
			objects[i] = reallocarray(objects[i], size, 2);
			expect(objects[i], MiB, MiB / 2, MARK);
		}
}

static void run_shrinking_arrays(void)
{
	size_t i, size;

	for (i = 0; i < 32; i++)
		objects[i] = sparse(8, MiB, MiB);
	for (size = 7 * MiB; size > MiB; size -= 2 * MiB)
		for (i = 0; i < 32; i++) {
			objects[i] = realloc(objects[i], size);
			expect(objects[i], size, MiB, MARK);
		}
}

/*
 * Not sparse: all of them is touched. Beside so many objects the library does not keep all live
 * samples, so some vectors get one as they grow.
 */
static void run_growing_vectors(void)
{
	unsigned char *vectors[12];
	size_t i;

	for (i = 0; i < 12; i++) {
		vectors[i] = malloc(20 * MiB);
		if (!vectors[i])
			die("malloc");
		memset(vectors[i], 1, 20 * MiB);
	}
	for (i = 0; i < 6000; i++)
		if (!malloc(128 * KiB))
			die("malloc");
	for (i = 0; i < 12; i++) {
		vectors[i] = realloc(vectors[i], 40 * MiB);
		if (!vectors[i] || *vectors[i] != 1 ||
		    memcmp(vectors[i], vectors[i] + 1, 20 * MiB - 1))
			die("realloc");
	}
}

/*
 * Not sparse either: @nr buffers of one to four times @unit bytes, each of which is replaced again
 * and again, with small objects between them that stay.
 */
static void replace(size_t nr, size_t unit, size_t rounds)
{
	size_t i, at, size;
	uint64_t random = 1;

	for (i = 0; i < rounds; i++) {
		random = random * 6364136223846793005 + 1442695040888963407;
		at = (random >> 33) % nr;
		size = unit * (1 + (random >> 50) % 4);
		free(objects[at]);
		objects[at] = malloc(size);
		if (!objects[at] || !malloc(16 + (random >> 40) % 64))
			die("malloc");
		memset(objects[at], 1, size);
	}
}

static void run_replaced_buffers(void)
{
	replace(16, MiB, 1500);
}

static void run_replaced_pages(void)
{
	replace(1000, 4 * KiB, 20000);
}

/* Memory that was written and freed is zero again. */
static void run_again(void)
{
	static const size_t sizes[] = { 2000,	   9 * KiB,	100 * KiB, 130 * KiB,
					600 * KiB, 2 * MiB,	3 * MiB,   4 * MiB - 64,
					4 * MiB,   6 * MiB + 5, 33 * MiB };
	size_t round, i, size;

	for (round = 0; round < 3; round++)
		for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			size = sizes[i] - round;
			objects[0] = malloc(size);
			memset(objects[0], 0xff, size);
			objects[1] = malloc(size);
			memset(objects[1], 0xff, size);
			free(objects[0]);
			objects[0] = calloc(1, size);
			expect_zeros(objects[0], size);
			free(objects[1]);
			objects[1] = calloc(size, 1);
			expect_zeros(objects[1], size);
			free(objects[0]);
			free(objects[1]);
		}
}

static void filter(void)
{
	struct sock_filter allow[] = { { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW } };
	struct sock_fprog program = { 1, allow };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		die("seccomp");
}

/* In a sandbox the library makes no call of the system. */
static void run_filtered(void)
{
	filter();
	run_arrays();
}

static void run_filtered_again(void)
{
	filter();
	run_again();
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {
	{ "table", run_table },
	{ "arrays", run_arrays },
	{ "rounds", run_rounds },
	{ "small_arrays", run_small_arrays },
	{ "heap", run_heap },
	{ "aligned", run_aligned },
	{ "uninitialized", run_uninitialized },
	{ "growing_table", run_growing_table },
	{ "growing_arrays", run_growing_arrays },
	{ "shrinking_arrays", run_shrinking_arrays },
	{ "growing_vectors", run_growing_vectors },
	{ "replaced_buffers", run_replaced_buffers },
	{ "replaced_pages", run_replaced_pages },
	{ "again", run_again },
	{ "filtered", run_filtered },
	{ "filtered_again", run_filtered_again },
};

static void print_peak(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];

	while (status && fgets(line, sizeof(line), status))
		if (!strncmp(line, "VmHWM:", 6))
			printf("%s", line + 6);
}

int main(int argc, char **argv)
{
	char byte;
	size_t i;

	if (argc != 2 || read(3, &byte, 1) != 1)
		return 2;
	alarm(60);
	/* A huge page would be touched as a whole. */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	for (i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		if (strcmp(argv[1], ways[i].name))
			continue;
		ways[i].run();
		print_peak();
		return 0;
	}
	return 2;
}
