// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two plugins: with -DPOOL one with operators of its own, which end the program for an object that
 * is not of its pool; else one with those of the C++ library.
 */
#include <cstdlib>
#include <memory>
#include <new>

#ifdef POOL

#define USE pool_use
static char pool[1 << 20];
static std::size_t used, nr;

static bool is_in_pool(const void *p)
{
	return p >= pool && p < pool + sizeof(pool);
}

void *operator new(std::size_t size)
{
	nr++;
	used = (used + 15) & ~15ul;
	if (size > sizeof(pool) - used)
		throw std::bad_alloc();
	used += size;
	return pool + used - size;
}

void operator delete(void *p) noexcept
{
	if (p && !is_in_pool(p))
		std::abort();
}

void operator delete(void *p, std::size_t) noexcept
{
	operator delete(p);
}

#else

#define USE std_use
static const int nr = 0;

static bool is_in_pool(const void *)
{
	return false;
}

#endif

static void *volatile nothing;
extern "C" int USE(int count);
extern "C" int USE(int count)
{
	int sum = 0;

	for (int i = 0; i < count; i++) {
		std::unique_ptr<char> object(new char((char)i));

		sum += *object + 100 * is_in_pool(object.get());
	}
	/* Freed before anything is allocated: nothing. */
	::operator delete(nothing);
	/* What cannot be had is thrown. */
	try {
		void *volatile p = ::operator new((std::size_t)1 << 60);

		::operator delete(p);
	} catch (const std::bad_alloc &) {
		sum += 1000;
	}
	return sum + (int)nr;
}
