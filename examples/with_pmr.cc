// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Containers of the C++ library in a region for each request.
 *
 *	c++ -std=c++17 with_pmr.cc $(pkg-config --cflags --libs hab) -pthread && ./a.out
 */
#include <cstdio>
#include <hab_pmr.hpp>
#include <map>
#include <string>

int main()
{
	hab_heap *heap;
	std::size_t entries = 0;

	if (hab_heap_create(&heap, nullptr))
		return 1;
	for (int i = 0; i < 10000; i++) {
		hab::region_resource request(heap);
		std::pmr::map<std::pmr::string, int> numbers(&request);

		for (int j = 0; j < 20; j++)
			numbers[std::to_string(j % 10).c_str()] += i;
		entries += numbers.size();
	}
	std::printf("%zu entries\n", entries);
	hab_heap_destroy(heap);
	return 0;
}
