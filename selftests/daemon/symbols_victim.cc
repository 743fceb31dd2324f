// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program whose functions habd has to name. It says its process number and the addresses
 * of a stack of its functions, as make_records --addresses wants them, and lives until its
 * standard input ends.
 */
#include <cstdio>
#include <string>
#include <unistd.h>
#include <vector>

namespace victim
{
template <typename T> class Store {
    public:
	static __attribute__((noinline)) void *grow(const std::vector<T> &);
};

template <typename T> void *Store<T>::grow(const std::vector<T> &items)
{
	asm volatile("nop; nop; nop; nop" ::"r"(&items));
	return __builtin_return_address(0);
}

__attribute__((noinline)) void operator+=(Store<std::string> &store, int)
{
	asm volatile("nop; nop; nop; nop" ::"r"(&store));
}

template class Store<std::string>;
}

extern "C" __attribute__((noinline)) void plain_function(void)
{
	asm volatile("nop; nop; nop; nop");
}

static __attribute__((noinline)) void hidden_function(void)
{
	asm volatile("nop; nop; nop; nop");
}

int main()
{
	void *(*grow)(const std::vector<std::string> &) = victim::Store<std::string>::grow;
	void (*add)(victim::Store<std::string> &, int) = victim::operator+=;

	plain_function();
	hidden_function();
	/* Two bytes into each: an instruction of it, and a return address too. */
	printf("%d %lx,%lx,%lx,%lx\n", getpid(), (unsigned long)grow + 2,
	       (unsigned long)add + 2,
	       (unsigned long)plain_function + 2, (unsigned long)hidden_function + 2);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
