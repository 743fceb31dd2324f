// SPDX-License-Identifier: GPL-2.0-only
/* habctl rate: shows or sets the machine's limit of samples. Asks the module, not habd. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/habctl/client.h"
#include "daemon/shared/module_files.h"
#include "daemon/habctl/output.h"
#include "daemon/shared/rate.h"

static int explain(int error)
{
	if (error == -ENOENT) {
		say("the module hab is not loaded: run `modprobe hab` as root first, or start habd "
		    "with --rate, whose own limit it is then");
		return EXIT_MODULE;
	}
	if (error == -EACCES || error == -EPERM || error == -EROFS) {
		say("%s: %s: only root may set the rate: run it with sudo", module_rate_path(),
		    strerror(-error));
		return EXIT_PRIVILEGE;
	}
	say("%s: %s: the module does not take this rate: is it of the same release as habctl?",
	    module_rate_path(), strerror(-error));
	return EXIT_FAILED;
}

int habctl_rate(const char *socket, int argc, char **argv)
{
	char rate[RATE_LENGTH], now[MODULE_TEXT];
	int error;

	(void)socket;
	if (argc > 2) {
		say("rate: it takes one rate, or nothing; see habctl --help");
		return EXIT_USAGE;
	}
	if (argc == 2) {
		if (!rate_parse(argv[1], rate)) {
			say("rate %s: " RATE_HELP, argv[1]);
			return EXIT_USAGE;
		}
		error = module_rate_write(rate);
		if (error)
			return explain(error);
	}
	error = module_rate_read(now);
	if (error)
		return explain(error);
	printf("%s\n", now);
	return output_flush("the rate") ? 0 : EXIT_FAILED;
}
