/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * For architectures without sections: hab_rseq_attach() returns HAB_RSEQ_NONE, so none of these is
 * called.
 */
/* clang-format off */
#ifndef HAB_LIB_RSEQ_NONE_H
#define HAB_LIB_RSEQ_NONE_H

#define HAB_RSEQ_SIGNATURE 0
#define HAB_RSEQ_SECTIONS 0

#define NO_SECTION(name)							\
static inline enum hab_rseq_result name(hab_tls_rseq *area, uint32_t cpu, uint32_t cid, \
					uint64_t *word, uint64_t operand, struct hab_rseq_out *out) \
{										\
	(void)area, (void)cid, (void)word, (void)operand;			\
	*out = (struct hab_rseq_out){ .hardware_cpu = cpu };			\
	return HAB_RSEQ_NOT_TRIED;						\
}

NO_SECTION(hab_rseq_take_store)
NO_SECTION(hab_rseq_take_store_verify)
NO_SECTION(hab_rseq_take_store_cid)
NO_SECTION(hab_rseq_take_store_cid_verify)
NO_SECTION(hab_rseq_take_cmpxchg)
NO_SECTION(hab_rseq_take_cmpxchg_verify)
NO_SECTION(hab_rseq_list_pop)
NO_SECTION(hab_rseq_list_pop_verify)
NO_SECTION(hab_rseq_list_pop_cid)
NO_SECTION(hab_rseq_list_pop_cid_verify)
NO_SECTION(hab_rseq_exchange)
NO_SECTION(hab_rseq_exchange_verify)
NO_SECTION(hab_rseq_exchange_cid)
NO_SECTION(hab_rseq_exchange_cid_verify)
#undef NO_SECTION

#endif /* HAB_LIB_RSEQ_NONE_H */
