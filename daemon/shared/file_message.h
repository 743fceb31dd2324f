/* SPDX-License-Identifier: GPL-2.0-only */
/* Messages with descriptors, between processes of one program. */
#ifndef HABD_FILE_MESSAGE_H
#define HABD_FILE_MESSAGE_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#define FILE_MESSAGE_MAX 3

/*
 * Sends without waiting, with at most FILE_MESSAGE_MAX descriptors, which stay open here. False:
 * errno says why.
 */
bool file_message_send(int socket, struct iovec *data, unsigned int nr_data, const int *files,
		       unsigned int nr);
/*
 * Receives without waiting. Each of @files gets a descriptor or -1; the kernel closes what is more.
 * The number of bytes, or -1: errno says why.
 */
ssize_t file_message_receive(int socket, struct iovec *data, unsigned int nr_data,
			     int *files, unsigned int nr);

#endif /* HABD_FILE_MESSAGE_H */
