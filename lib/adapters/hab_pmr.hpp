// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * C++17's memory resources on regions and heaps.
 *
 *	hab::region_resource request(heap);
 *	std::pmr::vector<std::pmr::string> fields(&request);
 *
 * Deallocation of single objects does nothing: a region_resource frees all of them when it is
 * destroyed or released, a heap_resource when its heap is reset. So a container that grows takes
 * the sum of its sizes: reserve. Objects with destructors that do more than free memory are
 * destroyed before. Without memory std::bad_alloc is thrown.
 *
 * With -fno-exceptions the program is aborted instead, after a line on standard error. With
 * -fno-rtti a heap_resource equals itself alone: containers of two on one heap copy where they
 * could move. All files of a program are compiled with the same choice.
 */
#ifndef HAB_PMR_HPP
#define HAB_PMR_HPP

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <hab.h>
#include <memory_resource>
#include <new>
#include <system_error>

#ifdef __cpp_exceptions
#define HAB_PMR_FAIL_(what, exception) throw exception
#else
#define HAB_PMR_FAIL_(what, exception) \
	(std::fputs("hab_pmr.hpp: " what "\n", stderr), std::abort())
#endif

namespace hab
{

/* Used by one thread at a time, as a region is. */
class region_resource final : public std::pmr::memory_resource
{
      public:
	explicit region_resource(hab_heap *heap)
	{
		const int error = hab_region_open(&region_, heap);

		if (error)
			HAB_PMR_FAIL_("hab_region_open() failed: is the heap nullptr?",
				      std::system_error(-error, std::generic_category(),
							"hab_region_open"));
	}

	~region_resource() override
	{
		hab_region_close(&region_);
	}

	region_resource(const region_resource &) = delete;
	region_resource &operator=(const region_resource &) = delete;

	/* Frees all objects; the resource can be used again. */
	void release()
	{
		hab_region_close(&region_);
	}

      private:
	void *do_allocate(std::size_t bytes, std::size_t alignment) override
	{
		const std::size_t more = alignment > 16 ? alignment - 16 : 0;
		void *memory = bytes + more < bytes ? nullptr :
						      hab_region_alloc(&region_, bytes + more);

		if (!memory)
			HAB_PMR_FAIL_("the heap is full", std::bad_alloc());
		const auto address = reinterpret_cast<std::uintptr_t>(memory);
		return static_cast<char *>(memory) + (-address & (alignment - 1));
	}

	void do_deallocate(void *, std::size_t, std::size_t) override
	{
	}

	bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
	{
		return this == &other;
	}

	hab_region region_;
};

/* May be used by any threads at once. */
class heap_resource final : public std::pmr::memory_resource
{
      public:
	explicit heap_resource(hab_heap *heap) noexcept : heap_(heap)
	{
	}

      private:
	void *do_allocate(std::size_t bytes, std::size_t alignment) override
	{
		void *memory = hab_alloc_aligned(heap_, alignment, bytes);

		if (!memory)
			HAB_PMR_FAIL_("the heap is full", std::bad_alloc());
		return memory;
	}

	void do_deallocate(void *, std::size_t, std::size_t) override
	{
	}

	bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
	{
#ifdef __cpp_rtti
		const auto *same = dynamic_cast<const heap_resource *>(&other);

		return same && same->heap_ == heap_;
#else
		return this == &other;
#endif
	}

	hab_heap *heap_;
};

} // namespace hab

#endif // HAB_PMR_HPP
