// SPDX-License-Identifier: GPL-2.0-only
/* A plugin whose constructor waits for a thread that uses operator new. */
#include <string>
#include <thread>

extern "C" int waits_result();

static struct waiter {
	int bytes = 0;

	waiter()
	{
		std::thread([this] {
			for (int i = 0; i < 1000; i++)
				bytes += (int)std::string(100 + (size_t)i, 'x').size();
		}).join();
	}
} waiter;

extern "C" int waits_result()
{
	return waiter.bytes;
}
