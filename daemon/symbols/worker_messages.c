// SPDX-License-Identifier: GPL-2.0-only
/*
 * Messages with descriptors over a socket. A worker that a file has taken over may send anything.
 */
#include "daemon/symbols/worker_messages.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "core/arithmetic.h"

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(WORKER_FILES_MAX * sizeof(int))];
};

bool worker_send(int socket, const struct worker_message *message)
{
	union control control = { 0 };
	struct iovec data = { message->data, message->size };
	struct msghdr whole = { .msg_iov = &data, .msg_iovlen = 1 };
	size_t size = message->nr_files * sizeof(message->files[0]);

	if (message->nr_files) {
		whole.msg_control = &control;
		whole.msg_controllen = CMSG_SPACE(size);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(size);
		memcpy(CMSG_DATA(&control.head), message->files, size);
	}
	return TEMP_FAILURE_RETRY(sendmsg(socket, &whole, MSG_NOSIGNAL)) == (ssize_t)message->size;
}

static bool receive(int socket, struct worker_message *message, int flags)
{
	union control control;
	struct iovec data = { message->data, message->size };
	struct msghdr whole = { .msg_iov = &data,
				.msg_iovlen = 1,
				.msg_control = &control,
				.msg_controllen = sizeof(control) };
	struct cmsghdr *head;
	ssize_t length;

	message->nr_files = 0;
	length = TEMP_FAILURE_RETRY(recvmsg(socket, &whole, MSG_CMSG_CLOEXEC | flags));
	head = length > 0 ? CMSG_FIRSTHDR(&whole) : NULL;
	if (head && head->cmsg_type == SCM_RIGHTS) {
		message->nr_files =
			(unsigned int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(message->files[0]));
		memcpy(message->files, CMSG_DATA(head),
		       message->nr_files * sizeof(message->files[0]));
	}
	if (length < (ssize_t)sizeof(struct worker_head) || whole.msg_flags & MSG_TRUNC) {
		worker_close_files(message);
		return false;
	}
	message->size = (size_t)length;
	return true;
}

bool worker_receive(int socket, struct worker_message *message)
{
	return receive(socket, message, 0);
}

bool worker_receive_now(int socket, struct worker_message *message)
{
	return receive(socket, message, MSG_DONTWAIT);
}

void worker_close_files(struct worker_message *message)
{
	unsigned int i;

	for (i = 0; i < message->nr_files; i++)
		close(message->files[i]);
	message->nr_files = 0;
}
