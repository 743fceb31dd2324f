// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/os.h"
#include "lib/backend/forked.h"

static u32 *mark; /* not 0, until the kernel wipes it in a child; NULL: there is none */

void hab_forked_init(void)
{
	size_t page = sysconf(_SC_PAGESIZE);

	mark = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mark != MAP_FAILED && !madvise(mark, page, MADV_WIPEONFORK)) {
		hab_forked_seen();
		return;
	}
	if (mark != MAP_FAILED)
		munmap(mark, page);
	mark = NULL;
}

bool hab_forked(void)
{
	return mark && !READ_ONCE(*mark);
}

void hab_forked_seen(void)
{
	if (mark)
		WRITE_ONCE(*mark, 1);
}
