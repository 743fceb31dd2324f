/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HAB_BENCH_REPLAY_OPTIONS_H
#define HAB_BENCH_REPLAY_OPTIONS_H

/**
 * replay_parse_options - fill in replay.options and replay.allocator
 *
 * Ends the program if they make no sense.
 *
 * Return: index of the first trace in @argv.
 */
int replay_parse_options(int argc, char **argv);

#endif /* HAB_BENCH_REPLAY_OPTIONS_H */
