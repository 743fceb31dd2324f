/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The way of a channel to the collector: what the environment says of it, the socket, and the
 * memory that is sent. client.c says when.
 */
#ifndef HAB_LIB_CONNECT_H
#define HAB_LIB_CONNECT_H

#include <stdbool.h>

#include "wire/channel.h"

/* Why there is no channel. */
enum hab_obstacle {
	HAB_OBSTACLE_LASTS,
	HAB_OBSTACLE_ABSENT, /* there is no collector */
	HAB_OBSTACLE_BUSY,   /* it has more programs than it has accepted */
};

/* Reads the environment: once, since a program may clear it before it forks. */
void hab_connect_read_settings(void);
bool hab_connect_has_settings(void);
/*
 * What habrun says instead, which attaches to the process. @path: of habd's socket; NULL: habrun is
 * the collector, and opens the channel by itself. Else as in struct hab_channel.
 */
void hab_connect_use_settings(const char *path, u64 interval_least, u64 interval_begin);
/* false: the environment says that there is no collector. */
bool hab_connect_has_address(void);
/* The collector is habrun, and there will be no other. */
bool hab_connect_has_secret(void);
/* Filters of system calls that do not count, see HAB_FILTERS in habrun(1). */
long hab_connect_filters(void);

/* The first call says which root is the first one. */
bool hab_connect_is_in_first_root(void);
/* false: with the rights of another user for a while. */
bool hab_connect_has_one_user(void);
/* false: a file of the channel's size would end the process by SIGXFSZ. */
bool hab_connect_may_write_file(void);

/**
 * hab_connect - connect to the collector
 * @is_later: not the first try: it takes a socket of root's or of the own user's only
 * @obstacle: why not
 *
 * If the queue of the user's socket, or of the shared one, is full, it waits for 10 ms at most.
 *
 * Return: a socket, or -1.
 */
int hab_connect(bool is_later, enum hab_obstacle *obstacle);

/* The memory of a channel, with what the environment says; @fd is its memfd, or -1. NULL: none. */
struct hab_channel *hab_connect_make_channel(int *fd);

/* False: the kernel may refuse a page when it is touched again, which would end the process. */
bool hab_connect_may_free_pages(void);

/* Sends it. Does not wait for an answer. */
bool hab_connect_send_channel(int socket, int fd);

#endif /* HAB_LIB_CONNECT_H */
