/* SPDX-License-Identifier: GPL-2.0-only */
/* The commands of habctl. Each returns the exit code; argv[0] is "habctl COMMAND". */
#ifndef HABCTL_COMMANDS_H
#define HABCTL_COMMANDS_H

int habctl_record(const char *socket, int argc, char **argv);
int habctl_report(const char *socket, int argc, char **argv);
int habctl_top(const char *socket, int argc, char **argv);
int habctl_status(const char *socket, int argc, char **argv);

#endif /* HABCTL_COMMANDS_H */
