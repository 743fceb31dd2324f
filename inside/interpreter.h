/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Functions of a program that an interpreter runs, in the stacks of samples.
 *
 * Each of them runs within a native frame of the interpreter. An interpreter says which one by an
 * address on the stack: so compilers may split or inline the interpreter's functions.
 */
#ifndef HAB_LIB_INTERPRETER_H
#define HAB_LIB_INTERPRETER_H

#include <stdbool.h>

#include "inside/client.h"

#define HAB_INTERPRETER_FUNCTION 200 /* bytes of names; the ends of longer ones are kept */
#define HAB_INTERPRETER_FILE	 400

/* Where a function is: @code is what the interpreter knows it by, @place is within it. */
struct hab_interpreter_place {
	u64 code;
	u64 place;
};

struct hab_interpreter_name {
	u32 line; /* 0: not known */
	u32 function_length;
	u32 file_length;
	char function[HAB_INTERPRETER_FUNCTION];
	char file[HAB_INTERPRETER_FILE];
};

struct hab_interpreter_walk;

/**
 * struct hab_interpreter - an interpreter that may be in the process
 * @find: called once, while the library is loaded: false: it is not there, or of a version that is
 *	not known. It may take the dynamic linker's lock
 * @is_running: true if the calling thread may run functions. It takes little of the stack
 * @walk: calls hab_interpreter_add() for each function that the calling thread runs, the innermost
 *	first
 * @key: a number that no other place has, and none that was there before in the same memory
 * @name: false: it does not look as expected
 * @state: for the channel, also where @find has failed: see struct hab_channel, @interpreter
 *
 * All but @find are called inside of an allocation, by any thread, in signal handlers too: they
 * take no lock and no memory. They read what the thread runs, which cannot change meanwhile.
 */
struct hab_interpreter {
	bool (*find)(struct hab_interpreter *interpreter);
	bool (*is_running)(void);
	void (*walk)(struct hab_interpreter_walk *walk);
	u64 (*key)(const struct hab_interpreter_place *place);
	bool (*name)(const struct hab_interpreter_place *place, struct hab_interpreter_name *name);
	u64 (*state)(void);
	u64 code_low; /* this and the next: where the code of the interpreter is */
	u64 code_high;
	u64 loop_low; /* this and the next: of its function that runs others; 0: not known */
	u64 loop_high;
};

#define HAB_INTERPRETER_LATER ~0ull

/**
 * hab_interpreter_add - the next function that the thread runs
 * @walk: that the interpreter was called with
 * @place: of the function
 * @stack: an address in the native frame that runs it. 0: not known: it is the next one of the
 *	loop. HAB_INTERPRETER_LATER: hab_interpreter_set_stack() follows
 *
 * Return: false: there is room for no more.
 */
bool hab_interpreter_add(struct hab_interpreter_walk *walk,
			 const struct hab_interpreter_place *place, u64 stack);
/* The number of functions so far. */
u32 hab_interpreter_count(const struct hab_interpreter_walk *walk);
/* The native frame of those from @first on is known now. */
void hab_interpreter_set_stack(struct hab_interpreter_walk *walk, u32 first, u64 stack);

/**
 * hab_interpreter_merge - put the functions of an interpreter into a native stack
 * @interpreter: found
 * @client: connected
 * @channel: of it: names that the collector has not got yet are sent
 * @room: has the native stack, and gets the merged one, see hab_stack()
 * @nr: how many frames
 *
 * Return: the new number.
 */
u32 hab_interpreter_merge(const struct hab_interpreter *interpreter,
			  const struct hab_client *client, struct hab_channel *channel,
			  struct hab_stack_room *room, u32 nr);

#endif /* HAB_LIB_INTERPRETER_H */
