/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Descriptors that the library has for a moment, while other threads open and close theirs. */
#ifndef HAB_LIB_DESCRIPTOR_H
#define HAB_LIB_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Programs with few descriptors do not come to it; the kernel has room for 64 from the start. */
#define HAB_DESCRIPTOR_FIRST 60

/**
 * hab_descriptor_move - give a new descriptor a high number
 * @fd: just opened, or -1
 *
 * A thread of the program may close all descriptors, as closefrom() does, and open its own, which
 * get the lowest numbers. With such a one the library would read and close the program's file.
 * It may still do so between the calls below, because no system call opens a file at a high number.
 *
 * Return: the descriptor; @fd itself if the process may not have the number; or -1.
 */
static inline int hab_descriptor_move(int fd)
{
	int high;

	if (fd < 0)
		return -1;
	high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HAB_DESCRIPTOR_FIRST);
	if (high < 0)
		return errno == EBADF ? -1 : fd;
	syscall(SYS_close, fd);
	return high;
}

#endif /* HAB_LIB_DESCRIPTOR_H */
