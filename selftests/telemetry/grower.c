// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program whose growth is known: grower MEGABYTES SECONDS [huge|again|stays]. It touches three
 * quarters of these in touch_most() and a quarter in touch_some(), in turns of 8 MiB, and prints by
 * how much its anonymous memory has grown, as the kernel counts it. huge: in huge pages. again: it
 * gives the memory back and touches it again for so many seconds, as fast as it can. stays: it does
 * not end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PART ((size_t)2 << 20)
#define TURN (4 * PART)
#define HUGE ((size_t)2 << 20)

static unsigned long long anonymous(void)
{
	unsigned long long kilobytes = 0;
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "RssAnon: %llu", &kilobytes) == 1)
			break;
	if (file)
		fclose(file);
	return kilobytes << 10;
}

static void touch(char *at, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i += 4096)
		((volatile char *)at)[i] = 1;
}

__attribute__((noinline)) void touch_most(char *at)
{
	touch(at, 3 * PART);
	__asm__ volatile("");
}

__attribute__((noinline)) void touch_some(char *at)
{
	touch(at, PART);
	__asm__ volatile("");
}

static void touch_all(char *memory, size_t bytes, useconds_t pause)
{
	size_t done;

	for (done = 0; done + TURN <= bytes; done += TURN) {
		touch_most(memory + done);
		touch_some(memory + done + 3 * PART);
		if (pause)
			usleep(pause);
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 3 ? argv[3] : "";
	size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) << 20 : 0;
	double seconds = argc > 2 ? atof(argv[2]) : 1;
	time_t end = time(NULL) + (time_t)seconds;
	unsigned long long before;
	char *memory = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	if (bytes < TURN || memory == MAP_FAILED)
		return 1;
	memory += -(size_t)memory & (HUGE - 1);
	if (madvise(memory, bytes, strcmp(how, "huge") ? MADV_NOHUGEPAGE : MADV_HUGEPAGE))
		return 1;
	while (!strcmp(how, "again") && time(NULL) < end) {
		touch_all(memory, bytes, 0);
		madvise(memory, bytes, MADV_DONTNEED);
	}
	before = anonymous();
	touch_all(memory, bytes, (useconds_t)(seconds * 1e6 / (double)(bytes / TURN)));
	printf("%llu\n", anonymous() - before);
	fflush(stdout);
	if (!strcmp(how, "stays"))
		pause();
	return 0;
}
