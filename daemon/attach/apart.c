// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/attach/apart.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/shared/util.h"

#define LEAVE_US  100
#define LEAVE_MAX 10000u /* looks, until a child that has answered, or was killed, has ended */

static pid_t apart_parent;

void apart_leave_with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* It may have ended before. */
	if (getppid() != apart_parent)
		_exit(0);
}

bool apart_begin(struct apart *apart, void (*work)(void *context, int answer), void *context,
		 uint64_t limit_ns)
{
	pid_t parent = getpid();
	int pair[2];

	*apart = (struct apart){ .answer = -1, .end_ns = clock_monotonic_ns() + limit_ns };
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return false;
	apart->answer = pair[0];
	apart->child = fork();
	if (!apart->child) {
		close(pair[0]);
		apart_parent = parent;
		work(context, pair[1]);
		_exit(0);
	}
	close(pair[1]);
	if (apart->child > 0)
		return true;
	apart->child = 0;
	close(apart->answer);
	return false;
}

void apart_answer(int answer, const void *bytes, size_t size, const int *files, unsigned int nr)
{
	file_message_send(answer, &(struct iovec){ (void *)bytes, size }, 1, files, nr);
}

/* One that the kernel does not let go stays, and is no child any more once this process ends. */
static void leave(struct apart *apart)
{
	unsigned int i;

	close(apart->answer);
	for (i = 0; i < LEAVE_MAX && !TEMP_FAILURE_RETRY(waitpid(apart->child, NULL, WNOHANG)); i++)
		usleep(LEAVE_US);
	apart->child = 0;
}

bool apart_end(struct apart *apart, void *bytes, size_t size, int *files, unsigned int nr)
{
	struct pollfd ready = { .fd = apart->answer, .events = POLLIN };
	uint64_t now_ns;
	bool good;
	int error = 0;

	do {
		now_ns = clock_monotonic_ns();
		if (now_ns > apart->end_ns)
			break;
	} while (poll(&ready, 1, (int)((apart->end_ns - now_ns) / 1000000) + 1) < 0);
	good = file_message_receive(apart->answer, &(struct iovec){ bytes, size }, 1, files, nr) ==
	       (ssize_t)size;
	if (!good && !(ready.revents & POLLHUP))
		error = ETIME;
	if (good)
		leave(apart);
	else
		apart_give_up(apart);
	errno = error;
	return good;
}

void apart_give_up(struct apart *apart)
{
	kill(apart->child, SIGKILL);
	leave(apart);
}
