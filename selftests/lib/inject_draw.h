/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Seeds the bug that hab_sampling_draw() warns of, included before everything else: a way to
 * allocate draws anew whenever it comes to the sampler, and so most often near the sample point.
 */
#ifndef HAB_SELFTESTS_INJECT_DRAW_H
#define HAB_SELFTESTS_INJECT_DRAW_H

enum hab_inject_draw { HAB_INJECT_NONE, HAB_INJECT_OBJECTS, HAB_INJECT_CHUNKS, HAB_INJECT_REGIONS };

extern enum hab_inject_draw hab_inject_draw;

#define HAB_INJECT_DRAW(thread, sampling)                                            \
	(hab_inject_draw != HAB_INJECT_NONE &&                                       \
	 hab_inject_draw == ((sampling) == &(thread)->objects ? HAB_INJECT_OBJECTS : \
			     (sampling) == &(thread)->chunks  ? HAB_INJECT_CHUNKS :  \
								HAB_INJECT_REGIONS))

#endif /* HAB_SELFTESTS_INJECT_DRAW_H */
