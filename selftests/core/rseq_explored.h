/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * lib/rseq/rseq.h for tests that run all interleavings: the section on lists as C, between whose
 * steps another thread may continue. It has the include guard of the real one.
 */
#ifndef HAB_LIB_RSEQ_H
#define HAB_LIB_RSEQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hab_rseq_result {
	HAB_RSEQ_DONE = 0,
	HAB_RSEQ_EMPTY,
	HAB_RSEQ_RESTART,
	HAB_RSEQ_CONFLICT,
	HAB_RSEQ_NOT_TRIED,
};

#define HAB_RSEQ_TRIES 64
#define HAB_CPU_UNKNOWN UINT32_MAX

struct hab_rseq_out {
	uint64_t old;
	uint32_t hardware_cpu;
};

typedef int hab_tls_rseq;

hab_tls_rseq *hab_tls_rseq_at(ptrdiff_t offset);
uint32_t hab_rseq_cpu(const hab_tls_rseq *area);
uint32_t hab_rseq_cid(const hab_tls_rseq *area);

#define HAB_RSEQ_EXPLORED(name)                                                     \
	enum hab_rseq_result name(hab_tls_rseq *area, uint32_t cpu, uint32_t cid, uint64_t *word, \
				  uint64_t operand, struct hab_rseq_out *out)
HAB_RSEQ_EXPLORED(hab_rseq_list_pop);
HAB_RSEQ_EXPLORED(hab_rseq_list_pop_verify);
HAB_RSEQ_EXPLORED(hab_rseq_list_pop_cid);
HAB_RSEQ_EXPLORED(hab_rseq_list_pop_cid_verify);

#define HAB_RSEQ_FUNCTION(name, section)                                                         \
	static enum hab_rseq_result name(hab_tls_rseq *area, uint32_t cpu, uint32_t cid,         \
					 uint64_t *word, uint64_t operand, struct hab_rseq_out *out) \
	{                                                                                        \
		return section(area, cpu, cid, word, operand, out);                              \
	}

/* Of trim.c. */
uint64_t explored_clock(void);

#endif /* HAB_LIB_RSEQ_H */
