// SPDX-License-Identifier: GPL-2.0-only
/*
 * promised CALLS: takes all memory that the kernel still promises (vm.overcommit_memory is 2), and
 * then allocates that often, 0: without end. The preload library then finds no page that it has not
 * had before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OBJECTS 64

static void *volatile objects[OBJECTS];

static unsigned int count_channels(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned int channels = 0;
	char line[4200];

	while (maps && fgets(line, sizeof(line), maps))
		channels += !!strstr(line, "memfd:hab");
	if (maps)
		fclose(maps);
	return channels;
}

static void allocate(unsigned long i)
{
	free(objects[i % OBJECTS]);
	objects[i % OBJECTS] = malloc(1000);
}

int main(int argc, char **argv)
{
	unsigned long calls, i;
	size_t size;

	if (argc != 2)
		return 2;
	calls = strtoul(argv[1], NULL, 10);
	for (i = 0; i < 1000; i++)
		allocate(i);
	printf("channels %u\n", count_channels());
	fflush(stdout);
	for (size = 64ul << 20; size >= 4096; size /= 2)
		while (mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0) != MAP_FAILED)
			;
	for (i = 0; !calls || i < calls; i++)
		allocate(i);
	return 0;
}
