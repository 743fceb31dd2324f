/* SPDX-License-Identifier: GPL-2.0-only */
/* The common part of the targets: an input is numbers and pieces, taken from its front. */
#ifndef HAB_FUZZ_H
#define HAB_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

struct input {
	const uint8_t *data;
	size_t size;
};

static inline uint8_t take_byte(struct input *input)
{
	if (!input->size)
		return 0;
	input->size--;
	return *input->data++;
}

static inline uint16_t take_short(struct input *input)
{
	uint16_t high = take_byte(input);

	return (uint16_t)(high << 8 | take_byte(input));
}

/* A broken promise is a crash, with a sentence. */
#define promise(condition)                                                                      \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                                \
		}                                                                               \
	} while (0)

/* The programs' messages about wrong input are not needed here. */
static inline void be_silent(void)
{
	if (!getenv("FUZZ_LOUD") && !freopen("/dev/null", "w", stdout))
		abort();
}

#endif /* HAB_FUZZ_H */
