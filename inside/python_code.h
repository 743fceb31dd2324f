/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What CPython's strings and tables of lines say. Nothing here depends on where they are. */
#ifndef HAB_LIB_PYTHON_CODE_H
#define HAB_LIB_PYTHON_CODE_H

#include "core/os.h"

/**
 * hab_python_text - the end of a string as UTF-8
 * @string: its characters
 * @kind: bytes of each: 1, 2 or 4
 * @length: how many there are
 * @to: gets at most 4 bytes for each
 * @most: characters
 *
 * Return: how many bytes.
 */
u32 hab_python_text(const void *string, u32 kind, u64 length, char *to, u32 most);

/**
 * hab_python_line - the line of an instruction
 * @minor: CPython's version, 3.minor
 * @bytes: the table of the code object
 * @length: how many there are
 * @first: the line at which the function begins
 * @place: the instruction: the number of the code unit from 3.10 on, before of the byte
 *
 * The tables are described in CPython's Objects/locations.md and Objects/lnotab_notes.txt.
 *
 * Return: 0: it has none.
 */
u32 hab_python_line(u32 minor, const uint8_t *bytes, u32 length, u32 first, u64 place);

#endif /* HAB_LIB_PYTHON_CODE_H */
