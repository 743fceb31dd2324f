// SPDX-License-Identifier: GPL-2.0-only
/* The capabilities that habd needs: checked at the start, most of them dropped before threads
 * start. */
#include "daemon/habd/privilege.h"

#include <errno.h>
#include <string.h>
#include <sys/capability.h>

#include "daemon/shared/util.h"

static const struct {
	cap_value_t capability;
	const char *name;
	const char *what_for;
	bool needed; /* habd does without the others */
	bool keep;   /* while habd runs */
} capabilities[] = {
	{ CAP_BPF, "CAP_BPF", "to load BPF programs and read their maps", true, true },
	{ CAP_PERFMON, "CAP_PERFMON", "to attach to tracepoints", true, true },
	{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "to find the module's BTF and to follow page faults", true,
	  false },
	{ CAP_SETUID, "CAP_SETUID", "to give each collector its owner's rights", true, true },
	{ CAP_SETGID, "CAP_SETGID", "to give each collector its owner's rights", true, true },
	{ CAP_KILL, "CAP_KILL", "to end a collector that takes nothing", false, true },
	{ CAP_CHOWN, "CAP_CHOWN", "to give each user a socket of its own", false, true },
	/* For root's collector. The broker uses the first alone, and passes the others on. */
	{ CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "to see the user namespaces of processes", false,
	  true },
	{ CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "to read root's programs", false, true },
	{ CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE",
	  "to open the files of other mount namespaces", false, true },
};

static bool has_capability(cap_t all, cap_value_t capability)
{
	cap_flag_value_t value = CAP_CLEAR;

	return !cap_get_flag(all, capability, CAP_EFFECTIVE, &value) && value == CAP_SET;
}

bool privilege_check(void)
{
	cap_t all = cap_get_proc();
	bool good = true;
	unsigned int i;

	if (!all)
		return true;
	for (i = 0; i < ARRAY_SIZE(capabilities); i++) {
		if (has_capability(all, capabilities[i].capability))
			continue;
		if (capabilities[i].needed) {
			say("not enough privilege: %s is missing (%s)", capabilities[i].name,
			    capabilities[i].what_for);
			good = false;
		} else {
			say_verbose("%s is missing (%s): it goes on without", capabilities[i].name,
				    capabilities[i].what_for);
		}
	}
	cap_free(all);
	if (!good)
		say("start it as root (`sudo habd`), or with `systemctl start habd`, whose unit has "
		    "these");
	return good;
}

void privilege_drop(bool opens_events)
{
	const cap_value_t admin = CAP_SYS_ADMIN;
	cap_t now = cap_get_proc(), less = cap_init();
	unsigned int i;

	if (!now || !less)
		goto end;
	for (i = 0; i < ARRAY_SIZE(capabilities); i++) {
		if (!capabilities[i].keep || !has_capability(now, capabilities[i].capability))
			continue;
		cap_set_flag(less, CAP_EFFECTIVE, 1, &capabilities[i].capability, CAP_SET);
		cap_set_flag(less, CAP_PERMITTED, 1, &capabilities[i].capability, CAP_SET);
	}
	if (opens_events && has_capability(now, admin))
		cap_set_flag(less, CAP_PERMITTED, 1, &admin, CAP_SET);
	if (cap_set_proc(less))
		say("could not drop privileges: %s; going on with them", strerror(errno));
end:
	cap_free(now);
	cap_free(less);
}
