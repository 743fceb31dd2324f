/* SPDX-License-Identifier: GPL-2.0-only */
/* Messages between habd, a keeper and its workers. */
#ifndef HABD_WORKER_MESSAGES_H
#define HABD_WORKER_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORKER_FILES_MAX 128u /* descriptors of a message */

/* The start of each message, in both directions. */
struct worker_head {
	uint64_t number; /* of the request */
	int32_t ended;	 /* set by the keeper: the worker has ended, with @status of waitpid() */
	int32_t status;
};

/* A message: worker_head is the start of its data. */
struct worker_message {
	void *data;
	size_t size; /* room of @data before worker_receive(), then the length */
	int files[WORKER_FILES_MAX];
	unsigned int nr_files;
};

/*
 * False if the other end is closed, or if the message does not fit.
 * worker_receive() sets size and the descriptors, which the caller closes.
 */
bool worker_send(int socket, const struct worker_message *message);
bool worker_receive(int socket, struct worker_message *message);
/* The same, without waiting. */
bool worker_receive_now(int socket, struct worker_message *message);
void worker_close_files(struct worker_message *message);

#endif /* HABD_WORKER_MESSAGES_H */
