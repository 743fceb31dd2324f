// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes two functions at run time that call malloc(), and allocates 100 MB by one and 20 MB by the
 * other; then waits for the end of its input. With the argument "map" it first writes a perf map
 * with their names, as node does. With the argument "alone" a second thread allocates 100 MB once
 * the first has ended, by allocate_alone().
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CODE_BYTES 64

typedef void *(*maker)(size_t size);

static unsigned char *code;
static char map[64];

/* A function with a frame pointer that calls malloc() with its own argument. */
static maker make(unsigned char *at)
{
	uint64_t target = (uint64_t)(uintptr_t)malloc;
#if defined(__x86_64__)
	/* push %rbp; mov %rsp,%rbp; mov $target,%rax; call *%rax; pop %rbp; ret */
	static const unsigned char start[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8 };
	static const unsigned char end[] = { 0xff, 0xd0, 0x5d, 0xc3 };

	memcpy(at, start, sizeof(start));
	memcpy(at + sizeof(start), &target, sizeof(target));
	memcpy(at + sizeof(start) + sizeof(target), end, sizeof(end));
#elif defined(__aarch64__)
	/* stp x29,x30,[sp,#-16]!; mov x29,sp; ldr x16,target; blr x16; ldp x29,x30,[sp],#16; ret */
	static const uint32_t words[] = { 0xa9bf7bfd, 0x910003fd, 0x58000090,
					  0xd63f0200, 0xa8c17bfd, 0xd65f03c0 };

	memcpy(at, words, sizeof(words));
	memcpy(at + sizeof(words), &target, sizeof(target));
	__builtin___clear_cache((char *)at, (char *)at + CODE_BYTES);
#else
#error "write the code of this architecture"
#endif
	return (maker)(uintptr_t)at;
}

static void write_map(void)
{
	FILE *file;

	snprintf(map, sizeof(map), "/tmp/perf-%d.map", getpid());
	file = fopen(map, "wx");
	if (!file)
		exit(3);
	fprintf(file, "%lx %x made_large\n", (unsigned long)(uintptr_t)code, CODE_BYTES);
	fprintf(file, "%lx %x made_small\n", (unsigned long)(uintptr_t)code + CODE_BYTES,
		CODE_BYTES);
	fclose(file);
}

static bool has_ended(void)
{
	char path[64], line[64] = "", state = 'R';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
	file = fopen(path, "r");
	if (file && fgets(line, sizeof(line), file))
		sscanf(line, "%*d %*s %c", &state);
	if (file)
		fclose(file);
	return state == 'Z';
}

static __attribute__((noinline)) void *allocate_alone(void *none)
{
	void *volatile p;
	int i;

	for (i = 0; i < 1000; i++) {
		p = malloc(100000);
		free(p);
	}
	return none;
}

static void *run_alone(void *none)
{
	while (!has_ended())
		usleep(1000);
	allocate_alone(none);
	exit(0);
}

int main(int argc, char **argv)
{
	maker large, small;
	pthread_t thread;
	int i;

	if (argc > 1 && !strcmp(argv[1], "alone")) {
		if (pthread_create(&thread, NULL, run_alone, NULL))
			return 2;
		pthread_exit(NULL);
	}
	code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (code == MAP_FAILED)
		return 2;
	large = make(code);
	small = make(code + CODE_BYTES);
	if (argc > 1)
		write_map();
	/* The preload library reads the maps again after some time only. */
	usleep(50000);
	for (i = 0; i < 1000; i++) {
		free(large(100000));
		free(small(20000));
	}
	while (getchar() != EOF)
		;
	unlink(map);
	return 0;
}
