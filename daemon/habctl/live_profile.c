// SPDX-License-Identifier: GPL-2.0-only
#include "daemon/habctl/live_profile.h"

#include <inttypes.h>
#include <stdlib.h>

#include "daemon/habctl/http_client.h"
#include "daemon/profile/formats/read.h"
#include "daemon/shared/util.h"

/* The headers have what the profile itself has not. */
static void say_remarks(const struct answer *answer)
{
	if (answer->other_events)
		say("there are other events: %s (--event)", answer->other_events);
	if (answer->only_own)
		say("report: " ONLY_OWN);
	if (answer->damaged)
		say("%" PRIu64 " damaged files of the history are left out", answer->damaged);
	if (answer->missing)
		say(MISSING, answer->missing);
	if (answer->late_names)
		say("%" PRIu64 LATE_NAMES, answer->late_names);
}

struct profile *live_profile_read(const char *socket, const char *path, unsigned int seconds,
				  const struct filter_options *options, const struct filter *filter,
				  bool *has_errors)
{
	/* habd has chosen by the rest. Of "[other stacks]" that is not known any more. */
	const struct filter kinds = { .kinds = filter->kinds, .each_kind = filter->each_kind };
	char *url = filter_options_url(options, path), why[400];
	struct profile *profile = NULL;
	struct answer answer;

	client_request(socket, false, url, seconds, &answer);
	free(url);
	if (answer.error) {
		say("%s", answer.error);
	} else {
		profile = profile_read(answer.body, answer.length, &kinds, has_errors, why,
				       sizeof(why));
		if (!profile)
			say("the answer of habd: %s", why);
	}
	if (profile) {
		profile->folded = answer.folded;
		say_remarks(&answer);
	}
	answer_end(&answer);
	return profile;
}
