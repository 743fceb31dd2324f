// SPDX-License-Identifier: GPL-2.0-only
/*
 * C++'s operators in all forms: malloc_news CALLS MAY_FAIL. Prints "site all 0 ffffffffffffffff
 * ALLOCATED IN_USE". It begins when it can read a byte from descriptor 3, and waits for the
 * collector by 4.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t random_state = 88172645463325252ull;
/* Frees the C++ library's memory for exceptions, which would be in use. */
namespace __gnu_cxx
{
void __freeres();
}

static size_t allocated, in_use;

static uint64_t next_random()
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

struct object {
	unsigned char *p;
	size_t size;
	int form;
};

static const std::align_val_t alignment{ 128 };

static void *allocate(int form, size_t size)
{
	switch (form) {
	case 0:
		return ::operator new(size);
	case 1:
		return ::operator new[](size);
	case 2:
		return ::operator new(size, std::nothrow);
	case 3:
		return ::operator new[](size, std::nothrow);
	case 4:
		return ::operator new(size, alignment);
	case 5:
		return ::operator new[](size, alignment);
	case 6:
		return ::operator new(size, alignment, std::nothrow);
	default:
		return ::operator new[](size, alignment, std::nothrow);
	}
}

/* The form of delete need not be that of new, but array and alignment are. */
static void release(const object &object)
{
	bool array = object.form % 2, aligned = object.form >= 4;

	switch (next_random() % 3 + 3 * array + 6 * aligned) {
	case 0:
		return ::operator delete(object.p);
	case 1:
		return ::operator delete(object.p, object.size);
	case 2:
		return ::operator delete(object.p, std::nothrow);
	case 3:
		return ::operator delete[](object.p);
	case 4:
		return ::operator delete[](object.p, object.size);
	case 5:
		return ::operator delete[](object.p, std::nothrow);
	case 6:
		return ::operator delete(object.p, alignment);
	case 7:
		return ::operator delete(object.p, object.size, alignment);
	case 8:
		return ::operator delete(object.p, alignment, std::nothrow);
	case 9:
		return ::operator delete[](object.p, alignment);
	case 10:
		return ::operator delete[](object.p, object.size, alignment);
	default:
		return ::operator delete[](object.p, alignment, std::nothrow);
	}
}

/* What does not fit throws, or returns nullptr. */
static bool fails_properly()
{
	volatile size_t size = SIZE_MAX / 2;

	for (int form = 0; form < 8; form++) {
		bool thrown = false;
		void *p = nullptr;

		try {
			p = allocate(form, size);
		} catch (const std::bad_alloc &) {
			thrown = true;
		}
		if (p || thrown != (form % 4 < 2))
			return false;
	}
	return true;
}

static object kept[10000];

/* In a child no object is known to be live. */
static bool child_releases_all()
{
	pid_t child = fork();
	int status = 1;

	if (!child) {
		for (object &object : kept)
			if (object.p)
				release(object);
		_exit(0);
	}
	return waitpid(child, &status, 0) == child && !status;
}

int main(int argc, char **argv)
{
	size_t since = 0;
	char byte;

	if (argc != 3 || read(3, &byte, 1) != 1)
		return 2;
	free(std::malloc(2 << 20));
	free(std::malloc(2 << 20));
	for (long i = 0; i < atol(argv[1]); i++) {
		object &object = kept[next_random() % 10000];

		if (i % 1000 == 0 && atoi(argv[2]) && !fails_properly()) {
			fprintf(stderr, "an operator did not fail as it should\n");
			return 7;
		}
		if (object.p) {
			for (size_t at = 0; at < object.size; at += 97)
				if (object.p[at] != (unsigned char)(object.size + at)) {
					fprintf(stderr, "an object has changed\n");
					return 8;
				}
			release(object);
			in_use -= object.size;
			object.p = nullptr;
			continue;
		}
		object.form = next_random() % 8;
		object.size = 1 + next_random() % (next_random() % 100 ? 1000 : 50000);
		/* As libstdc++ rounds it. */
		if (object.form >= 4)
			object.size = (object.size + 127) & -128ul;
		object.p = (unsigned char *)allocate(object.form, object.size);
		if (!object.p || (object.form >= 4 && (uintptr_t)object.p % 128))
			return 9;
		for (size_t at = 0; at < object.size; at += 97)
			object.p[at] = (unsigned char)(object.size + at);
		allocated += object.size;
		in_use += object.size;
		since += object.size;
		if (since > 200000) {
			since = 0;
			if (write(4, "p", 1) != 1 || read(3, &byte, 1) != 1)
				return 6;
		}
	}
	if (!child_releases_all()) {
		fprintf(stderr, "a child has not released the objects of its parent\n");
		return 10;
	}
	__gnu_cxx::__freeres();
	printf("site all 0 ffffffffffffffff %zu %zu\n", allocated, in_use);
	return 0;
}
