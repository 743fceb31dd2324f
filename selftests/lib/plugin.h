/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HAB_PLUGIN_H
#define HAB_PLUGIN_H

#include <stdint.h>

/* Makes the plugin's heap, with HAB_HEAP_*: 0 or a negative errno. */
int plugin_begin(uint32_t flags);

/* Allocates, and closes a region: 0 if there is memory and the plugin's handler gets samples. */
int plugin_work(void);

/* Destroys the heap. */
void plugin_end(void);

#endif /* HAB_PLUGIN_H */
