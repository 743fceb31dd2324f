// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The smallest program with a heap: it builds a list, sums it up, and frees all of it at once.
 *
 *	cc smallest.c $(pkg-config --cflags --libs hab) && ./a.out
 */
#include <hab.h>
#include <stdio.h>
#include <string.h>

struct node {
	struct node *next;
	long value;
};

int main(void)
{
	struct node *list = NULL, *node;
	struct hab_heap *heap;
	long i, sum = 0;
	int err;

	err = hab_heap_create(&heap, NULL);
	if (err) {
		fprintf(stderr, "smallest: no heap: %s\n", strerror(-err));
		return 1;
	}
	for (i = 1; i <= 1000000; i++) {
		node = hab_alloc(heap, sizeof(*node));
		if (!node) {
			perror("smallest: hab_alloc");
			return 1;
		}
		node->next = list;
		node->value = i;
		list = node;
	}
	for (node = list; node; node = node->next)
		sum += node->value;
	printf("sum %ld, backend %s: %s\n", sum, hab_heap_backend(heap),
	       hab_heap_backend_reason(heap));
	hab_heap_reset(heap); /* frees all nodes */
	hab_heap_destroy(heap);
	return 0;
}
