// SPDX-License-Identifier: GPL-2.0-only
/* What a collector claims, of processes of others too, changes what is shown of its owner alone. */
#include <fcntl.h>
#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "wire/owner.h"
#include "daemon/habd/http/handlers.h"
#include "daemon/habd/history/writer.h"
#include "daemon/habd/parts/snapshots.h"
#include "daemon/profile/formats/read.h"
#include "daemon/habd/state/totals.h"

#include "kselftest_harness.h"

#define ALICE	       1000u
#define BOB	       1001u
#define CONTAINER      (HAB_OWNER_NAMESPACE + 4026532000u)
#define CONTAINER_ROOT 100000u
#define PID	       77u

static const struct hab_process_totals counted = {
	.bytes = 500, .refills = 5, .uid = ALICE, .owner = ALICE, .comm = "counted"
};

static void read_one(struct feed *feed, struct feed_totals *totals)
{
	totals->nr_processes = 0;
	if (feed->fd)
		*feed_totals_add(totals) = (struct feed_process){ .pid = PID, .totals = counted };
}

static const struct feed_ops ops = { .name = "test", .read = read_one };

FIXTURE(totals)
{
	struct feed feed;
	struct snapshots *snapshots;
	struct totals *totals;
};

FIXTURE_SETUP(totals)
{
	self->feed = (struct feed){ .ops = &ops, .fd = 1 };
	self->snapshots = snapshots_new();
	self->totals = totals_new();
}

FIXTURE_TEARDOWN(totals)
{
	totals_free(self->totals);
	snapshots_free(self->snapshots);
}

/* A collector with that memory. Returns its end of the control connection, or -1. */
static int join(struct snapshots *snapshots, uint64_t owner, int memory)
{
	int pair[2];

	if (ftruncate(memory, PART_MEMORY_BYTES) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	snapshots_add(snapshots, owner, owner == CONTAINER ? CONTAINER_ROOT : (uid_t)owner, pair[0],
		      memory);
	return pair[1];
}

/* A collector whose page can be written, as a hostile one writes it. */
static struct part_page *collector(struct snapshots *snapshots, uint64_t owner)
{
	int memory = memfd_create("part", MFD_CLOEXEC);
	int map_fd = dup(memory), control = join(snapshots, owner, memory);
	struct hab_channel *mapped = control < 0 ? NULL : part_memory_map(map_fd);

	close(control);
	close(map_fd);
	return mapped ? part_page(mapped) : NULL;
}

static void end_page(struct part_page *page)
{
	part_memory_unmap((void *)((char *)page - PART_PAGE_OFFSET));
}

static void add_claimed(void *context, struct feed_totals *totals)
{
	snapshots_add_processes(context, totals);
}

static const struct totals_process *row_of(const struct totals *totals, uint32_t pid,
					   uint64_t owner)
{
	unsigned int i;

	for (i = 0; i < totals->nr_processes; i++)
		if (totals->processes[i].pid == pid && totals->processes[i].totals.owner == owner)
			return &totals->processes[i];
	return NULL;
}

TEST_F(totals, a_process_that_the_kernel_counts_has_what_its_collector_claims_is_in_use)
{
	struct part_page *page = collector(self->snapshots, ALICE);
	const struct totals_process *row;

	ASSERT_NE(NULL, page);
	page->processes[0] = (struct part_process){
		.pid = PID, .uid = ALICE, .bytes = 9, .in_use = 300, .interpreter = 2
	};
	page->nr_processes = 1;
	totals_read(self->totals, &self->feed, add_claimed, self->snapshots, 1);
	ASSERT_EQ(1, self->totals->nr_processes);
	row = row_of(self->totals, PID, ALICE);
	ASSERT_NE(NULL, row);
	EXPECT_EQ(500, row->totals.bytes);
	EXPECT_EQ(300, row->in_use_bytes);
	EXPECT_EQ(2, row->interpreter);
	EXPECT_STREQ("counted", row->totals.comm);
	end_page(page);
}

TEST_F(totals, what_a_collector_claims_of_a_process_of_another_changes_nothing_of_it)
{
	struct part_page *alice = collector(self->snapshots, ALICE);
	struct part_page *bob = collector(self->snapshots, BOB);
	const struct totals_process *row;

	ASSERT_NE(NULL, alice);
	ASSERT_NE(NULL, bob);
	alice->processes[0] = (struct part_process){ .pid = PID, .uid = ALICE, .in_use = 300 };
	alice->nr_processes = 1;
	bob->processes[0] = (struct part_process){ .pid = PID,
						   .uid = ALICE,
						   .bytes = 1ull << 60,
						   .in_use = 1ull << 50,
						   .comm = "counted" };
	bob->nr_processes = 1;
	totals_read(self->totals, &self->feed, add_claimed, self->snapshots, 1);
	ASSERT_EQ(2, self->totals->nr_processes);
	row = row_of(self->totals, PID, ALICE);
	ASSERT_NE(NULL, row);
	EXPECT_EQ(500, row->totals.bytes);
	EXPECT_EQ(300, row->in_use_bytes);
	row = row_of(self->totals, PID, BOB);
	ASSERT_NE(NULL, row);
	/* It is Bob who says so. */
	EXPECT_EQ(BOB, row->totals.uid);
	end_page(alice);
	end_page(bob);
}

TEST_F(totals, a_process_that_a_collector_claims_again_and_again_is_listed_once)
{
	struct part_page *page = collector(self->snapshots, BOB);
	unsigned int i;

	ASSERT_NE(NULL, page);
	for (i = 0; i < PART_PROCESSES; i++)
		page->processes[i] = (struct part_process){ .pid = PID + i % 2, .in_use = i };
	page->nr_processes = ~0u;
	totals_read(self->totals, &self->feed, add_claimed, self->snapshots, 1);
	EXPECT_EQ(3, self->totals->nr_processes);
	end_page(page);
}

TEST_F(totals, a_container_has_processes_of_its_own_users_alone)
{
	static const uint32_t claimed[] = { CONTAINER_ROOT, 100033, 165535, 165536, 99999, ALICE, 0 };
	static const uint32_t shown[] = { CONTAINER_ROOT, 100033,	  165535,
					  CONTAINER_ROOT, CONTAINER_ROOT, CONTAINER_ROOT,
					  CONTAINER_ROOT };
	struct part_page *page = collector(self->snapshots, CONTAINER);
	const struct totals_process *row;
	unsigned int i;

	ASSERT_NE(NULL, page);
	page->nr_processes = 1;
	for (i = 0; i < ARRAY_SIZE(claimed); i++) {
		page->processes[0] = (struct part_process){ .pid = PID, .uid = claimed[i] };
		totals_read(self->totals, &self->feed, add_claimed, self->snapshots, 1 + i);
		row = row_of(self->totals, PID, CONTAINER);
		ASSERT_NE(NULL, row);
		EXPECT_EQ(shown[i], row->totals.uid);
	}
	EXPECT_EQ(4294967280u, part_claimed_uid(CONTAINER, 4294967280u, 0));
	end_page(page);
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return good;
}

TEST(samples_of_another_owner_with_a_pid_are_none_of_its_process)
{
	struct profile_sample samples[] = {
		{ .key = { .pid = PID, .uid = ALICE, .owner = CONTAINER } },
		{ .key = { .pid = PID, .uid = ALICE, .owner = ALICE } }
	};
	const struct profile profile = { .samples = samples, .nr_samples = ARRAY_SIZE(samples) };
	struct totals_process process = { .pid = PID, .totals = counted };

	EXPECT_EQ(&samples[1], reply_top_sample(&profile, &process));
	/* A process of a container may change its user. */
	process.totals.owner = CONTAINER;
	process.totals.uid = BOB;
	EXPECT_EQ(&samples[0], reply_top_sample(&profile, &process));
	process.totals.owner = CONTAINER + 1;
	EXPECT_EQ(NULL, reply_top_sample(&profile, &process));
}

TEST(the_share_of_a_top_stack_is_of_its_owners_samples)
{
	struct profile_sample samples[] = {
		{ .counts = { .estimate = 1ull << 60 }, .key = { .pid = PID, .owner = CONTAINER } },
		{ .counts = { .estimate = 300 }, .key = { .pid = PID, .owner = ALICE } },
		{ .counts = { .estimate = 100 }, .key = { .pid = PID, .owner = ALICE, .kind = 1 } }
	};
	const struct profile profile = { .samples = samples, .nr_samples = ARRAY_SIZE(samples) };
	json_t *object = json_object();

	reply_put_stack(object, &profile, &samples[1]);
	EXPECT_EQ(0.75, json_real_value(json_object_get(object, "top_stack_share")));
	json_decref(object);
}

TEST(a_subordinate_uid_may_be_any_users)
{
	int ready[2];
	pid_t child;
	char byte;

	ASSERT_EQ(0, pipe(ready));
	child = fork();
	if (!child) {
		if (unshare(CLONE_NEWUSER))
			_exit(1);
		write_text("/proc/self/setgroups", "deny");
		byte = write_text("/proc/self/uid_map", "0 0 1") ? 'y' : 'n';
		_exit(write(ready[1], &byte, 1) != 1 || pause());
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1 || byte != 'y')
		SKIP(goto end, "no user namespace can be made here");
	EXPECT_TRUE(process_is_any_users((uint32_t)child, 100033));
	EXPECT_FALSE(process_is_any_users((uint32_t)child, BOB));
end:
	close(ready[0]);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

TEST(a_user_may_claim_its_own_processes_alone_and_root_any)
{
	EXPECT_TRUE(uid_may_claim(ALICE, ALICE, process_is_any_users(1, ALICE)));
	EXPECT_FALSE(uid_may_claim(BOB, ALICE, process_is_any_users(1, ALICE)));
	EXPECT_FALSE(uid_may_claim(BOB, 0, process_is_any_users(1, 0)));
	EXPECT_TRUE(uid_may_claim(0, ALICE, process_is_any_users(1, ALICE)));
	/* Of the machine's own namespace. */
	EXPECT_FALSE(uid_may_claim(BOB, 1234567, process_is_any_users(1, 1234567)));
}

/* Rates are those of one process, whoever else has claimed its number meanwhile. */
TEST_F(totals, rates_are_those_of_the_owners_process)
{
	struct part_page *page = collector(self->snapshots, BOB);
	const struct totals_process *row;
	uint64_t now = 1;

	ASSERT_NE(NULL, page);
	page->processes[0] = (struct part_process){ .pid = PID, .bytes = 1000 };
	page->nr_processes = 1;
	totals_read(self->totals, &self->feed, add_claimed, self->snapshots, now);
	page->processes[0].bytes = 3000;
	now += 2000000000;
	totals_read(self->totals, &self->feed, add_claimed, self->snapshots, now);
	row = row_of(self->totals, PID, BOB);
	ASSERT_NE(NULL, row);
	EXPECT_EQ(1000, row->bytes_per_second);
	row = row_of(self->totals, PID, ALICE);
	ASSERT_NE(NULL, row);
	EXPECT_EQ(0, row->bytes_per_second);
	/* It goes when it is claimed no more. */
	page->nr_processes = 0;
	self->feed.fd = 0;
	totals_read(self->totals, &self->feed, add_claimed, self->snapshots, now);
	EXPECT_EQ(0, self->totals->nr_processes);
	end_page(page);
}

/* A collector shows its counts twice a second, and they are read at other times. */
TEST_F(totals, a_rate_is_of_the_time_between_two_counts)
{
	const uint64_t second = 1000000000;
	struct part_page *page = collector(self->snapshots, BOB);
	const struct totals_process *row;

	ASSERT_NE(NULL, page);
	page->processes[0] = (struct part_process){ .pid = PID, .bytes = 1000 };
	page->nr_processes = 1;
	page->published_ns = second;
	totals_read(self->totals, &self->feed, add_claimed, self->snapshots, second + second / 2);
	page->processes[0].bytes = 5000;
	page->published_ns = 3 * second;
	totals_read(self->totals, &self->feed, add_claimed, self->snapshots, 3 * second);
	row = row_of(self->totals, PID, BOB);
	ASSERT_NE(NULL, row);
	EXPECT_EQ(2000, row->bytes_per_second);
	/* Another thread took its time earlier, and reads later. */
	page->published_ns = 0;
	totals_read(self->totals, &self->feed, add_claimed, self->snapshots, 3 * second - 1);
	row = row_of(self->totals, PID, BOB);
	ASSERT_NE(NULL, row);
	EXPECT_EQ(2000, row->bytes_per_second);
	end_page(page);
}

TEST_F(totals, a_rate_is_a_number_whatever_time_a_collector_claims)
{
	static const uint64_t times[] = { 1, UINT64_MAX, 0, UINT64_MAX - 1, UINT64_MAX };
	struct part_page *page = collector(self->snapshots, BOB);
	const struct totals_process *row;
	unsigned int i;

	ASSERT_NE(NULL, page);
	page->nr_processes = 1;
	for (i = 0; i < ARRAY_SIZE(times); i++) {
		page->processes[0] = (struct part_process){ .pid = PID, .bytes = 1000 * i };
		page->published_ns = times[i];
		totals_read(self->totals, &self->feed, add_claimed, self->snapshots,
			    clock_monotonic_ns());
		row = row_of(self->totals, PID, BOB);
		ASSERT_NE(NULL, row);
		EXPECT_LE(0, row->bytes_per_second);
		EXPECT_GE(4000, row->bytes_per_second);
	}
	end_page(page);
}

/* There is no client: a request has no parameters, and no connection. */
const char *MHD_lookup_connection_value(struct MHD_Connection *connection, enum MHD_ValueKind kind,
					const char *key)
{
	return NULL;
}

int MHD_get_connection_values(struct MHD_Connection *connection, enum MHD_ValueKind kind,
			      MHD_KeyValueIterator iterator, void *context)
{
	return 0;
}

const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *connection,
							enum MHD_ConnectionInfoType type, ...)
{
	return NULL;
}

struct claim {
	int control;
	const char *head; /* NULL: that of an answer */
	const void *data;
	size_t length;
	pthread_t thread;
};

/* While a collector answers the clock stands still: nobody waits in vain for one that is slow. */
static bool stands;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static struct timespec stood;
	int result = (int)syscall(SYS_clock_gettime, clock, now);

	if (clock != CLOCK_MONOTONIC || result)
		return result;
	if (!__atomic_load_n(&stands, __ATOMIC_RELAXED))
		stood = *now;
	*now = stood;
	return 0;
}

/* Answers one request to a collector. */
static void *answer_claim(void *context)
{
	const struct claim *claim = context;
	const char *head = claim->head ?: "HTTP/1.1 200 OK\r\n\r\n";
	struct part_message message;
	int files[PART_MESSAGE_FILES] = { -1, -1 };
	char request[400];

	while (!part_receive(claim->control, &message, NULL, files))
		usleep(1000);
	while (files[0] >= 0 && recv(files[0], request, sizeof(request), 0) < 0)
		usleep(1000);
	if (send(files[0], head, strlen(head), MSG_NOSIGNAL) < 0 ||
	    send(files[0], claim->data, claim->length, MSG_NOSIGNAL) < 0)
		perror("send");
	close(files[0]);
	return NULL;
}

/* A collector that claims something. */
static bool claim_begin(struct claim *claim, struct snapshots *snapshots, uint64_t owner)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	claim->control = join(snapshots, owner, memfd_create("part", MFD_CLOEXEC));
	__atomic_store_n(&stands, true, __ATOMIC_RELAXED);
	return claim->control >= 0 && !pthread_create(&claim->thread, NULL, answer_claim, claim);
}

static void claim_end(struct claim *claim)
{
	pthread_join(claim->thread, NULL);
	__atomic_store_n(&stands, false, __ATOMIC_RELAXED);
	close(claim->control);
}

/* An answer with a sample of a process of Alice's, or of the container, and a sum of others. */
static char *claimed_profile(uint64_t owner, size_t *length)
{
	struct profile_sample samples[] = {
		{ .counts = { .samples = 1, .estimate = 500, .events = 1 },
		  .key = { .pid = PID, .uid = ALICE, .owner = owner } },
		{ .counts = { .samples = 1, .estimate = 300, .events = 1 },
		  .key = { .uid = ALICE, .owner = owner, .comm = "[other stacks]" } }
	};
	const struct profile profile = { .samples = samples, .nr_samples = ARRAY_SIZE(samples) };
	struct snapshot_head head = { 0 };
	char *data;
	FILE *out = text_open(&data, length);

	fwrite(&head, sizeof(head), 1, out);
	profile_write_pprof(&profile, out);
	text_close(out);
	head.profile_bytes = *length - sizeof(head);
	memcpy(data, &head, sizeof(head));
	return data;
}

TEST(samples_that_a_collector_claims_are_its_owners)
{
	static const uint64_t owners[] = { BOB, CONTAINER, CONTAINER + 1 };
	static const struct filter all = { .each_kind = true };
	const struct snapshot_request request = { .span = "start", .filter = &all };
	struct snapshots *snapshots = snapshots_new();
	struct claim claims[ARRAY_SIZE(owners)] = { 0 };
	struct profile *profile;
	unsigned int i, j, found;

	for (i = 0; i < ARRAY_SIZE(owners); i++) {
		claims[i].data = claimed_profile(i ? CONTAINER : ALICE, &claims[i].length);
		ASSERT_TRUE(claim_begin(&claims[i], snapshots, owners[i]));
	}
	profile = snapshots_profile(snapshots, &request, 0);
	EXPECT_EQ(2 * ARRAY_SIZE(owners), profile->nr_samples);
	for (i = 0; i < ARRAY_SIZE(owners); i++) {
		for (j = 0, found = 0; j < profile->nr_samples; j++)
			found += profile->samples[j].key.owner == owners[i];
		EXPECT_EQ(2, found);
		claim_end(&claims[i]);
		free((void *)claims[i].data);
	}
	profile_free(profile);
	snapshots_free(snapshots);
}

TEST(a_collector_that_answers_with_an_error_does_not_answer)
{
	struct claim claims[] = { { 0 }, { .head = "HTTP/1.1 503 Busy\r\n\r\n" } };
	static const struct filter all = { .each_kind = true };
	const struct snapshot_request request = { .span = "start", .filter = &all };
	struct snapshots *snapshots = snapshots_new();
	struct snapshot_state *states;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(claims); i++) {
		claims[i].data = claimed_profile(i, &claims[i].length);
		ASSERT_TRUE(claim_begin(&claims[i], snapshots, i));
	}
	profile_free(snapshots_profile(snapshots, &request, 0));
	ASSERT_EQ(ARRAY_SIZE(claims), snapshots_states(snapshots, &states));
	for (i = 0; i < ARRAY_SIZE(claims); i++) {
		EXPECT_EQ(states[i].owner == 1, states[i].stuck);
		claim_end(&claims[i]);
		free((void *)claims[i].data);
	}
	free(states);
	snapshots_free(snapshots);
}

/* The bytes of an answer by a collector of @owner, which has Alice's uid in all its samples. */
static uint64_t filtered_bytes(uint64_t owner, const char *key, const char *value)
{
	struct snapshot_request request = { .span = "start" };
	struct snapshots *snapshots = snapshots_new();
	struct filter filter = { .each_kind = true };
	struct claim claim = { 0 };
	struct profile *profile;
	uint64_t bytes;

	filter_add(&filter, key, value);
	request.filter = &filter;
	claim.data = claimed_profile(ALICE, &claim.length);
	if (!claim_begin(&claim, snapshots, owner))
		return ~0ull;
	profile = snapshots_profile(snapshots, &request, 0);
	bytes = profile->total.estimate;
	profile_free(profile);
	filter_end(&filter);
	claim_end(&claim);
	snapshots_free(snapshots);
	free((void *)claim.data);
	return bytes;
}

TEST(a_collector_that_ignores_the_filter_adds_nothing_to_another_users_answer)
{
	EXPECT_EQ(800, filtered_bytes(ALICE, "uid", "1000"));
	EXPECT_EQ(0, filtered_bytes(BOB, "uid", "1000"));
	EXPECT_EQ(800, filtered_bytes(BOB, "uid", "1001"));
}

/* A collector whose answer would be too large has made the sum, of what it was asked for. */
TEST(a_sum_of_other_stacks_stays_in_a_filtered_answer)
{
	EXPECT_EQ(800, filtered_bytes(ALICE, "pid", "77"));
	EXPECT_EQ(300, filtered_bytes(ALICE, "pid", "78"));
}

/* So that a container's processes are the same in the history and in memory. */
TEST(a_file_tells_the_owner_of_a_container)
{
	static const struct filter all = { .each_kind = true };
	static const uint64_t owners[] = { ALICE, CONTAINER };
	struct profile *profile;
	unsigned int i;
	bool has_errors;
	size_t length;
	char why[200], *data;

	for (i = 0; i < ARRAY_SIZE(owners); i++) {
		data = claimed_profile(owners[i], &length);
		profile = profile_read(data + sizeof(struct snapshot_head),
				       length - sizeof(struct snapshot_head), &all, &has_errors,
				       why, sizeof(why));
		ASSERT_NE(NULL, profile);
		ASSERT_EQ(2, profile->nr_samples);
		EXPECT_EQ(owners[i], profile->samples[0].key.owner);
		EXPECT_EQ(ALICE, profile->samples[0].key.uid);
		profile_free(profile);
		free(data);
	}
}

/* How many files of the history /v1/timeline has, beside a collector with a point of that start. */
static json_int_t files_beside(struct history *history, uint64_t start_ns)
{
	const uint64_t point[3] = { start_ns, TIMELINE_STEP_NS, 0 }; /* without entries */
	struct claim claim = { .data = point, .length = sizeof(point) };
	struct reply reply = { .status = 200 };
	struct request request = { .history = history };
	struct state state;
	json_int_t files;
	size_t length;
	json_t *json;
	char *data;

	state_begin(&state, 64, 0);
	request.state = &state;
	state.snapshots = snapshots_new();
	if (!claim_begin(&claim, state.snapshots, BOB))
		return -1;
	reply.body = text_open(&data, &length);
	http_timeline(&request, &reply);
	text_close(reply.body);
	claim_end(&claim);
	snapshots_free(state.snapshots);
	state.snapshots = NULL;
	state_end(&state);
	json = json_loads(data, 0, NULL);
	files = json_integer_value(json_object_get(json, "files"));
	json_decref(json);
	free(data);
	return files;
}

TEST(a_point_that_a_collector_claims_of_long_ago_hides_no_files)
{
	char directory[] = "/tmp/hab-claims-XXXXXX", name[100], path[160];
	const struct history_config config = {
		.directory = directory, .size = 1 << 20, .age = 86400, .seconds = 60
	};
	time_t begin = time(NULL) - 600;
	struct history *history;
	struct tm parts;
	FILE *file;

	ASSERT_NE(NULL, mkdtemp(directory));
	strftime(name, sizeof(name), "0000000001-%Y%m%dT%H%M%SZ-60s.pb.gz",
		 gmtime_r(&begin, &parts));
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "we");
	ASSERT_NE(NULL, file);
	fclose(file);
	history = history_open(&config);
	ASSERT_NE(NULL, history);
	/* What begins after the file lets it be seen, and what is older than it does not. */
	EXPECT_EQ(1, files_beside(history, clock_realtime_ns() - 60000000000));
	EXPECT_EQ(0, files_beside(history, clock_realtime_ns() - 1200000000000));
	EXPECT_EQ(1, files_beside(history, 0));
	EXPECT_EQ(1, files_beside(history, clock_realtime_ns() - 7200000000000));
	history_stop(history);
	unlink(path);
	rmdir(directory);
}

TEST_HARNESS_MAIN
