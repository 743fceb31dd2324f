/* SPDX-License-Identifier: GPL-2.0-only */
/* For programs under test: waits until the collector has read what is in the program's channel. */
#ifndef SELFTESTS_OWN_CHANNEL_H
#define SELFTESTS_OWN_CHANNEL_H

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/channel.h"

/* NULL: there is none. Takes no memory of the allocator. */
static inline const struct hab_channel *find_channel(void)
{
	static char text[1 << 20];
	int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	char *name;
	ssize_t got;

	while ((got = read(file, text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)got;
	close(file);
	text[length] = 0;
	name = strstr(text, "/memfd:" HAB_CHANNEL_FILE);
	while (name && name > text && name[-1] != '\n')
		name--;
	return name ? (const void *)strtoul(name, NULL, 16) : NULL;
}

/* Until at most so many bytes of the ring are not read. */
static inline void wait_for_reader(u64 most)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static const struct hab_channel *channel;

	pthread_mutex_lock(&lock);
	if (!channel)
		channel = find_channel();
	pthread_mutex_unlock(&lock);
	while (channel && READ_ONCE(channel->head) - READ_ONCE(channel->tail) > most)
		usleep(200);
}

#endif /* SELFTESTS_OWN_CHANNEL_H */
