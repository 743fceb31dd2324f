// SPDX-License-Identifier: GPL-2.0-only
/*
 * The C++ library's containers on regions and heaps. TAP, without the harness, which is C.
 */
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "lib/adapters/hab_pmr.hpp"

static int number, failed;

static void report(bool good, const char *name)
{
	std::printf("%sok %d %s\n", good ? "" : "not ", ++number, name);
	failed += !good;
}

static hab_heap *make_heap(std::size_t arena)
{
	hab_heap_config config;
	hab_heap *heap = nullptr;

	hab_heap_config_init(&config);
	config.arena_bytes = arena;
	return hab_heap_create(&heap, &config) ? nullptr : heap;
}

using table = std::pmr::map<std::pmr::string, std::pmr::vector<int>>;

static bool fill(std::pmr::memory_resource *resource)
{
	table numbers(resource);

	for (int i = 0; i < 1000; i++)
		numbers[std::pmr::string("a rather long name ", resource) +
			std::to_string(i % 100).c_str()]
			.push_back(i);
	if (numbers.size() != 100)
		return false;
	for (const auto &entry : numbers)
		if (entry.second.size() != 10 || entry.second[9] - entry.second[0] != 900)
			return false;
	return true;
}

static void containers_live_in_a_region_and_are_freed_with_it()
{
	hab_heap *heap = make_heap(8 << 20);
	struct hab_heap_stats stats;
	bool good = true;

	for (int i = 0; i < 500; i++) {
		hab::region_resource request(heap);

		good = good && fill(&request);
		request.release();
		good = good && fill(&request);
	}
	hab_heap_stats(heap, &stats);
	report(good && stats.region_bytes > 16 << 20 && !stats.open_chunks, __func__);
	hab_heap_destroy(heap);
}

static void alignments_are_kept()
{
	hab_heap *heap = make_heap(8 << 20);
	hab::region_resource region(heap);
	hab::heap_resource whole(heap);
	bool good = true;

	for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2) {
		for (std::pmr::memory_resource *resource :
		     { (std::pmr::memory_resource *)&region,
		       (std::pmr::memory_resource *)&whole }) {
			auto address = (std::uintptr_t)resource->allocate(3 * alignment, alignment);

			good = good && address % alignment == 0;
		}
	}
	report(good, __func__);
}

static void threads_share_a_heap_resource()
{
	hab_heap *heap = make_heap(256 << 20);
	hab::heap_resource resource(heap);
	std::vector<std::thread> threads;
	int good = 0;

	for (int i = 0; i < 8; i++)
		threads.emplace_back([&] {
			for (int j = 0; j < 20; j++)
				if (fill(&resource))
					__atomic_add_fetch(&good, 1, __ATOMIC_RELAXED);
		});
	for (auto &thread : threads)
		thread.join();
	report(good == 160 && resource == hab::heap_resource(heap), __func__);
	hab_heap_destroy(heap);
}

static void a_full_heap_throws_bad_alloc()
{
	hab_heap *heap = make_heap(1 << 20);
	volatile std::size_t most = SIZE_MAX;
	int thrown = 0;

	{
		hab::region_resource region(heap);

		try {
			(void)region.allocate(2 << 20);
		} catch (const std::bad_alloc &) {
			thrown++;
		}
		try {
			(void)region.allocate(most - 7, 64);
		} catch (const std::bad_alloc &) {
			thrown++;
		}
	}
	try {
		hab::region_resource none(nullptr);
	} catch (const std::system_error &) {
		thrown++;
	}
	report(thrown == 3, __func__);
	hab_heap_destroy(heap);
}

int main()
{
	std::puts("1..4");
	containers_live_in_a_region_and_are_freed_with_it();
	alignments_are_kept();
	threads_share_a_heap_resource();
	a_full_heap_throws_bad_alloc();
	return failed ? 1 : 0;
}
