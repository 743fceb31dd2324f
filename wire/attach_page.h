/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What habrun and a program that it attaches to share: memory of the program, which habrun reads
 * and writes by /proc/PID/mem. Neither side trusts the other: habrun looks at no address that it
 * finds here but by reading there, and opens no descriptor that is not what it has to be.
 *
 * The memory stays in the program for good, and is used again when it is attached to again.
 *
 *	0			code: daemon/attach/stub.c and that of the architecture
 *	HAB_ATTACH_PAGE_OFFSET	struct hab_attach_page
 *	HAB_ATTACH_STATE_OFFSET	vector registers of the borrowed thread
 *	HAB_ATTACH_BYTES	end of the stack on which it calls pthread_create()
 */
#ifndef HAB_CORE_ATTACH_PAGE_H
#define HAB_CORE_ATTACH_PAGE_H

#include "core/os.h"

#define HAB_ATTACH_MAGIC	0x6b636168747461ull
#define HAB_ATTACH_VERSION	6u /* another one after each change here */
#define HAB_ATTACH_PAGE_OFFSET	4096u
#define HAB_ATTACH_STATE_OFFSET 8192u
#define HAB_ATTACH_STATE_BYTES	16384u
#define HAB_ATTACH_BYTES	(96u << 10)
#define HAB_ATTACH_REGISTERS	24u

/* Symbols of the library: its main function, and a pointer to the page. */
#define HAB_ATTACH_MAIN	  "hab_attach_main"
#define HAB_ATTACH_MEMORY "hab_attach_page"

/* What the worker thread does. */
enum hab_attach_state {
	HAB_ATTACH_NONE,
	HAB_ATTACH_WANTS_LIBRARY, /* habrun writes it to @library, then sets @answer */
	HAB_ATTACH_LOADING,
	HAB_ATTACH_HAS_CHANNEL, /* habrun opens @channel and @control, then writes a byte */
	HAB_ATTACH_ON,
	HAB_ATTACH_LEAVING,
	HAB_ATTACH_OFF,
	HAB_ATTACH_FAILED, /* @text or @error says why */
};

enum hab_attach_answer {
	HAB_ATTACH_WAIT,
	HAB_ATTACH_GO_ON,
	HAB_ATTACH_GIVE_UP, /* also: detach */
};

/**
 * struct hab_attach_page - one attaching
 * @magic: HAB_ATTACH_MAGIC
 * @version: HAB_ATTACH_VERSION
 * @pthread_create: this and the next nine: addresses of functions of the C library
 * @main: HAB_ATTACH_MAIN of the library, if it is loaded already; else 0
 * @keep: function of the library that the keeper runs; 0 until there is one
 * @keeper: the pthread_t of the thread that the borrowed one starts
 * @worker: of the one that this one starts
 * @mask: signal mask of the borrowed thread, when it was borrowed
 * @registers: its registers, in the order of the architecture's file
 * @library: memory for the library; @library_bytes: of it
 * @error: address of a string of dlerror(); 0: see @text
 * @interval_least: this and the next as in struct hab_channel
 * @joins: the process connects to habd at @socket; no @channel, no @control
 * @waits: the borrowed thread stops itself when it is done, for habrun to set its registers
 * @done: it has called pthread_create()
 * @is_set: it has set its registers itself, or is about to: habrun has ended
 * @result: of pthread_create(); @worker_result: of the keeper's
 * @state: enum hab_attach_state
 * @answer: enum hab_attach_answer, of habrun
 * @pid: of the process, as it sees itself. Another number than it has: it is a child by fork() of
 *	one that was attached to, and has no worker
 * @keeper_tid: the keeper's number, likewise
 * @tid: the worker's
 * @channel: this and the next: the worker's descriptors, in a table of its own
 * @control: the writing end of a pipe. When nobody has it any more, the process is detached from
 * @patched: references that lead to the library
 * @knows_in_use: the process tells what is in use
 * @bell: a futex on which the keeper waits: it counts what the worker tells it
 * @ended: not 0: the worker has ended, or could not be started
 * @gone: not 0: the keeper has ended, too, and the page may be used again
 * @text: why it failed
 * @library_name: this and the next two: of the memfd; its path; HAB_ATTACH_MAIN
 * @forking: threads that are in fork()
 * @registered: the handlers of fork() are
 * @busy_since: since then, in ns of CLOCK_MONOTONIC, the worker or the keeper has been in the
 *	dynamic linker, whose list fork() does not unlock in the child; 0: neither is
 */
struct hab_attach_page {
	u64 magic;
	u64 version;
	u64 pthread_create;
	u64 pthread_self;
	u64 pthread_detach;
	u64 pthread_join;
	u64 register_atfork;
	u64 errno_location;
	u64 dlopen;
	u64 dlsym;
	u64 dlerror;
	u64 dl_iterate_phdr;
	u64 main;
	u64 keep;
	u64 keeper;
	u64 worker;
	u64 mask;
	u64 registers[HAB_ATTACH_REGISTERS];
	u64 library;
	u64 library_bytes;
	u64 error;
	u64 interval_least;
	u64 interval_begin;
	u32 joins;
	u32 waits;
	u32 done;
	u32 is_set;
	int result;
	int worker_result;
	u32 state;
	u32 answer;
	int pid;
	int keeper_tid;
	int tid;
	int channel;
	int control;
	u32 patched;
	u32 knows_in_use;
	u32 bell;
	u32 ended;
	u32 gone;
	char text[256];
	char socket[108];
	char library_name[24];
	char library_path[40];
	char library_main[24];
	/* Below, habrun writes nothing. */
	u32 forking;
	u32 registered;
	u64 busy_since;
};

#endif /* HAB_CORE_ATTACH_PAGE_H */
