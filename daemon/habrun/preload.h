/* SPDX-License-Identifier: GPL-2.0-only */
/* What makes a command load the preload library and find its collector. */
#ifndef HABRUN_PRELOAD_H
#define HABRUN_PRELOAD_H

#include <stdbool.h>
#include <stdint.h>

/* The folder and socket of one run. */
struct preload_socket {
	char *folder;
	char *path;
	uint64_t secret[2]; /* only the command's processes can read it */
	int fd;		    /* listens, does not wait; -1: taken over by another */
};

/*
 * How the processes of a run sample, see struct hab_channel and channels_config: they are told by
 * the environment, because their first samples come before the collector takes their channels.
 */
struct preload_sampling {
	uint64_t rate;
	uint64_t interval_least;
	uint64_t interval_begin;
};

/* The preload library's path; NULL after a sentence. free() it. */
char *preload_library(void);
/* False after a sentence: no folder could be made. */
bool preload_socket_open(struct preload_socket *socket);
void preload_socket_close(struct preload_socket *socket);
/*
 * Sets the variables that load the library, and those that it reads: the command inherits them.
 * @socket, @sampling: of the collector; NULL: the collector is habd.
 */
void preload_set_environment(const char *library, const struct preload_socket *socket,
			     const struct preload_sampling *sampling);
/* Where habd listens. */
const char *preload_habd_socket(void);
/* False after a sentence: no collector listens where habd does. */
bool preload_check_habd(void);
/* Writes the drop-in of a systemd unit to standard output. */
void preload_print_unit(const char *library, const char *unit);

#endif /* HABRUN_PRELOAD_H */
