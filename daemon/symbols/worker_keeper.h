/* SPDX-License-Identifier: GPL-2.0-only */
/* The keeper: a process that starts a worker, waits for its end, reports that, and goes on. */
#ifndef HABD_WORKER_KEEPER_H
#define HABD_WORKER_KEEPER_H

#include <stdbool.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <sys/types.h>

/* The user that workers run as; without it an unused id. */
#define WORKER_USER "hab-reader"

/**
 * struct worker_kind - what a process is for, and what it may do
 * @name: of its processes, at most 15 characters
 * @work: answers the requests that worker_receive() takes from the socket, until that fails
 * @capabilities: what it keeps of habd's
 * @nr_capabilities: number of @capabilities
 * @memory: limit of its address space in bytes
 * @opens_files: it may open files, for reading only
 * @any_call: it may use every system call; else only those that work on its own memory and on
 *	descriptors that it has, and @opens_files'
 */
struct worker_kind {
	const char *name;
	void (*work)(int socket);
	const cap_value_t *capabilities;
	int nr_capabilities;
	rlim_t memory;
	bool opens_files;
	bool any_call;
};

/* The id of WORKER_USER; an unused one if there is no such user. */
uid_t worker_user(gid_t *group);

/*
 * Becomes the keeper of workers of @kind, in a child by fork() of @habd. @socket: where workers and
 * keeper send messages; @control: a byte means that the worker is to be replaced, and the end of it
 * that all ends.
 */
void worker_keep(const struct worker_kind *kind, pid_t habd, int socket, int control)
	__attribute__((noreturn));

#endif /* HABD_WORKER_KEEPER_H */
