/* SPDX-License-Identifier: GPL-2.0-only */
/* What libhab and habd find on this host, besides the module. */
#ifndef HABCTL_HOST_STATE_H
#define HABCTL_HOST_STATE_H

#include <stdbool.h>

#include "daemon/shared/module_files.h"

struct host_state {
	bool kernel_rseq; /* the kernel has restartable sequences */
	bool libc_rseq;	  /* the C library registers each thread */
	unsigned int rseq_size;
	int device_error;    /* of opening /dev/hab for reading and writing; 0: it may be used */
	char lockdown[32];   /* "" if the kernel does not say */
	bool may_trace;	     /* this process has what habd needs to start */
	const char *backend; /* of heaps that are made by this user now: device or process */
	char why[200];	     /* that one */
};

void host_state_read(struct host_state *host, const struct module_state *module);
/* What is wrong with it; adds to what is there. How many there are. */
unsigned int host_problems(const struct host_state *host, struct problem *problems,
			   unsigned int count, unsigned int room);

#endif /* HABCTL_HOST_STATE_H */
