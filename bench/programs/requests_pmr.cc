// SPDX-License-Identifier: GPL-2.0-only
/*
 * The C++ library's monotonic resource over malloc, one for each request.
 */
#include <memory_resource>
#include <new>

#include "bench/programs/requests.h"

static int replay(const struct request *request, void **)
{
	std::pmr::monotonic_buffer_resource resource;

	for (size_t i = 0; i < request->nr_sizes; i++)
		request_touch(resource.allocate(request_size(request->sizes[i]), 16), i);
	return 0;
}

/* Without a constructor that runs at each access of a thread-local object. */
alignas(std::pmr::monotonic_buffer_resource) static thread_local char
	place[sizeof(std::pmr::monotonic_buffer_resource)];

static std::pmr::monotonic_buffer_resource *resource()
{
	return reinterpret_cast<std::pmr::monotonic_buffer_resource *>(place);
}

static void open_resource(void)
{
	new (place) std::pmr::monotonic_buffer_resource;
}

static void *alloc(size_t size)
{
	return resource()->allocate(size, 16);
}

static void close_resource(void)
{
	resource()->~monotonic_buffer_resource();
}

extern "C" const struct request_allocator request_pmr = {
	"pmr", nullptr, replay, open_resource, alloc, close_resource,
};
