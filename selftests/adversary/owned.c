// SPDX-License-Identifier: GPL-2.0-only
/*
 * An honest program of the owners' test, watched by the preload library: six functions allocate
 * blocks of known sizes at a steady pace and free them, and one keeps what it allocates once, at
 * the start. It prints its own counts as honest.c does, so that habd's can be compared with them.
 *
 *	copper_owned ROUNDS PACE_US [UID]	ends after ROUNDS; 0: at SIGTERM it prints, and
 *						stays until it is killed
 *
 * With UID it begins as root, and becomes that user after BEFORE rounds.
 *
 * Built once for each value of PROGRAM, so that the names of its functions differ.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define UNIT	    4096
#define FUNCTIONS   6
#define BEFORE	    100
#define KEPT	    16
#define KEPT_BYTES  (1u << 20)
#define JOIN_(a, b) a##_##b
#define JOIN(a, b)  JOIN_(a, b)
#define TEXT_(a)    #a
#define TEXT(a)	    TEXT_(a)
#define FUNCTION(n) JOIN(PROGRAM, n)

static uint64_t objects[FUNCTIONS], bytes[FUNCTIONS];
static void *volatile kept[KEPT];
static volatile sig_atomic_t stop;

static void on_term(int number)
{
	(void)number;
	stop = 1;
}

#define DEFINE(n)                                                \
	__attribute__((noinline)) static void FUNCTION(n)(void)  \
	{                                                        \
		void *volatile block = malloc(((n) + 1) * UNIT); \
                                                                 \
		if (block) {                                     \
			objects[n]++;                            \
			bytes[n] += ((n) + 1) * UNIT;            \
		}                                                \
		free(block);                                     \
	}

DEFINE(0)
DEFINE(1)
DEFINE(2)
DEFINE(3)
DEFINE(4)
DEFINE(5)

__attribute__((noinline)) static void FUNCTION(kept)(void)
{
	int i;

	for (i = 0; i < KEPT; i++)
		kept[i] = malloc(KEPT_BYTES);
}

static void print_counts(void)
{
	uint64_t all_objects = KEPT, all_bytes = (uint64_t)KEPT * KEPT_BYTES;
	unsigned int i;

	for (i = 0; i < FUNCTIONS; i++) {
		printf("function " TEXT(PROGRAM) "_%u %llu %llu\n", i,
		       (unsigned long long)objects[i], (unsigned long long)bytes[i]);
		all_objects += objects[i];
		all_bytes += bytes[i];
	}
	printf("function " TEXT(PROGRAM) "_kept %u %u\n", KEPT, KEPT * KEPT_BYTES);
	printf("live " TEXT(PROGRAM) "_kept %u\n", KEPT * KEPT_BYTES);
	printf("program " TEXT(PROGRAM) "\npid %d\nuid %u\nobjects %llu\nbytes %llu\nended 1\n",
	       getpid(), getuid(), (unsigned long long)all_objects, (unsigned long long)all_bytes);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 0, i;
	unsigned long pace_us = argc > 2 ? strtoul(argv[2], NULL, 10) : 5000;
	uid_t becomes = argc > 3 ? (uid_t)strtoul(argv[3], NULL, 10) : 0;
	struct sigaction action = { .sa_handler = on_term };
	struct timespec pace = { 0, (long)(pace_us * 1000) };
	static char buffer[4096];

	/* The stream would allocate one. */
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	sigaction(SIGTERM, &action, NULL);
	FUNCTION(kept)();
	for (i = 0; !stop && (!rounds || i < rounds); i++) {
		FUNCTION(0)();
		FUNCTION(1)();
		FUNCTION(2)();
		FUNCTION(3)();
		FUNCTION(4)();
		FUNCTION(5)();
		nanosleep(&pace, NULL);
		if (becomes && i == BEFORE && setresuid(becomes, becomes, becomes))
			return 1;
	}
	print_counts();
	while (!rounds)
		pause();
	return 0;
}
