/* SPDX-License-Identifier: GPL-2.0-only */
/* Profiles that habd makes, for reports. */
#ifndef HABCTL_LIVE_PROFILE_H
#define HABCTL_LIVE_PROFILE_H

#include "daemon/habctl/filter_options.h"
#include "daemon/profile/profile.h"

/*
 * Requests a profile of pprof, with remarks on what is not in it. @path: with a parameter at least.
 * @seconds: as of client_request(). profile_free() frees it; NULL after a sentence.
 */
struct profile *live_profile_read(const char *socket, const char *path, unsigned int seconds,
				  const struct filter_options *options, const struct filter *filter,
				  bool *has_errors);

#endif /* HABCTL_LIVE_PROFILE_H */
