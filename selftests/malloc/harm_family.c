// SPDX-License-Identifier: GPL-2.0-only
/* Each function of the family of malloc(), called by the binary that has this code. */
#include <malloc.h>
#include <stdlib.h>

#include "harm.h"

void *family_allocate(unsigned int form, size_t size)
{
	void *p = NULL;

	switch (form % 8) {
	case 0:
		return malloc(size);
	case 1:
		return calloc(1, size);
	case 2:
		return realloc(NULL, size);
	case 3:
		return reallocarray(NULL, size, 1);
	case 4:
		return memalign(64, size);
	case 5:
		return aligned_alloc(32, (size + 31) & -32ul);
	case 6:
		return posix_memalign(&p, 128, size) ? NULL : p;
	default:
		return valloc(size);
	}
}

void *family_resize(unsigned int form, void *p, size_t size)
{
	return form % 2 ? realloc(p, size) : reallocarray(p, size, 1);
}

void family_free(void *p)
{
	free(p);
}

size_t family_usable(void *p)
{
	return malloc_usable_size(p);
}
