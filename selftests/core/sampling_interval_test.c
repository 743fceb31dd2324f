// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sampling interval follows the rate of allocation. Processes that allocate at known rates are
 * simulated with the law of wire/interval.h and the real throttler, at 150 samples a
 * second in windows of 200 ms. However fast they allocate, they offer one to three times the quota
 * on average, and in no window 15 times, and nine tenths of the quota are kept.
 *
 * The objects have four sizes, in equal shares of bytes, and come at random. So the distance in
 * bytes to the next sample is exponential, with a mean that changes with each change of the
 * interval: each offer is simulated, and no object that is not sampled.
 *
 * Averages are of windows in which the processes can offer twice the quota: at the least interval,
 * 4 KiB, that takes about 3 MB a second. With 1 MB a second all samples are kept.
 */
#include <math.h>

#include "wire/interval.h"
#include "kselftest_harness.h"
#include "reader.h"

#define RATE	      150
#define WINDOW	      0.2   /* seconds */
#define QUOTA	      30ull /* of a window */
#define SIZES	      4
#define PROCESSES_MAX 100
#define GROUP	      50 /* processes of one user: a group has places for 63 */
#define USERS	      (PROCESSES_MAX / GROUP)
#define SETTLED	      75 /* windows; averages are of later ones */
#define SEEDS	      20

static const double sizes[SIZES] = { 48, 4096, 393216, 3145728 };

static u64 random_state;

static u64 next_random(void)
{
	return hab_mix(random_state += HAB_MIX_STEP);
}

static double uniform(void)
{
	return ((double)(next_random() >> 11) + 0.5) / 9007199254740992.0;
}

struct process {
	struct hab_interval interval;
	u32 generation; /* number of processes that had this place before */
	double bytes;	/* allocated in this window */
	double at;	/* where the next offer is: 0 to 1 is this window */
};

struct scenario {
	const char *name;
	u32 processes;
	double seconds;
	bool short_lived; /* each process ends with the first window in which it allocates */
	double (*bytes_per_second)(u32 process, double time);
};

/* Of all seeds; @most of one window. */
struct result {
	u64 windows, offers, most, kept, kept_for_now;
};

struct machine {
	struct hab_throttle *throttle;
	struct reader reader;
	struct hab_interval users[USERS];
	struct process processes[PROCESSES_MAX];
	u64 kept;
};

/* Samples expected in the window. */
static double expected_of(const struct process *process, u64 mean)
{
	double chance = 0;
	int i;

	for (i = 0; i < SIZES; i++)
		chance += -expm1(-sizes[i] / (double)mean) / sizes[i] / SIZES;
	return chance * process->bytes;
}

static void draw_next(struct process *process)
{
	if (process->bytes > 0)
		process->at += -log(uniform()) / expected_of(process, process->interval.mean);
	else
		process->at = 1;
}

static u64 key_of(const struct machine *machine, u32 process)
{
	return HAB_SHARE_KEY(1 + process / GROUP,
			     process + 1 + machine->processes[process].generation * PROCESSES_MAX);
}

static void count_kept(void *context, const struct reader_sample *sample)
{
	struct machine *machine = context;

	(void)sample;
	machine->kept++;
}

static void offer(struct machine *machine, u32 number)
{
	struct process *process = &machine->processes[number];
	struct hab_kept kept;

	if (hab_throttle_offer(machine->throttle, key_of(machine, number), &kept))
		reader_keep(&machine->reader, &kept, number, 1);
	hab_interval_offer(&process->interval, &machine->users[number / GROUP],
			   process->interval.mean);
	draw_next(process);
}

static u32 first_of(const struct machine *machine, u32 processes)
{
	u32 i, first = 0;

	for (i = 1; i < processes; i++)
		if (machine->processes[i].at < machine->processes[first].at)
			first = i;
	return first;
}

/* The quota of a process's own window, 0 if it has none. */
static u64 quota_of(const struct hab_throttle *throttle, u64 key)
{
	u32 i;

	for (i = 0; i < HAB_SHARES; i++)
		if (hab_counter_read(&throttle->shares[i].key) == key)
			return throttle->shares[i].windows[throttle->number % 2].quota;
	return 0;
}

/*
 * With HAB_SHARE_SHIFT bits of fraction. A quota may be rounded up; and what earlier windows left
 * unused counts for nothing.
 */
static u64 share_of(const struct machine *machine, u32 process, u64 fair, u32 active)
{
	u64 own = min(quota_of(machine->throttle, key_of(machine, process)), QUOTA);

	return max((own - !!own) << HAB_SHARE_SHIFT, fair / max(active, 1u));
}

/* Returns the number of samples that the processes would offer at the least interval. */
static double begin_window(struct machine *machine, const struct scenario *scenario, double time)
{
	struct process *process;
	double possible = 0;
	u32 i;

	for (i = 0; i < scenario->processes; i++) {
		process = &machine->processes[i];
		process->bytes = scenario->bytes_per_second(i, time) * WINDOW;
		process->at = 0;
		draw_next(process);
		possible += expected_of(process, HAB_SAMPLING_INTERVAL_LEAST);
	}
	return possible;
}

static void begin_process(struct machine *machine, u32 number)
{
	struct process *process = &machine->processes[number];

	process->generation++;
	memset(&process->interval, 0, sizeof(process->interval));
	hab_interval_begin(&process->interval, &machine->users[number / GROUP],
			   QUOTA << HAB_SHARE_SHIFT);
}

static void turn_intervals(struct machine *machine, const struct scenario *scenario)
{
	struct process *process;
	u32 i, active[USERS] = { 0 }, active_users = 0;
	u64 fair;

	for (i = 0; i < USERS; i++)
		active_users += hab_interval_is_active(&machine->users[i]);
	fair = (QUOTA << HAB_SHARE_SHIFT) / max(active_users, 1u);
	for (i = 0; i < USERS; i++)
		hab_interval_turn(&machine->users[i], fair, (u32)next_random());
	for (i = 0; i < scenario->processes; i++)
		active[i / GROUP] += hab_interval_is_active(&machine->processes[i].interval);
	for (i = 0; i < scenario->processes; i++) {
		process = &machine->processes[i];
		if (scenario->short_lived && process->bytes > 0)
			begin_process(machine, i);
		else
			hab_interval_turn(&process->interval,
					  share_of(machine, i, fair, active[i / GROUP]),
					  (u32)next_random());
	}
}

static struct machine *begin(const struct scenario *scenario, u64 seed)
{
	struct machine *machine = calloc(1, sizeof(*machine));
	u32 i;

	random_state = seed * HAB_MIX_STEP;
	machine->throttle = calloc(1, sizeof(*machine->throttle));
	machine->throttle->seeds[0] = next_random();
	machine->reader = (struct reader){ .quota = 1000, .emit = count_kept, .context = machine };
	hab_throttle_set_rate(machine->throttle, RATE, HAB_SECOND_MS, reader_end, &machine->reader);
	for (i = 0; i < USERS; i++)
		hab_interval_begin(&machine->users[i], NULL, QUOTA << HAB_SHARE_SHIFT);
	for (i = 0; i < scenario->processes; i++)
		begin_process(machine, i);
	return machine;
}

static void run(const struct scenario *scenario, u64 seed, struct result *result)
{
	struct machine *machine = begin(scenario, seed);
	u64 offers, kept = 0, records = 0;
	u32 window, first;
	double possible;

	for (window = 0; window * WINDOW < scenario->seconds; window++) {
		possible = begin_window(machine, scenario, window * WINDOW);
		for (offers = 0; first = first_of(machine, scenario->processes),
		    machine->processes[first].at < 1;
		     offers++)
			offer(machine, first);
		hab_throttle_rotate(machine->throttle, next_random(), reader_end, &machine->reader);
		turn_intervals(machine, scenario);
		result->most = max(result->most, offers);
		if (window >= SETTLED && possible >= 2 * QUOTA) {
			result->windows++;
			result->offers += offers;
			result->kept += machine->kept - kept;
			result->kept_for_now += machine->reader.records - records;
		}
		kept = machine->kept;
		records = machine->reader.records;
	}
	reader_free(&machine->reader);
	free(machine->throttle);
	free(machine);
}

#define STEADY(name, rate)                                    \
	static double steady_##name(u32 process, double time) \
	{                                                     \
		(void)process, (void)time;                    \
		return rate;                                  \
	}
STEADY(1m, 1e6)
STEADY(10m, 1e7)
STEADY(100m, 1e8)
STEADY(1g, 1e9)
STEADY(5g, 5e9)
STEADY(5g_10m, process ? 1e7 : 5e9)
STEADY(5g_1m, process ? 1e6 : 5e9)
STEADY(50m, 5e7)

/* A burst of 5 GB/s for a second, every four seconds. */
static double bursts(u32 process, double time)
{
	return process ? 5e7 : fmod(time, 4) < 1 ? 5e9 : 0;
}

static double silence(u32 process, double time)
{
	(void)process;
	return time < 10 || time >= 40 ? 5e9 : 0;
}

static double near_silence(u32 process, double time)
{
	return fmax(silence(process, time), 100);
}

static double silence_of_all(u32 process, double time)
{
	(void)process;
	return time < 10 || time >= 60 ? 5e7 : 0;
}

/* Each third of the processes allocates in every third window. */
static double thirds(u32 process, double time)
{
	return ((u32)(time / WINDOW + 0.5) + process) % 3 ? 0 : 5e7;
}

static const struct scenario scenarios[] = {
	{ "5 GB/s and 10 MB/s", 2, 40, false, steady_5g_10m },
	{ "1 MB/s", 1, 40, false, steady_1m },
	{ "10 MB/s", 1, 40, false, steady_10m },
	{ "0.1 GB/s", 1, 40, false, steady_100m },
	{ "1 GB/s", 1, 40, false, steady_1g },
	{ "5 GB/s", 1, 40, false, steady_5g },
	{ "5 GB/s a second of four, and 50 MB/s", 2, 40, false, bursts },
	{ "5 GB/s after 0 B/s for 30 s", 1, 50, false, silence },
	{ "5 GB/s after 100 B/s for 30 s", 1, 50, false, near_silence },
	{ "5 GB/s and 20 times 1 MB/s", 21, 40, false, steady_5g_1m },
	{ "100 times 50 MB/s", 100, 40, false, steady_50m },
	{ "100 times 50 MB/s after 50 s", 100, 70, false, silence_of_all },
	{ "33 new processes a window, 50 MB/s each", 100, 40, true, thirds },
};

TEST(offers_are_one_to_three_times_the_quota_however_fast_processes_allocate)
{
	struct result result;
	double offers, kept;
	u64 seed;
	u32 i;

	TH_LOG("in quotas: offers on average, in the worst window; samples kept; kept for now, of each kept");
	for (i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		memset(&result, 0, sizeof(result));
		for (seed = 1; seed <= SEEDS; seed++)
			run(&scenarios[i], seed, &result);
		EXPECT_LT(result.most, 15 * QUOTA);
		if (!result.windows) {
			TH_LOG("%-40s      %6.2f", scenarios[i].name, (double)result.most / QUOTA);
			continue;
		}
		offers = (double)result.offers / QUOTA / result.windows;
		kept = (double)result.kept / QUOTA / result.windows;
		TH_LOG("%-40s %4.2f %6.2f  %4.2f  %4.2f", scenarios[i].name, offers,
		       (double)result.most / QUOTA, kept,
		       (double)result.kept_for_now / result.kept);
		EXPECT_GT(offers, 1);
		EXPECT_LT(offers, 3);
		EXPECT_GT(kept, 0.9);
	}
}

/* In a child by fork() from a signal handler the interval's memory is zero. */
TEST(an_interval_of_zeros_counts)
{
	struct hab_interval interval = { 0 };

	EXPECT_TRUE(hab_interval_count(&interval, 100));
	EXPECT_TRUE(hab_interval_count(&interval, 100));
}

TEST_HARNESS_MAIN
