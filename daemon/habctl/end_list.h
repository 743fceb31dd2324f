/* SPDX-License-Identifier: GPL-2.0-only */
/* habctl report --oom, --crashed: the profiles of processes that were ended. */
#ifndef HABCTL_END_LIST_H
#define HABCTL_END_LIST_H

#include <stdbool.h>

/* Both if both are wanted. @path: NULL: /var/lib/hab. An exit status, after a sentence. */
int end_list_show(const char *path, bool oom, bool crashed);

#endif /* HABCTL_END_LIST_H */
