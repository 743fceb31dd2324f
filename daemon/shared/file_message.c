// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/shared/file_message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/arithmetic.h"
#include "daemon/shared/util.h"

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(FILE_MESSAGE_MAX * sizeof(int))];
};

bool file_message_send(int socket, struct iovec *data, unsigned int nr_data, const int *files,
		       unsigned int nr)
{
	union control space = { .bytes = { 0 } };
	struct msghdr message = { .msg_iov = data, .msg_iovlen = nr_data };

	if (nr) {
		message.msg_control = &space;
		message.msg_controllen = CMSG_SPACE(nr * sizeof(int));
		space.head.cmsg_len = CMSG_LEN(nr * sizeof(int));
		space.head.cmsg_level = SOL_SOCKET;
		space.head.cmsg_type = SCM_RIGHTS;
		memcpy(CMSG_DATA(&space.head), files, nr * sizeof(int));
	}
	return TEMP_FAILURE_RETRY(sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL)) >= 0;
}

static void take_files(struct msghdr *from, int *files, unsigned int nr)
{
	const struct cmsghdr *part = CMSG_FIRSTHDR(from);
	size_t got;

	if (!part || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
		return;
	got = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(files, CMSG_DATA(part), min(got, (size_t)nr) * sizeof(int));
}

ssize_t file_message_receive(int socket, struct iovec *data, unsigned int nr_data,
			     int *files, unsigned int nr)
{
	union control space;
	struct msghdr from = { .msg_iov = data,
			       .msg_iovlen = nr_data,
			       .msg_control = &space,
			       .msg_controllen = CMSG_LEN(nr * sizeof(int)) };
	ssize_t length;

	memset(files, -1, nr * sizeof(*files));
	length = TEMP_FAILURE_RETRY(recvmsg(socket, &from, MSG_DONTWAIT | MSG_CMSG_CLOEXEC));
	if (length >= 0)
		take_files(&from, files, nr);
	return length;
}
