/* SPDX-License-Identifier: GPL-2.0-only */
/* What every file of habd and habctl needs: memory, text, clocks, messages. */
#ifndef HABD_UTIL_H
#define HABD_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef HAB_VERSION
#define HAB_VERSION "0.1.0"
#endif

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* Exit codes, the same for both programs; Documentation/habd.8 lists them. */
enum exit_code {
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_PRIVILEGE = 3,
	EXIT_MODULE = 4,
	EXIT_BTF = 5,
	EXIT_RUNNING = 6,
	EXIT_ADDRESS = 7,
	EXIT_BPF = 8,
};

/* They end the program with a sentence when memory is out: nothing else would help. */
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *old, size_t count, size_t size);
char *xstrdup(const char *string);
char *xstrndup(const char *string, size_t length);

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_verbose(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_set(const char *program, bool verbose);
bool say_is_verbose(void);

uint64_t clock_monotonic_ns(void);
uint64_t clock_realtime_ns(void);

/* A whole decimal number between low and high and nothing else; false if it is not. */
bool parse_number(const char *string, uint64_t low, uint64_t high, uint64_t *value);

/* Makes a string from outside safe to show: UTF-8 without control characters. */
void clean_string(char *string);
/* The same for an array that may lack its closing NUL; writes size bytes at most. */
void clean_copy(char *to, size_t size, const char *from, size_t from_size);

/* "12.3 MiB" */
void human_bytes(uint64_t bytes, char *out, size_t size);

/* Random, drawn when the program starts. */
extern uint64_t hash_seed;
uint64_t hash_bytes(const void *data, size_t length, uint64_t seed);
uint64_t hash_number(uint64_t number);

/* A string that grows. Zero-initialise; text_end() frees. */
struct text {
	char *data;
	size_t length;
	size_t room;
};

void text_end(struct text *text);
void text_add(struct text *text, const char *string);
void text_bytes(struct text *text, const void *data, size_t length);
void text_printf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* For the text and attribute values of XML and HTML. */
void text_xml(struct text *text, const char *string);
/* For the value of a Prometheus label, without the quotes. */
void text_label(struct text *text, const char *string);

#endif /* HABD_UTIL_H */
