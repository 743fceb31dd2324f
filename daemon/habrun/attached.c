// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processes that habrun attaches to. Each is detached from when habrun ends, however that is: the
 * kernel closes the pipe by which the process sees it.
 */
#include "daemon/habrun/attached.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/attach/attach.h"
#include "daemon/habrun/chosen.h"
#include "daemon/habrun/collector.h"
#include "daemon/habrun/result.h"
#include "daemon/shared/child.h"
#include "daemon/shared/output_files.h"
#include "daemon/shared/util.h"

#define LOOK_MS 50	    /* whether the processes have ended */
#define NEW_NS	200000000ull /* between two looks for new ones */
#define ATTEMPTS_MAX 8u /* at once */
#define FIRST_NS 5000000000ull

struct run {
	const struct options *options;
	struct attach_options attaching;
	struct chosen *chosen;
	struct attempt attempts[ATTEMPTS_MAX];
	unsigned int nr_attempts;
	unsigned int tried; /* processes */
	struct attached *attached;
	unsigned int nr_attached, room;
	struct collector *collector;
	int signals;
	bool ends; /* by one of them */
	uint64_t first_ns; /* when the first process was attached to; 0: none was */
};

/* Blocks those that end habrun: they end the recording instead. */
static int open_signals(void)
{
	static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	sigset_t set;
	unsigned int i;

	sigemptyset(&set);
	for (i = 0; i < ARRAY_SIZE(ending); i++)
		sigaddset(&set, ending[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void say_begin(const struct run *run, const struct attached *attached)
{
	const char *more = "objects from before are not seen, so what is in use counts from now on";
	char comm[32];

	if (!attached->knows_in_use)
		more = "what is in use is not known with its allocator: start it by habrun for that";
	process_comm((uint32_t)attached->target.pid, comm, sizeof(comm));
	say("attached to process %d (%s): one of its threads was held for %.2f ms, %u references "
	    "lead to the library; %s%s",
	    attached->target.pid, comm, (double)attached->borrowed.held_ns / 1e6,
	    attached->patched, more,
	    run->attaching.socket ? "; habd follows it until habrun -p PID --detach, or its end" :
				    "");
}

/* The collector takes the channel over. */
static bool add_channel(struct run *run, struct attached *attached)
{
	/* Not a copy: the collector waits for the end of its own. */
	int files[2] = { attached->channel,
			 (int)syscall(SYS_pidfd_open, attached->target.pid, 0) };

	attached->channel = -1;
	return collector_add(run->collector, (uint32_t)attached->target.pid, attached->target.user,
			     files);
}

/* One process of each user, at most: whose memory does not answer keeps nobody else waiting. */
static void begin_attempts(struct run *run)
{
	uid_t users[ATTEMPTS_MAX];
	unsigned int i;
	pid_t pid;

	for (i = 0; i < run->nr_attempts; i++)
		users[i] = run->attempts[i].user;
	while (run->nr_attempts < ATTEMPTS_MAX &&
	       (pid = chosen_next(run->chosen, users, run->nr_attempts, &users[run->nr_attempts]))) {
		struct attempt *attempt = &run->attempts[run->nr_attempts];

		run->tried++;
		if (attach_begin(pid, &run->attaching, attempt))
			attempt->user = users[run->nr_attempts++];
	}
}

/* It was attached to when it ran the program before. */
static void forget_former(struct run *run, pid_t pid)
{
	unsigned int i;

	for (i = 0; i < run->nr_attached; i++) {
		if (run->attached[i].target.pid != pid)
			continue;
		attach_forget(&run->attached[i]);
		run->attached[i] = run->attached[--run->nr_attached];
		return;
	}
}

static void finish_attempt(struct run *run, struct attempt *attempt)
{
	struct attached attached;

	if (attach_finish(attempt, &attached)) {
		forget_former(run, attempt->pid);
		say_begin(run, &attached);
		if (run->collector && !add_channel(run, &attached))
			say("process %d shares no memory that can be read", attempt->pid);
		run->attached = xgrow(run->attached, run->nr_attached, &run->room,
				      sizeof(*run->attached));
		run->attached[run->nr_attached++] = attached;
		if (!run->first_ns)
			run->first_ns = clock_monotonic_ns();
	}
	*attempt = run->attempts[--run->nr_attempts];
}

/* Attaches, and reads what comes meanwhile. */
static void look(struct run *run)
{
	struct pollfd ready[ATTEMPTS_MAX + 2] = {
		{ .fd = run->signals, .events = POLLIN },
		{ .fd = run->collector ? collector_fd(run->collector) : -1, .events = POLLIN }
	};
	int timeout_ms = run->collector ? collector_timeout_ms(run->collector) : -1;
	unsigned int i;

	for (i = 0; i < run->nr_attempts; i++)
		ready[i + 2] = (struct pollfd){ run->attempts[i].apart.answer, POLLIN, 0 };
	poll(ready, i + 2, timeout_ms < 0 || timeout_ms > LOOK_MS ? LOOK_MS : timeout_ms);
	if (run->collector)
		collector_poll(run->collector);
	/* The last one takes the place of one that is finished. */
	while (i-- > 0)
		if (ready[i + 2].revents || clock_monotonic_ns() > run->attempts[i].apart.end_ns)
			finish_attempt(run, &run->attempts[i]);
	begin_attempts(run);
	/* Before there is something to record, they end habrun at once. */
	if (run->collector && run->nr_attached && run->signals < 0)
		run->signals = open_signals();
	run->ends = ready[0].revents;
}

/*
 * Attaches to all that there are now, before the seconds of the recording begin; one that does not
 * answer keeps them from that for FIRST_NS. False after a sentence of each: it is attached to none.
 */
static bool attach_all(struct run *run)
{
	begin_attempts(run);
	while (run->nr_attempts && !run->ends &&
	       !(run->collector && run->first_ns && clock_monotonic_ns() - run->first_ns > FIRST_NS))
		look(run);
	if (!run->tried)
		say("the unit %s has no process: see systemctl status %s", run->options->unit,
		    run->options->unit);
	return run->nr_attached;
}

static bool all_have_ended(const struct run *run)
{
	unsigned int i;

	for (i = 0; i < run->nr_attached; i++)
		if (!process_has_ended(run->attached[i].pidfd))
			return false;
	return true;
}

static void collect(struct run *run)
{
	uint64_t now_ns = clock_monotonic_ns(), looked_ns = now_ns;
	uint64_t end_ns = run->options->duration_ns ? now_ns + run->options->duration_ns :
						  UINT64_MAX;
	unsigned int late = 0;
	uid_t user;

	while (!run->ends && now_ns < end_ns && (run->nr_attempts || !all_have_ended(run))) {
		look(run);
		now_ns = clock_monotonic_ns();
		if (now_ns - looked_ns < NEW_NS)
			continue;
		looked_ns = now_ns;
		chosen_look(run->chosen);
	}
	while (run->nr_attempts)
		attach_give_up(&run->attempts[--run->nr_attempts]);
	while (chosen_next(run->chosen, NULL, 0, &user))
		late++;
	if (late)
		say("%u more processes were not attached to: the recording has ended", late);
}

static int record(struct run *run, const struct preload_sampling *sampling)
{
	struct output_file output = { .folder = -1 };
	struct preload_socket none = { .fd = -1 };
	int code = EXIT_CANNOT_RUN;

	if (!output_file_open(&output, run->options->file))
		return EXIT_CANNOT_RUN;
	collector_raise_file_limit();
	run->collector = collector_new(&none, sampling);
	if (run->collector && attach_all(run)) {
		collect(run);
		attach_end(run->attached, run->nr_attached);
		code = result_write(run->options, run->collector, &output, -1, NULL) ? 0 :
										       EXIT_FAILED;
	}
	if (run->collector)
		collector_free(run->collector);
	output_file_drop(&output);
	return code;
}

int attached_run(const struct options *options, char *library,
		 const struct preload_sampling *sampling)
{
	static struct run run;
	int code;

	run = (struct run){ .options = options,
			    .signals = -1,
			    .chosen = chosen_new(options),
			    .attaching = { .library = library,
					   .interval_least = sampling->interval_least,
					   .interval_begin = sampling->interval_begin } };
	/* A process may end before it is told something. */
	signal(SIGPIPE, SIG_IGN);
	if (options->file) {
		code = record(&run, sampling);
	} else {
		run.attaching = (struct attach_options){ .library = library,
							 .socket = preload_habd_socket() };
		code = attach_all(&run) ? 0 : EXIT_CANNOT_RUN;
	}
	chosen_free(run.chosen);
	free(run.attached);
	free(library);
	return code;
}

int attached_detach(const struct options *options)
{
	struct chosen *chosen = chosen_new(options);
	int code = 0;
	uid_t user;
	pid_t pid;

	while ((pid = chosen_next(chosen, NULL, 0, &user)))
		if (!attach_detach(pid))
			code = EXIT_FAILED;
	chosen_free(chosen);
	return code;
}
