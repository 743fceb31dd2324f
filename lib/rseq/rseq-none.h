/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * For architectures without sections: hab_rseq_attach() answers HAB_RSEQ_NONE,
 * so none of these is ever called.
 */
/* clang-format off */
#ifndef HAB_LIB_RSEQ_NONE_H
#define HAB_LIB_RSEQ_NONE_H

#define HAB_RSEQ_SIGNATURE 0
#define HAB_RSEQ_SECTIONS 0

#define NO_SECTION(name)							\
static inline enum hab_rseq_result name(struct rseq *area, uint32_t cpu,	\
					uint64_t *word, struct hab_rseq_take *take) \
{										\
	(void)area, (void)cpu, (void)word, (void)take;				\
	return HAB_RSEQ_RESTART;						\
}

NO_SECTION(hab_rseq_take_store)
NO_SECTION(hab_rseq_take_cmpxchg)
NO_SECTION(hab_rseq_take_store_verify)
NO_SECTION(hab_rseq_take_cmpxchg_verify)
#undef NO_SECTION

#define NO_EXACT_SECTION(name)							\
static inline enum hab_rseq_result name(hab_tls_rseq *area, uint32_t cpu,	\
					uint64_t *word, uint64_t step, uint64_t *old_word) \
{										\
	(void)area, (void)cpu, (void)word, (void)step, (void)old_word;		\
	return HAB_RSEQ_RESTART;						\
}

NO_EXACT_SECTION(hab_rseq_take_exact_store)
NO_EXACT_SECTION(hab_rseq_take_exact_cmpxchg)
#undef NO_EXACT_SECTION

static inline enum hab_rseq_result hab_rseq_exchange(struct rseq *area, uint32_t cpu,
						     uint64_t *word, uint64_t value,
						     uint64_t *old, uint32_t *hardware_cpu)
{
	(void)area, (void)cpu, (void)word, (void)value, (void)old, (void)hardware_cpu;
	return HAB_RSEQ_RESTART;
}

#endif /* HAB_LIB_RSEQ_NONE_H */
