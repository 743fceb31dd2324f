/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A process that is to be attached to: what it is, what is loaded in it, and its memory. Nothing
 * here stops or changes it. What its memory says is its own word: it is read with bounds.
 */
#ifndef HABRUN_TARGET_H
#define HABRUN_TARGET_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TARGET_THREADS_MAX 8192u

/* A binary that is loaded. */
struct module {
	char *name;
	uint64_t base;
	uint64_t end;
	uint64_t bias; /* of its addresses */
	/* Its table of dynamic symbols; NULL: not read yet, or it has none. */
	Elf64_Sym *symbols;
	size_t nr_symbols;
	char *names;
	size_t names_bytes;
	bool is_read;
	bool is_unsafe; /* a thread in it is not borrowed, see safe_point.c */
};

struct target {
	pid_t pid;
	pid_t own_pid; /* as the process sees itself */
	pid_t thread;  /* one that lives: the first may have ended, and has no memory then */
	uid_t user;
	int memory; /* /proc/PID/mem */
	struct module *modules;
	unsigned int nr_modules;
	unsigned int nr_libcs;
	size_t spent; /* on tables of symbols, in bytes */
	struct module *libc;
	struct module *linker;
	struct module *library; /* libhab-malloc.so; NULL: it is not loaded */
};

/*
 * Opens the process @pid; @borrows: one of its threads is to be borrowed. False after a sentence,
 * which says why it cannot be attached to.
 */
bool target_open(struct target *target, pid_t pid, bool borrows);
void target_close(struct target *target);

bool target_read(const struct target *target, uint64_t at, void *to, size_t bytes);
bool target_write(const struct target *target, uint64_t at, const void *from, size_t bytes);

/* False: the module has no table of dynamic symbols, or none that can be read. */
bool target_has_symbols(struct target *target, struct module *module);
/* Its table is not needed any more. */
void target_forget_symbols(struct target *target, struct module *module);
/* Address of a symbol's first definition in the module; 0: it has none. */
uint64_t target_symbol(struct target *target, struct module *module, const char *name);
/* Calls @see with each function that it defines, under each of its versions. */
void target_each_function(struct target *target, struct module *module,
			  void (*see)(const char *name, uint64_t address, uint64_t bytes,
				      void *context),
			  void *context);

/* The threads; at most TARGET_THREADS_MAX. 0: the process has ended. */
unsigned int target_threads(pid_t pid, pid_t *threads);
/* The letter of /proc/PID/task/THREAD/stat, or 0: it has ended. */
char target_thread_state(pid_t pid, pid_t thread);
/*
 * What the thread waits in: a system call and its arguments; -1: it runs, or that is not known.
 */
long target_thread_call(pid_t pid, pid_t thread, uint64_t arguments[6]);
/* The number here of a thread that has the number @own for itself; 0: there is none. */
pid_t target_thread_of(pid_t pid, pid_t own);

#endif /* HABRUN_TARGET_H */
