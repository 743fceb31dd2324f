// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program to attach to: storm KIND THREADS PROGRESS [PLUGIN].
 *
 * Each thread does one thing all the time, and checks what it gets. It counts each round in the
 * file PROGRESS, an array of 64-bit counters. SIGTERM ends the program: with 0 if nothing was
 * wrong, else with 1 after a sentence.
 */
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

constexpr int threads_max = 64;
constexpr int objects = 64;
constexpr int child_seconds = 20;

volatile uint64_t *progress;
const char *plugin;
bool ends;
bool failed;

void fail(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	fprintf(stderr, "storm: ");
	vfprintf(stderr, format, list);
	fprintf(stderr, "\n");
	va_end(list);
	__atomic_store_n(&failed, true, __ATOMIC_RELAXED);
}

struct random_numbers {
	uint64_t state;

	uint64_t next()
	{
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		return state;
	}
};

/* --- objects that are checked ------------------------------------------------------------ */

struct object {
	unsigned char *at;
	size_t size;
	unsigned char value;
};

void check(const object &object)
{
	for (size_t i = 0; i < object.size; i++)
		if (object.at[i] != object.value) {
			fail("an object of %zu bytes is damaged at %zu", object.size, i);
			return;
		}
}

void change(object &object, random_numbers &random)
{
	uint64_t number = random.next();
	size_t size = number % 7 ? 16 + number % 500 : 4096 + number % 20000;
	unsigned char *at = object.at;

	check(object);
	switch (number >> 32 & 7) {
	case 0:
		at = static_cast<unsigned char *>(realloc(at, size));
		for (size_t i = 0; i < size && i < object.size; i++)
			if (at[i] != object.value) {
				fail("realloc() has not kept the content");
				break;
			}
		break;
	case 1:
		free(at);
		at = static_cast<unsigned char *>(calloc(1, size));
		for (size_t i = 0; i < size; i++)
			if (at[i]) {
				fail("calloc() has not zeroed");
				break;
			}
		break;
	case 2:
		free(at);
		at = static_cast<unsigned char *>(aligned_alloc(64, (size + 63) & ~size_t{63}));
		if (reinterpret_cast<uintptr_t>(at) % 64)
			fail("aligned_alloc() has not aligned");
		break;
	default:
		free(at);
		at = static_cast<unsigned char *>(malloc(size));
		break;
	}
	object = { at, size, static_cast<unsigned char>(number >> 16) };
	memset(at, object.value, size);
}

/* The objects of a thread. */
struct own_objects {
	object all[objects] = {};

	~own_objects()
	{
		for (const object &object : all) {
			check(object);
			free(object.at);
		}
	}
};

void allocate(random_numbers &random)
{
	static thread_local own_objects own;

	for (int i = 0; i < 32; i++)
		change(own.all[random.next() % objects], random);
}

/* --- kinds --------------------------------------------------------------------------------- */

void load(random_numbers &random)
{
	void *handle = dlopen(plugin, random.next() % 2 ? RTLD_NOW : RTLD_LAZY);
	auto function = reinterpret_cast<char *(*)(int)>(handle ? dlsym(handle, "plugin") : nullptr);
	char *copy = function ? function(42) : nullptr;

	if (!copy || strcmp(copy, "42") != 0)
		fail("the plugin answers wrong: %s", dlerror());
	free(copy);
	if (handle)
		dlclose(handle);
}

void fork_once(random_numbers &random)
{
	int status = 0;
	pid_t child = fork();

	if (!child) {
		alarm(child_seconds);
		allocate(random);
		load(random);
		_exit(failed);
	}
	while (child > 0 && waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			break;
	if (child < 0 || status)
		fail("a child ended with %x", status);
}

void *begin(void *context)
{
	allocate(*static_cast<random_numbers *>(context));
	return context;
}

void start_thread(random_numbers &random)
{
	random_numbers other = { random.next() | 1 };
	pthread_t thread;
	void *result = nullptr;

	if (pthread_create(&thread, nullptr, begin, &other) || pthread_join(thread, &result) ||
	    result != &other)
		fail("a thread could not be started");
}

/* glibc stops all threads for it by a signal, with a lock that pthread_create() takes. */
void change_user(random_numbers &random)
{
	if (setegid(getegid()))
		fail("setegid");
	allocate(random);
}

thread_local volatile uint64_t handled;

void handle(int)
{
	int before = errno;

	handled = handled + 1;
	errno = before;
}

void be_signalled(random_numbers &random)
{
	uint64_t before = handled;

	pthread_kill(pthread_self(), SIGUSR2);
	if (handled == before)
		fail("a signal was not handled");
	allocate(random);
}

struct error : std::runtime_error {
	std::string more;

	explicit error(const std::string &text) : std::runtime_error(text), more(text + text) {}
};

void throw_deep(int depth, const std::string &text)
{
	std::vector<std::string> kept(3, text);

	if (!depth)
		throw error(text);
	throw_deep(depth - 1, text + "x");
}

void catch_one(random_numbers &random)
{
	std::string text(random.next() % 200, 'a');

	try {
		throw_deep(5, text);
		fail("no exception");
	} catch (const error &caught) {
		if (caught.more.size() != 2 * (text.size() + 5))
			fail("another exception");
	}
}

void compute_in_team(random_numbers &random)
{
	size_t size = 1000 + random.next() % 1000;
	double sum = 0;

#pragma omp parallel for reduction(+ : sum) num_threads(4)
	for (size_t i = 0; i < size; i++) {
		std::vector<double> values(16, 1.0);

		for (double value : values)
			sum += value;
	}
	if (sum != 16.0 * static_cast<double>(size))
		fail("the team has another sum");
}

/* Registers, errno and results of system calls are as without attaching. */
void use_calls(random_numbers &random)
{
	struct timespec time = { 0, 200000 };
	static thread_local int ends_of_pipe[2] = { -1, -1 };
	double numbers[8], sum = 0;
	char byte = 0;

	if (ends_of_pipe[0] < 0 && pipe(ends_of_pipe))
		fail("pipe");
	for (int i = 0; i < 8; i++)
		numbers[i] = static_cast<double>(random.next() % 1000);
	errno = 77;
	if (nanosleep(&time, nullptr))
		fail("nanosleep: %s", strerror(errno));
	struct pollfd ready = { ends_of_pipe[0], POLLIN, 0 };
	if (poll(&ready, 1, 1) != 0)
		fail("poll: %s", strerror(errno));
	if (errno != 77)
		fail("errno is %d", errno);
	if (write(ends_of_pipe[1], "x", 1) != 1 || read(ends_of_pipe[0], &byte, 1) != 1 || byte != 'x')
		fail("read and write");
	for (double number : numbers)
		sum += number;
	for (double number : numbers)
		sum -= number;
	if (sum != 0)
		fail("a sum is %f", sum);
}

/* Waits without end in turn: the other thread of the pair wakes this one. */
int pipes[threads_max][2];

void wait_for_other(int number)
{
	int other = number ^ 1;
	char byte = 1;

	if (write(pipes[other][1], &byte, 1) != 1)
		fail("write");
	if (number & 1) {
		struct epoll_event event = { EPOLLIN, {} };
		int epoll = epoll_create1(EPOLL_CLOEXEC);

		epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[number][0], &event);
		if (epoll_wait(epoll, &event, 1, -1) != 1)
			fail("epoll_wait: %s", strerror(errno));
		close(epoll);
	}
	if (read(pipes[number][0], &byte, 1) != 1)
		fail("read: %s", strerror(errno));
}

struct kind {
	const char *name;
	void (*run)(random_numbers &);
};

const kind kinds[] = {
	{ "malloc", allocate },	     { "dlopen", load },	  { "fork", fork_once },
	{ "threads", start_thread }, { "signals", be_signalled }, { "exceptions", catch_one },
	{ "users", change_user },    { "openmp", compute_in_team }, { "calls", use_calls },	  { "waits", nullptr },
};

const kind *chosen;

void *work(void *context)
{
	int number = static_cast<int>(reinterpret_cast<intptr_t>(context));
	random_numbers random = { 88172645463325252ull + static_cast<uint64_t>(number) * 977 };

	while (!__atomic_load_n(&ends, __ATOMIC_RELAXED)) {
		if (chosen->run)
			chosen->run(random);
		else
			wait_for_other(number);
		progress[number] = progress[number] + 1;
	}
	return nullptr;
}

}  // namespace

int main(int argc, char **argv)
{
	pthread_t threads[threads_max];
	struct sigaction action = {};
	int count, fd, signal;
	sigset_t set;

	if (argc < 4)
		return 2;
	for (const kind &kind : kinds)
		if (!strcmp(kind.name, argv[1]))
			chosen = &kind;
	count = atoi(argv[2]);
	plugin = argc > 4 ? argv[4] : "";
	fd = open(argv[3], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (!chosen || count < 1 || count > threads_max || fd < 0 ||
	    ftruncate(fd, threads_max * sizeof(uint64_t)))
		return 2;
	progress = static_cast<volatile uint64_t *>(
		mmap(nullptr, threads_max * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	for (auto &ends_of_pipe : pipes)
		if (pipe(ends_of_pipe))
			return 2;
	action.sa_handler = handle;
	sigaction(SIGUSR2, &action, nullptr);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, nullptr);
	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], nullptr, work, reinterpret_cast<void *>(static_cast<intptr_t>(i)));
	sigwait(&set, &signal);
	__atomic_store_n(&ends, true, __ATOMIC_RELAXED);
	/* Those that wait for another one wait for ever. */
	for (int i = 0; i < count && chosen->run; i++)
		pthread_join(threads[i], nullptr);
	_exit(failed);
}
