// SPDX-License-Identifier: GPL-2.0-only
/* An architecture on which no process is attached to: machine_is_known() says so. */
#include "daemon/attach/machine.h"
#include "daemon/attach/stub.h"

__attribute__((section("hab_stub"))) void stub_entry(void)
{
}

bool machine_is_known(void)
{
	return false;
}

bool machine_read_general(pid_t tid, struct user_regs_struct *general)
{
	return false;
}

bool machine_write_general(pid_t tid, const struct user_regs_struct *general)
{
	return false;
}

bool machine_read(pid_t tid, struct machine_registers *registers)
{
	return false;
}

bool machine_write(pid_t tid, const struct machine_registers *registers)
{
	return false;
}

bool machine_is_in_call(const struct user_regs_struct *general)
{
	return false;
}

int machine_rank(long number, const uint64_t arguments[6])
{
	return 0;
}

bool machine_waits(const struct user_regs_struct *general)
{
	return false;
}

int64_t machine_result(const struct user_regs_struct *general)
{
	return 0;
}

void machine_set_call(struct user_regs_struct *general, uint64_t at, long number,
		      const uint64_t arguments[6])
{
}

void machine_set_start(struct user_regs_struct *general, uint64_t at, uint64_t stack)
{
}

void machine_wait_again(struct user_regs_struct *general)
{
}

int machine_find_return(const unsigned char *code, int bytes)
{
	return -1;
}

size_t machine_make_frame(const struct machine_registers *registers, uint64_t mask,
			  uint64_t returns, unsigned char *frame, size_t size, uint64_t *at)
{
	return 0;
}

void machine_set_stack(struct user_regs_struct *general, uint64_t at)
{
}

void machine_keep(const struct user_regs_struct *general, uint64_t *registers)
{
}

bool machine_set_frame(const struct user_regs_struct *general, Dwfl_Thread *thread)
{
	return false;
}

int machine_find_call(const unsigned char *code, int bytes)
{
	return -1;
}
