// SPDX-License-Identifier: GPL-2.0-only
/* The tables of habd: made, brought up to date, and read as counts. */
#include "daemon/habd/state/state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/habd/parts/part_feed.h"
#include "daemon/shared/util.h"

#define LINES_MS      250 /* of the 2 seconds that the viewer waits for a profile */
#define TOTALS_NS     1000000000ull
#define FOLD_NS	      3000000000ull
#define EVICT_NS      1000000000ull
#define EVICT_SLOW_NS 10000000000ull
#define EVICTED_MIN   64
#define CLOSE_NS      5000000000ull
#define IN_USE_NS     1000000000ull
#define PUBLISH_NS    500000000ull
#define KEPT_NS	      3600000000000ull /* what an owner's programs have done can be seen so long */

void state_begin(struct state *state, unsigned int stacks, unsigned int debuginfod_seconds)
{
	unsigned int i;

	memset(state, 0, sizeof(*state));
	pthread_mutex_init(&state->turns, NULL);
	pthread_cond_init(&state->turn_ended, NULL);
	pthread_mutex_init(&state->render, NULL);
	pthread_mutex_init(&state->lock, NULL);
	state->binaries = binaries_new();
	state->processes = processes_new(state->binaries);
	state->stacks = stacks_new(stacks);
	state->ingest = ingest_new(state->processes, state->stacks);
	state->symbols = symbols_new(debuginfod_seconds, LINES_MS, false);
	state->totals = totals_new();
	state->timeline = timeline_new(state->stacks, timeline_now());
	state->start_ns = clock_realtime_ns();
	state->start_monotonic_ns = clock_monotonic_ns();
	for (i = 0; i < RECENT_MARKS; i++) {
		state->recent_ns[i] = state->start_monotonic_ns;
		state->recent[i] = stacks_mark(state->stacks, 0, false);
	}
	state->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	state->pid = getpid();
}

void state_end(struct state *state)
{
	probe_files_free(state->probe_files);
	rss_free(state->rss);
	totals_free(state->totals);
	timeline_free(state->timeline, state->stacks);
	symbols_free(state->symbols);
	processes_free(state->processes);
	ingest_free(state->ingest);
	stacks_free(state->stacks);
	binaries_free(state->binaries);
	close(state->stop_fd);
	pthread_mutex_destroy(&state->lock);
	pthread_mutex_destroy(&state->render);
	pthread_cond_destroy(&state->turn_ended);
	pthread_mutex_destroy(&state->turns);
}

void state_turn_begin(struct state *state)
{
	uint64_t before;

	pthread_mutex_lock(&state->turns);
	before = state->turns_begun++;
	while (before - state->turns_ended >= PROFILES_AT_ONCE)
		pthread_cond_wait(&state->turn_ended, &state->turns);
	pthread_mutex_unlock(&state->turns);
}

void state_turn_end(struct state *state)
{
	pthread_mutex_lock(&state->turns);
	state->turns_ended++;
	pthread_cond_broadcast(&state->turn_ended);
	pthread_mutex_unlock(&state->turns);
}

/* The processes that have a channel. */
static void add_processes(void *context, struct feed_totals *totals)
{
	struct state *state = context;
	unsigned int i;

	if (state->snapshots) {
		snapshots_add_processes(state->snapshots, totals);
		return;
	}
	if (state->channels)
		channels_add_processes(state->channels, totals);
	for (i = 0; i < totals->nr_processes; i++)
		totals->processes[i].in_use =
			stacks_in_use_of(state->stacks, totals->processes[i].pid);
}

static void update_totals_locked(struct state *state, uint64_t now)
{
	static uint64_t totals_ns, fold_ns;

	if (now - fold_ns >= FOLD_NS) {
		totals_fold(state->totals, state->feed);
		totals_ns = 0;
		fold_ns = now;
	}
	if (now - totals_ns >= TOTALS_NS) {
		totals_read(state->totals, state->feed, add_processes, state, now);
		totals_ns = now;
	}
}

uint64_t recent_start_ns(uint64_t now)
{
	return max(now / RECENT_NS, 1ull) * RECENT_NS - RECENT_NS;
}

void state_move_recent_locked(struct state *state, uint64_t now)
{
	if (now / RECENT_NS == state->recent_ns[1] / RECENT_NS)
		return;
	stacks_unmark(state->stacks, state->recent[0]);
	state->recent[0] = state->recent[1];
	state->recent_ns[0] = state->recent_ns[1];
	state->recent[1] = stacks_mark(state->stacks, feed_now_ns(state->feed), false);
	state->recent_ns[1] = now;
}

static void mark_frames(void *context, uint32_t number, const struct stack_key *key,
			const struct stack_counts *counts, const struct in_use *in_use)
{
	struct frames_used *used = context;
	uint32_t i;

	for (i = 0; i < key->nr_frames; i++) {
		used->binaries[FRAME_BINARY(key->frames[i])] = true;
		if (FRAME_BINARY(key->frames[i]) == BINARY_NAMES)
			used->names[FRAME_OFFSET(key->frames[i])] = true;
	}
}

/* Frees the binaries and names that neither a process has nor a stack of the table runs through. */
static void evict_locked(struct state *state, uint64_t now)
{
	static struct frames_used used;
	struct names *names = binaries_names(state->binaries);
	bool names_too = names_are_crowded(names);
	unsigned int evicted;

	if ((!binaries_are_crowded() && !names_too) || now < state->evict_ns)
		return;
	memset(&used, 0, sizeof(used));
	processes_mark(state->processes, &used);
	stacks_visit(state->stacks, NULL, mark_frames, &used);
	evicted = names_too ? names_evict(names, used.names) : 0;
	evicted += binaries_evict(state->binaries, used.binaries);
	/* While it helps little it is done less often: the table may be full of what is needed. */
	state->evict_ns = now + (evicted < EVICTED_MIN ? EVICT_SLOW_NS : EVICT_NS);
}

static bool is_open(void *context, uint64_t id)
{
	return binaries_have_open(context, id);
}

static void close_files_locked(struct state *state, uint64_t now)
{
	bool mapped[BINARIES_MAX] = { false };

	if (now - state->close_ns < CLOSE_NS)
		return;
	state->close_ns = now;
	processes_mark_mapped(state->processes, mapped);
	binaries_close_unmapped(state->binaries, mapped);
	symbols_tidy(state->symbols, is_open, state->binaries);
}

/* It looks at every live sample. So once a second is the most, however many requests there are. */
static void update_in_use_locked(struct state *state, uint64_t now)
{
	if (now - state->in_use_ns < IN_USE_NS)
		return;
	state->in_use_bytes = stacks_count_in_use(state->stacks);
	state->in_use_ns = now;
}

static void count_own_locked(const struct state *state, struct part_counts *counts)
{
	memset(counts, 0, sizeof(*counts));
	counts->knows_in_use = stacks_know_in_use(state->stacks);
	counts->in_use_bytes = state->in_use_bytes;
	counts->ingest = *ingest_counts(state->ingest);
	counts->pending = *ingest_pending_counts(state->ingest);
	counts->stacks = stacks_count(state->stacks);
	counts->stacks_folded = stacks_folded(state->stacks);
	counts->limits = limits_own;
	counts->maps_unreadable = processes_counts(state->processes).unreadable;
	if (state->channels)
		counts->channels = channels_counts(state->channels);
	counts->symbols_unreadable = symbols_unreadable(state->symbols);
	counts->names_late = symbols_late(state->symbols);
}

static int compare_bytes(const void *one, const void *two)
{
	const struct feed_process *first = one, *second = two;

	return first->totals.bytes < second->totals.bytes ?
		       1 :
		       -(first->totals.bytes > second->totals.bytes);
}

static void add_probed(void *context, const struct probed_process *process)
{
	struct feed_process *to = feed_totals_add(context);

	*to = (struct feed_process){ .pid = process->pid };
	to->totals.bytes = process->bytes;
	to->totals.sampled = process->samples;
	to->totals.owner = process->owner;
	to->totals.uid = process->uid;
	memcpy(to->totals.comm, process->comm, sizeof(to->totals.comm));
}

static void publish_processes_locked(struct state *state, struct part_page *page)
{
	struct feed_totals own = { 0 };
	const struct feed_process *from;
	struct part_process *to;
	unsigned int i, nr;

	channels_add_processes(state->channels, &own);
	probed_visit_processes(ingest_probed(state->ingest), add_probed, &own);
	if (own.nr_processes > PART_PROCESSES)
		qsort(own.processes, own.nr_processes, sizeof(*own.processes), compare_bytes);
	nr = min(own.nr_processes, PART_PROCESSES);
	for (i = 0; i < nr; i++) {
		from = &own.processes[i];
		to = &page->processes[i];
		*to = (struct part_process){ .pid = from->pid,
					     .uid = from->totals.uid,
					     .bytes = from->totals.bytes,
					     .sampled = from->totals.sampled,
					     .lost = from->totals.lost,
					     .interpreter = from->interpreter,
					     .in_use = stacks_in_use_of(state->stacks, from->pid) };
		memcpy(to->comm, from->totals.comm, sizeof(to->comm));
	}
	WRITE_ONCE(page->nr_processes, nr);
	free(own.processes);
}

/* Lets broker and viewer see what this collector has. */
static void publish_locked(struct state *state, uint64_t now)
{
	struct part_page *page = part_page(state->memory);

	update_in_use_locked(state, now);
	count_own_locked(state, &page->counts);
	if (now - page->published_ns >= PUBLISH_NS) {
		publish_processes_locked(state, page);
		WRITE_ONCE(page->published_ns, now);
	}
	channels_set_rate(state->channels, READ_ONCE(page->rate));
	WRITE_ONCE(page->active, channels_are_active(state->channels));
	if (page->counts.limits.used[LIMITED_CHANNELS] ||
	    page->counts.ingest.samples != state->busy_samples) {
		state->busy_ns = now;
		state->busy_samples = page->counts.ingest.samples;
	}
	WRITE_ONCE(page->idle, !page->counts.limits.used[LIMITED_CHANNELS] &&
				       !page->counts.limits.used[LIMITED_CLIENTS] &&
				       !page->counts.limits.used[LIMITED_TCP_CLIENTS] &&
				       !page->counts.limits.used[LIMITED_RECORDINGS] &&
				       (!page->counts.stacks || now - state->busy_ns > KEPT_NS));
	WRITE_ONCE(page->alive_ns, now);
}

void state_tick(struct state *state)
{
	struct timeline_point point;
	struct timeline_copy copy;
	bool has_point;
	uint64_t now;

	pthread_mutex_lock(&state->lock);
	now = clock_monotonic_ns();
	ingest_flush(state->ingest, feed_now_ns(state->feed));
	processes_tidy(state->processes);
	evict_locked(state, now);
	close_files_locked(state, now);
	update_totals_locked(state, now);
	state_move_recent_locked(state, now);
	if (state->memory)
		publish_locked(state, now);
	if (state->rss)
		rss_read(state->rss, now);
	has_point = timeline_copy(state->timeline, state->stacks, timeline_now(), &copy);
	pthread_mutex_unlock(&state->lock);
	if (state->probe_files &&
	    probe_files_tick(state->probe_files, state->binaries, &state->lock))
		WRITE_ONCE(part_page(state->memory)->has_probes, 1);
	if (!has_point)
		return;
	point = timeline_sum_up(&copy);
	pthread_mutex_lock(&state->lock);
	timeline_add(state->timeline, point);
	pthread_mutex_unlock(&state->lock);
}

static void count_refills(struct numbers *numbers)
{
	struct feed_totals *now = &numbers->totals.now;

	now->of.missed_stacks += now->of.machine.stacks_lost;
	now->of.missed_heaps += now->of.machine.heaps_lost;
	numbers->lost = now->of.machine.lost + now->of.missed_events + now->of.probes_lost +
			now->of.samples_lost;
	numbers->counts.limits.refused[LIMITED_OWNERS] = now->of.unknown;
	numbers->counts.limits.refused[LIMITED_UNTAKEN] = now->of.untaken;
	numbers->counts.limits.refused[LIMITED_PROCESSES] = now->of.machine.table_full;
	numbers->refills = now->of.module_refills ?:
				   now->of.machine.refills + now->of.missed_refills;
	numbers->refill_bytes = now->of.module_bytes ?: now->of.machine.bytes;
}

/* The sums of what the collectors count, and what this viewer and the module have refused. */
static void add_owners(struct numbers *numbers, const struct state *state)
{
	uint64_t *refused = numbers->counts.limits.refused;
	unsigned int i;

	numbers->nr_states = snapshots_states(state->snapshots, &numbers->states);
	for (i = 0; i < numbers->nr_states; i++)
		sums_add(&numbers->counts, &numbers->states[i].counts, PART_COUNTS);
	sums_add(refused, limits_own.refused, LIMITS);
	if (numbers->module.known[MODULE_REFUSED_HEAPS])
		refused[LIMITED_HEAPS] =
			numbers->module.value[MODULE_REFUSED_HEAPS] - state->refused_heaps;
}

/* The daemon's lock is free again while the copy is written to a client. */
void numbers_begin(struct numbers *numbers, struct state *state)
{
	struct totals *totals = state->totals;
	uint64_t now;

	memset(numbers, 0, sizeof(*numbers));
	if (feed_is_module(state->feed))
		module_numbers_read(&numbers->module);
	if (state->snapshots) {
		part_feed_ask(state->feed);
		add_owners(numbers, state);
	}
	pthread_mutex_lock(&state->lock);
	/* Not before the last reading, which is of another thread. */
	now = clock_monotonic_ns();
	update_in_use_locked(state, now);
	totals_read(totals, state->feed, add_processes, state, now);
	if (!state->snapshots)
		count_own_locked(state, &numbers->counts);
	numbers->totals = *totals;
	numbers->totals.now.processes = NULL;
	numbers->totals.processes = xcalloc(totals->nr_processes, sizeof(*totals->processes));
	if (totals->nr_processes)
		memcpy(numbers->totals.processes, totals->processes,
		       totals->nr_processes * sizeof(*totals->processes));
	pthread_mutex_unlock(&state->lock);
	count_refills(numbers);
	numbers->uptime_seconds = (double)(clock_monotonic_ns() - state->start_monotonic_ns) / 1e9;
}

void numbers_end(struct numbers *numbers)
{
	free(numbers->totals.processes);
	free(numbers->states);
}
