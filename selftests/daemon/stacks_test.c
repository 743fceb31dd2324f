// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests the table of stacks against a plain model: what was added since each mark.
 *
 * Hard case: marks come and go while stacks are folded, and no sum may change by that.
 */
#include "kselftest_harness.h"

#include "daemon/samples/sample_log.h"
#include "daemon/samples/stacks.h"

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
	uint64_t state, now;
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

static void add(FIXTURE_DATA(table) * self)
{
	uint64_t stack = draw(&self->state, STACKS), bytes = draw(&self->state, 5000) + 1;
	struct stack_counts counts = { .samples = 1, .bytes = bytes, .estimate = bytes * 3 };
	uint64_t frames[2] = { stack, 7 };
	struct stack_key key = { .pid = (uint32_t)stack + 1, .nr_frames = 2, .frames = frames };
	struct stack_event event = { .time_ns = self->now, .tid = key.pid };
	struct model *model;

	stacks_add(self->table, &key, &counts, &event, self->now++);
	for (model = self->models; model <= &self->models[MARKS]; model++) {
		model->samples[stack]++;
		model->estimate[stack] += bytes * 3;
		model->all_samples++;
		model->all_estimate += bytes * 3;
	}
}

struct seen {
	const struct model *model;
	bool folded; /* entries may be less than the model's */
	uint64_t samples, estimate, events, event_estimate, wrong;
	uint32_t pids[STACKS + 1]; /* of the stacks, by number */
};

static void see(void *context, uint32_t number, const struct stack_key *key,
		const struct stack_counts *counts)
{
	struct seen *seen = context;
	const struct model *model = seen->model;

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

static void see_event(void *context, uint32_t number, const struct stack_event *event,
		      const struct stack_counts *counts)
{
	struct seen *seen = context;

	/* The stack of a logged sample is still the one it had. */
	if (event->tid != seen->pids[number])
		seen->wrong++;
	seen->events += counts->samples;
	seen->event_estimate += counts->estimate;
}

static struct seen look(FIXTURE_DATA(table) * self, const struct model *model, bool folded)
{
	struct seen seen = { .model = model, .folded = folded };

	stacks_visit(self->table, model->mark, see, &seen);
	stacks_visit_events(self->table, model->mark, see_event, &seen);
	if (seen.samples != model->all_samples || seen.estimate != model->all_estimate)
		seen.wrong++;
	if (seen.events > seen.samples || seen.event_estimate > seen.estimate)
		seen.wrong++;
	if (!folded && seen.events != seen.samples)
		seen.wrong++;
	return seen;
}

/* Marks come and go at random; what is seen since each is compared. */
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
			model->mark = stacks_mark(self->table);
		}
	}
	for (i = 0; i <= MARKS; i++)
		if (self->models[i].mark || i == MARKS)
			wrong += look(self, &self->models[i], folded).wrong;
	return wrong;
}

TEST_F(table, each_mark_sees_what_came_after_it)
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

/* Each stack is seen again between two marks, and all marks stay. */
TEST_F(table, a_past_that_is_too_long_is_folded)
{
	struct stack_counts counts = { .samples = 1, .estimate = 1 };
	struct stack_event event = { .tid = 1 };
	uint64_t frame = 1, marks, stack;
	struct seen seen = { .model = &self->models[0], .folded = true };
	struct stack_mark *first = NULL, *mark;

	self->table = stacks_new(256);
	for (stack = 0; stack < STACKS; stack++)
		self->models[0].samples[stack] = self->models[0].estimate[stack] = 100;
	for (marks = 0; marks < 40; marks++) {
		mark = stacks_mark(self->table);
		if (!first)
			first = mark;
		for (stack = 0; stack < 200; stack++) {
			struct stack_key key = { .pid = (uint32_t)stack + 1,
						 .nr_frames = 1,
						 .frames = &frame };

			stacks_add(self->table, &key, &counts, &event, marks);
		}
	}
	EXPECT_LT(0, stacks_folded(self->table));
	stacks_visit(self->table, first, see, &seen);
	EXPECT_EQ(0, seen.wrong);
	EXPECT_EQ(40 * 200, seen.samples);
}

/* The log is shorter than what was added; what it lacks is in the sums. */
TEST_F(table, the_log_keeps_the_latest_samples)
{
	struct stack_counts counts = { .samples = 1, .estimate = 1 };
	struct stack_event event = { .tid = 1 };
	uint64_t frame = 1;
	struct stack_key key = { .pid = 1, .nr_frames = 1, .frames = &frame };
	struct seen seen = { .model = &self->models[0], .folded = true };
	unsigned int i;

	self->table = stacks_new(256);
	for (i = 0; i < SAMPLE_LOG_ROOM + 10; i++)
		stacks_add(self->table, &key, &counts, &event, i);
	stacks_visit_events(self->table, NULL, see_event, &seen);
	EXPECT_EQ(SAMPLE_LOG_ROOM, seen.events);
}

TEST_HARNESS_MAIN
