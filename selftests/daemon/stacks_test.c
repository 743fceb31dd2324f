// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests the stack table against a plain model: the samples that were added since each mark. Marks
 * come and go while stacks are folded, and no sum may change by that.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "kselftest_harness.h"

#include "daemon/collect/in_use.h"
#include "daemon/collect/stacks.h"
#include "daemon/collect/process_maps.h"

#define MARKS  12
#define STACKS 300
#define ROUNDS 20000

struct model {
	struct stack_mark *mark; /* NULL: not set */
	uint64_t samples[STACKS], estimate[STACKS];
	uint64_t all_samples, all_estimate;
};

FIXTURE(table)
{
	struct stack_table *table;
	struct model models[MARKS + 1]; /* the last is since the start */
	uint64_t state;
};

FIXTURE_SETUP(table)
{
	memset(self, 0, sizeof(*self));
	self->state = 1;
}

FIXTURE_TEARDOWN(table)
{
	stacks_free(self->table);
}

static uint64_t draw(uint64_t *state, uint64_t below)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (*state >> 33) % below;
}

#define CERTAIN (1ull << 32)

/* A sample of the process @pid, which the log has as its thread, too. */
static void add_sample(struct stack_table *table, uint32_t pid, uint64_t bytes,
		       uint64_t probability)
{
	const struct hab_record_sample sample = {
		.head.tid = pid, .bytes = bytes, .probability = probability, .parts = 1
	};
	struct stack_key *key = calloc(1, sizeof(*key) + 2 * sizeof(uint64_t));

	*key = (struct stack_key){ .pid = pid, .nr_frames = 2 };
	key->frames[0] = pid;
	key->frames[1] = 7;
	stacks_add(table, &sample, key);
	free(key);
}

static void add(FIXTURE_DATA(table) * self)
{
	uint64_t stack = draw(&self->state, STACKS), bytes = draw(&self->state, 5000) + 1;
	struct model *model;

	add_sample(self->table, (uint32_t)stack + 1, bytes, CERTAIN / 4);
	for (model = self->models; model <= &self->models[MARKS]; model++) {
		model->samples[stack]++;
		model->estimate[stack] += bytes * 4;
		model->all_samples++;
		model->all_estimate += bytes * 4;
	}
}

struct seen {
	const struct model *model;
	bool folded; /* entries may have less than the model */
	uint64_t samples, estimate, logged, logged_estimate, wrong;
	uint32_t pids[STACKS + HAB_KINDS]; /* of the stacks, by number */
};

static void see(void *context, uint32_t number, const struct stack_key *key,
		const struct stack_counts *counts, const struct in_use *in_use)
{
	struct seen *seen = context;
	const struct model *model = seen->model;

	(void)in_use;
	seen->pids[number] = key->pid;
	seen->samples += counts->samples;
	seen->estimate += counts->estimate;
	if (!key->pid)
		return;
	if (counts->samples > model->samples[key->pid - 1] ||
	    counts->estimate > model->estimate[key->pid - 1])
		seen->wrong++;
	if (!seen->folded && (counts->samples != model->samples[key->pid - 1] ||
			      counts->estimate != model->estimate[key->pid - 1]))
		seen->wrong++;
}

static void see_logged(void *context, const struct logged_sample *sample)
{
	struct seen *seen = context;

	/* The entry of a logged sample still has the sample's stack. */
	if (sample->tid != seen->pids[sample->stack])
		seen->wrong++;
	seen->logged++;
	seen->logged_estimate += sample->estimate;
}

static struct seen look(FIXTURE_DATA(table) * self, const struct model *model, bool folded)
{
	struct seen seen = { .model = model, .folded = folded };

	stacks_visit(self->table, model->mark, see, &seen);
	stacks_visit_log(self->table, model->mark, see_logged, &seen);
	if (seen.samples != model->all_samples || seen.estimate != model->all_estimate)
		seen.wrong++;
	if (seen.logged > seen.samples || seen.logged_estimate > seen.estimate)
		seen.wrong++;
	if (!folded && seen.logged != seen.samples)
		seen.wrong++;
	return seen;
}

/* Marks come and go at random; the sums since each are compared with the model. */
static uint64_t play(FIXTURE_DATA(table) * self, bool folded)
{
	uint64_t wrong = 0;
	struct model *model;
	unsigned int i;

	for (i = 0; i < ROUNDS; i++) {
		add(self);
		if (draw(&self->state, 20))
			continue;
		model = &self->models[draw(&self->state, MARKS)];
		if (model->mark) {
			wrong += look(self, model, folded).wrong;
			stacks_unmark(self->table, model->mark);
			model->mark = NULL;
		} else {
			memset(model, 0, sizeof(*model));
			model->mark = stacks_mark(self->table, 0, false);
		}
	}
	for (i = 0; i <= MARKS; i++)
		if (self->models[i].mark || i == MARKS)
			wrong += look(self, &self->models[i], folded).wrong;
	return wrong;
}

TEST_F(table, a_mark_has_the_samples_that_came_after_it)
{
	self->table = stacks_new(STACKS);
	EXPECT_EQ(0, play(self, false));
	EXPECT_EQ(0, stacks_folded(self->table));
}

TEST_F(table, folding_changes_no_sum_of_any_mark)
{
	self->table = stacks_new(STACKS / 4);
	EXPECT_EQ(0, play(self, true));
	EXPECT_LT(0, stacks_folded(self->table));
}

static void see_kind(void *context, uint32_t number, const struct stack_key *key,
		     const struct stack_counts *counts, const struct in_use *in_use)
{
	uint64_t *samples = context;

	(void)in_use;
	(void)number;
	samples[key->kind] += counts->samples;
}

TEST_F(table, folded_stacks_keep_their_kind_of_event)
{
	uint64_t before[HAB_KINDS] = { 0 }, after[HAB_KINDS] = { 0 };
	const struct hab_record_sample sample = { .bytes = 1, .probability = CERTAIN, .parts = 1 };
	struct stack_key key = { 0 };
	struct stack_mark *mark = NULL;
	unsigned int i;

	self->table = stacks_new(256);
	for (i = 0; i < 3000; i++) {
		if (i == 1500)
			mark = stacks_mark(self->table, 0, false);
		key.pid = i + 1;
		key.kind = i % 3 ? HAB_EVENT_SAMPLE : HAB_EVENT_TLAB;
		stacks_add(self->table, &sample, &key);
	}
	stacks_visit(self->table, NULL, see_kind, before);
	stacks_visit(self->table, mark, see_kind, after);
	EXPECT_EQ(1000, before[HAB_EVENT_TLAB]);
	EXPECT_EQ(2000, before[HAB_EVENT_SAMPLE]);
	EXPECT_EQ(500, after[HAB_EVENT_TLAB]);
	EXPECT_EQ(1000, after[HAB_EVENT_SAMPLE]);
}

TEST_F(table, sums_of_counts_do_not_wrap)
{
	struct stack_counts sum = { .samples = 1, .bytes = UINT64_MAX - 1, .estimate = 5 };
	struct stack_counts more = { .samples = 1, .bytes = 2, .estimate = UINT64_MAX };

	counts_add(&sum, &more);
	EXPECT_EQ(2, sum.samples);
	EXPECT_EQ(UINT64_MAX, sum.bytes);
	EXPECT_EQ(UINT64_MAX, sum.estimate);
	/* Less than was added: the sum is no longer exact. */
	counts_subtract(&sum, &more);
	counts_subtract(&sum, &more);
	EXPECT_EQ(0, sum.samples);
	EXPECT_EQ(0, sum.estimate);
}

/* More samples than the log has room for: the others are in the sums. */
TEST_F(table, the_log_keeps_the_latest_samples)
{
	struct seen seen = { .model = &self->models[0], .folded = true };
	unsigned int i;

	self->table = stacks_new(256);
	/* The visit of the table fills in seen.pids. */
	add_sample(self->table, 1, 1, CERTAIN);
	stacks_visit(self->table, NULL, see, &seen);
	for (i = 0; i < STACKS_LOG_ROOM + 10; i++)
		add_sample(self->table, 1, 1, CERTAIN);
	stacks_visit_log(self->table, NULL, see_logged, &seen);
	EXPECT_EQ(STACKS_LOG_ROOM, seen.logged);
}

struct uses {
	uint64_t of_stack;
};

static void see_in_use(void *context, uint32_t number, const struct stack_key *key,
		       const struct stack_counts *counts, const struct in_use *in_use)
{
	struct uses *uses = context;

	(void)counts;
	if (key->pid == 7 && number && in_use)
		uses->of_stack += in_use->bytes;
}

static void keep_in_use(void *context, uint32_t stack, uint32_t generation,
			const struct in_use *in_use)
{
	(void)stack;
	(void)generation;
	*(struct in_use *)context = *in_use;
}

static void sum_in_use(void *context, uint32_t stack, uint32_t generation,
		       const struct in_use *in_use)
{
	(void)stack;
	(void)generation;
	in_use_add(context, in_use);
}

TEST(a_live_sample_stands_for_its_piece_and_for_what_was_added_since)
{
	const struct hab_record_sample sample = { .sample_id = 8,
						  .probability = CERTAIN / 2,
						  .live_slot = 1 };
	struct hab_channel *channel = calloc(1, HAB_CHANNEL_BYTES);
	struct live *live = live_new();
	struct live_process *process = live_add(live, 0, channel);
	struct in_use in_use = { 0 };

	ASSERT_NE(NULL, channel);
	hab_channel_live(channel)[0] = (struct hab_channel_live){
		.sample_id = 8,
		.asked = 1000,
		.drawn = 1000,
		.added = 300,
		.added_steps = 300 << HAB_CHANNEL_ADDED_SHIFT,
	};
	live_place(live, &sample, 1, 0);
	live_visit_process(process, keep_in_use, &in_use);
	/* Half of the samples were lost. */
	EXPECT_EQ(2000 + 300, in_use.bytes);
	EXPECT_EQ(300, in_use.exact);
	EXPECT_EQ(2000. * 2000 * (1 - 0.5), in_use.variance);
	/* The step is doubled. Now the growth is by chance, too. */
	channel->live_step = 2;
	live_visit_process(process, keep_in_use, &in_use);
	EXPECT_EQ(4000 + 600, in_use.bytes);
	EXPECT_EQ(0, in_use.exact);
	EXPECT_EQ(2000. * 2000 * 2 * (1 - 0.5) + 2300. * 2300 * 2, in_use.variance);
	live_free(live);
	free(channel);
}

/* Reads what the live samples of this process have in memory. */
static void read_pages(struct live *live, struct live_process *process, int pagemap)
{
	struct live_reading *reading = live_reading_begin(process);

	if (!reading)
		return;
	live_reading_read(reading, pagemap);
	live_reading_end(live, reading);
}

TEST(what_is_in_memory_of_an_object_is_the_part_that_was_touched)
{
	enum { PAGES = 1024, OBJECTS = 64 };
	struct hab_record_sample sample = { .probability = CERTAIN };
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = PAGES * page, i;
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	struct hab_channel *channel = calloc(1, HAB_CHANNEL_BYTES);
	struct live *live = live_new();
	struct live_process *process = live_add(live, 0, channel);
	struct live_reading *reading;
	struct in_use in_use = { 0 };

	ASSERT_TRUE(channel && memory != MAP_FAILED && pagemap >= 0);
	/* A huge page would be touched as a whole. */
	ASSERT_EQ(0, prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
	memset(memory, 1, bytes / 4);
	EXPECT_EQ(NULL, live_reading_begin(process));
	/*
	 * Each object is all of the memory, but the last: its first page is touched, and the half
	 * of a page behind that is not.
	 */
	for (i = 0; i <= OBJECTS; i++) {
		sample.sample_id = hab_mix(i + 1);
		sample.live_slot = (uint32_t)i + 1;
		hab_channel_live(channel)[i] =
			(struct hab_channel_live){ .sample_id = sample.sample_id,
						   .asked = bytes,
						   .drawn = bytes,
						   .address = (uintptr_t)memory };
		if (i == OBJECTS)
			hab_channel_live(channel)[i] =
				(struct hab_channel_live){ .sample_id = sample.sample_id,
							   .asked = page + page / 2,
							   .drawn = page + page / 2,
							   .address = (uintptr_t)memory +
								      bytes / 4 - page };
		live_place(live, &sample, 1, 0);
	}
	/* The memory may not be read, or is gone. */
	read_pages(live, process, -1);
	live_visit_process(process, sum_in_use, &in_use);
	EXPECT_EQ(0, in_use.looked_at);
	EXPECT_GT(0, in_use_resident(&in_use));
	read_pages(live, process, pagemap);
	memset(&in_use, 0, sizeof(in_use));
	live_visit_process(process, sum_in_use, &in_use);
	EXPECT_EQ(OBJECTS * bytes + page + page / 2, in_use.bytes);
	EXPECT_EQ(in_use.bytes, in_use.looked_at);
	EXPECT_EQ(OBJECTS * bytes / 4 + page, in_use.resident);
	/* What ends keeps what was read. One that comes while it is read has nothing of that. */
	read_pages(live, process, -1);
	reading = live_reading_begin(process);
	ASSERT_NE(NULL, reading);
	live_reading_read(reading, pagemap);
	sample.sample_id = hab_channel_live(channel)[0].sample_id = 4711;
	sample.live_slot = 1;
	live_place(live, &sample, 1, 0);
	live_reading_end(live, reading);
	memset(&in_use, 0, sizeof(in_use));
	live_visit_process(process, sum_in_use, &in_use);
	EXPECT_EQ(OBJECTS * bytes + page + page / 2, in_use.bytes);
	EXPECT_EQ(in_use.bytes - bytes, in_use.looked_at);
	live_free(live);
	free(channel);
	munmap(memory, bytes);
	close(pagemap);
}

TEST_F(table, a_process_has_in_use_what_its_folded_stacks_have)
{
	const struct hab_record_sample sample = {
		.head.pid = 7, .sample_id = 5, .probability = CERTAIN, .parts = 1, .live_slot = 1
	};
	const struct stack_key key = { .pid = 7 };
	struct hab_channel *channel = calloc(1, HAB_CHANNEL_BYTES);
	struct uses uses = { 0 };
	unsigned int pid;

	ASSERT_NE(NULL, channel);
	self->table = stacks_new(4);
	channel->live_step = 1;
	stacks_set_in_use_known(self->table);
	live_add(stacks_live(self->table), 7, channel);
	hab_channel_live(channel)[0] =
		(struct hab_channel_live){ .sample_id = 5, .asked = 1000, .drawn = 1000 };
	stacks_add(self->table, &sample, &key);
	stacks_visit(self->table, NULL, see_in_use, &uses);
	EXPECT_EQ(1000, uses.of_stack);
	uses.of_stack = 0;
	for (pid = 100; pid < 110; pid++)
		add_sample(self->table, pid, 1, CERTAIN);
	stacks_visit(self->table, NULL, see_in_use, &uses);
	EXPECT_EQ(0, uses.of_stack);
	EXPECT_EQ(1000, stacks_count_in_use(self->table));
	EXPECT_EQ(1000, stacks_in_use_of(self->table, 7));
	EXPECT_EQ(0, stacks_in_use_of(self->table, 8));
	stacks_free(self->table);
	self->table = NULL;
	free(channel);
}

static void count_frames(void *context, uint32_t number, const struct stack_key *key,
			 const struct stack_counts *counts, const struct in_use *in_use)
{
	unsigned int *with_binary = context;
	uint32_t i;

	(void)in_use;
	(void)number;
	for (i = 0; i < key->nr_frames; i++)
		with_binary[FRAME_BINARY(key->frames[i])] += (unsigned int)counts->samples;
}

static void count_names(void *context, uint32_t number, const struct stack_key *key,
			const struct stack_counts *counts, const struct in_use *in_use)
{
	unsigned int *names = context;

	(void)number, (void)in_use;
	if (counts->samples)
		names[key->comm[0] - 'a'] += (unsigned int)counts->samples;
}

TEST_F(table, stacks_of_a_process_get_its_new_name_and_those_of_others_keep_theirs)
{
	const struct hab_record_sample sample = { .bytes = 8, .probability = CERTAIN, .parts = 1 };
	struct process_renamed renamed[] = { { 9, 0, "x", "y" }, { 2, 1, "a", "d" } };
	struct stack_key key = { .comm = "a" };
	unsigned int names[26] = { 0 };

	self->table = stacks_new(STACKS);
	for (key.pid = 1; key.pid <= 2; key.pid++)
		for (key.uid = 0; key.uid <= 1; key.uid++)
			stacks_add(self->table, &sample, &key);
	/* Of its program before. */
	key = (struct stack_key){ .pid = 2, .uid = 1, .comm = "b" };
	stacks_add(self->table, &sample, &key);
	stacks_rename(self->table, renamed, 2);
	/* A sample with the new name finds the stack. */
	key.comm[0] = 'd';
	stacks_add(self->table, &sample, &key);
	stacks_visit(self->table, NULL, count_names, names);
	EXPECT_EQ(3, names[0]);
	EXPECT_EQ(1, names[1]);
	EXPECT_EQ(2, names[3]);
	EXPECT_EQ(5, stacks_count(self->table));
}

/* What was in no mapping is in binary 6 by now, but for one address. */
static uint64_t find_in_six(void *context, uint32_t pid, uint64_t frame)
{
	*(unsigned int *)context += 1;
	return pid == 2 && FRAME_OFFSET(frame) != 0x3000 ? FRAME(6, FRAME_OFFSET(frame)) : frame;
}

TEST_F(table, addresses_in_no_mapping_are_looked_for_again_until_their_program_ends)
{
	const struct hab_record_sample sample = { .bytes = 8, .probability = CERTAIN, .parts = 1 };
	struct {
		struct stack_key key;
		uint64_t frames[3];
	} stack = { .key.nr_frames = 3 };
	unsigned int with_binary[10] = { 0 }, asked = 0;

	self->table = stacks_new(STACKS);
	stack.key.frames[0] = FRAME(BINARY_UNKNOWN, 0x1000);
	stack.key.frames[1] = FRAME(1, 0x2000);
	stack.key.frames[2] = FRAME(BINARY_UNKNOWN, 0x3000);
	for (stack.key.pid = 1; stack.key.pid <= 2; stack.key.pid++)
		stacks_add(self->table, &sample, &stack.key);
	stacks_translate_again(self->table, 2, 0, find_in_six, &asked);
	EXPECT_EQ(2, asked);
	/* The same address later, as it is then. */
	stack.key.pid = 2;
	stack.key.frames[0] = FRAME(6, 0x1000);
	stacks_add(self->table, &sample, &stack.key);
	stacks_visit(self->table, NULL, count_frames, with_binary);
	EXPECT_EQ(4, with_binary[BINARY_UNKNOWN]);
	EXPECT_EQ(2, with_binary[6]);
	EXPECT_EQ(2, stacks_count(self->table));
	stacks_end_process(self->table, 2, 0);
	stacks_translate_again(self->table, 2, 0, find_in_six, &asked);
	EXPECT_EQ(2, asked);
}

/* Stacks of allocations that were not folded. */
static void count_allocated(void *context, uint32_t number, const struct stack_key *key,
			    const struct stack_counts *counts, const struct in_use *in_use)
{
	unsigned int *count = context;

	(void)number;
	(void)counts;
	(void)in_use;
	*count += key->kind == HAB_EVENT_SAMPLE && key->pid;
}

TEST_F(table, many_stacks_of_growth_fold_none_of_what_is_allocated)
{
	struct hab_record_sample sample = { .bytes = 8, .probability = CERTAIN, .parts = 1 };
	struct stack_key key = { .kind = HAB_EVENT_SAMPLE };
	unsigned int count = 0;

	self->table = stacks_new(STACKS);
	for (key.pid = 1; key.pid <= STACKS / 2; key.pid++)
		stacks_add(self->table, &sample, &key);
	key.kind = sample.kind = HAB_KIND_GROWTH;
	for (key.pid = 1; key.pid <= 10 * STACKS; key.pid++)
		stacks_add(self->table, &sample, &key);
	stacks_visit(self->table, NULL, count_allocated, &count);
	EXPECT_EQ(STACKS / 2, count);
	EXPECT_LE(stacks_count(self->table), STACKS);
}

TEST_HARNESS_MAIN
