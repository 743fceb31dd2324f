/* SPDX-License-Identifier: GPL-2.0-only */
/* The owner of a process, as wire/owner.h has it, worked out from /proc. */
#ifndef HABD_OWNER_H
#define HABD_OWNER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* An owner, and whose rights its collector has. */
struct owner_id {
	uint64_t number;
	uid_t uid;
	gid_t gid;
	/* Of an owner that is a namespace; else -1. While it is open no other has its number. */
	int space;
};

/*
 * The owner of the process @pid that has connected. False: it has ended before its namespace was
 * read. Then @owner is its uid.
 */
bool owner_of_connection(int fd, uint64_t *owner, uint32_t *pid);
/*
 * The rights of the collector of @owner, one of whose processes is @pid; 0: none is known. False:
 * it has ended, and only it could tell whose rights those of a namespace are. The caller closes
 * @id->space.
 */
bool owner_rights(uint64_t owner, uint32_t pid, struct owner_id *id);

#endif /* HABD_OWNER_H */
