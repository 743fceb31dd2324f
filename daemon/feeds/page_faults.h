/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Growth: samples of the page faults of all processes (bpf/page_faults.bpf.c). They come beside the
 * records of any feed, with or without the module.
 */
#ifndef HABD_PAGE_FAULTS_H
#define HABD_PAGE_FAULTS_H

#include <stdint.h>

#include "daemon/feeds/feed.h"

struct page_faults;

/* NULL after a sentence: habd goes on without growth. Needs CAP_BPF and CAP_PERFMON. */
struct page_faults *page_faults_open(const struct feed_sink *sink);
/* Readable when many records wait. */
int page_faults_fd(const struct page_faults *faults);
/* Passes the records on that have come, and follows CPUs that have come since. Does not wait. */
void page_faults_poll(struct page_faults *faults);
/* Samples that an owner may have in a second, about. */
void page_faults_set_quota(struct page_faults *faults, uint32_t quota);
/* Sums since it was opened. */
struct hab_growth page_faults_sums(const struct page_faults *faults);
void page_faults_close(struct page_faults *faults);

#endif /* HABD_PAGE_FAULTS_H */
