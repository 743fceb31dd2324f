// SPDX-License-Identifier: GPL-2.0-only
/*
 * map_file FILE: maps any file as if it were a program, prints its own pid and the address of the
 * file's first byte in hexadecimal, and runs until its standard input ends.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct stat status;
	char byte;
	void *at;
	int fd;

	fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0 || fstat(fd, &status))
		return 1;
	at = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return 1;
	printf("%d %lx\n", getpid(), (unsigned long)at);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}
