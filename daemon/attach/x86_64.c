// SPDX-License-Identifier: GPL-2.0-only
/* Attaching on x86-64: registers, the entry of the borrowed thread, and system calls. */
#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "daemon/attach/machine.h"
#include "daemon/attach/stub.h"

/* In the kernel's results of interrupted system calls, which no program sees. */
#define ERESTART_FIRST 512
#define ERESTARTNOHAND 514
#define ERESTART_LAST  516

#define TRAP_FLAG	0x100u
#define DIRECTION_FLAG	0x400u
#define CALL_BYTES	2 /* of the instruction */
#define RED_ZONE	128
#define WORST		5 /* see machine_rank() */

/* UC_STRICT_RESTORE_SS and UC_SIGCONTEXT_SS of the kernel: the segment is the frame's. */
#define STRICT_STACK_SEGMENT 6
#define HAS_VECTORS	     1	/* UC_FP_XSTATE */
#define FRAME_SPARE	     32 /* for what is aligned */

/* Of the vectors, as XSAVE and ptrace() lay them out. */
#define VECTORS_LEAST (512 + 64)
#define ENABLED_AT    464 /* by ptrace(): features that the kernel has enabled */
#define USED_AT	      512

/* In the order of struct hab_attach_page. */
enum {
	KEPT_RAX,
	KEPT_RBX,
	KEPT_RCX,
	KEPT_RDX,
	KEPT_RSI,
	KEPT_RDI,
	KEPT_RBP,
	KEPT_RSP,
	KEPT_R8,
	KEPT_R9,
	KEPT_R10,
	KEPT_R11,
	KEPT_R12,
	KEPT_R13,
	KEPT_R14,
	KEPT_R15,
	KEPT_RIP,
	KEPT_FLAGS,
};

#define OFFSET(member) (HAB_ATTACH_PAGE_OFFSET + offsetof(struct hab_attach_page, member))

/* The last jump is by memory, since all registers have the thread's values then. */
__attribute__((naked, used, section("hab_stub"))) void stub_entry(void)
{
	__asm__("endbr64\n"
		"cld\n"
		"lea __start_hab_stub(%%rip), %%r12\n"
		"mov $-1, %%eax\n"
		"mov $-1, %%edx\n"
		"xsave64 %c1(%%r12)\n"
		"fninit\n"
		"movl $0x1f80, -8(%%rsp)\n"
		"ldmxcsr -8(%%rsp)\n"
		"lea %c2(%%r12), %%rdi\n"
		"call stub_borrow\n"
		"mov $-1, %%eax\n"
		"mov $-1, %%edx\n"
		"xrstor64 %c1(%%r12)\n"
		"lea %c0(%%r12), %%rdi\n"
		"push 8*17(%%rdi)\n"
		"popf\n"
		"mov 8*0(%%rdi), %%rax\n"
		"mov 8*1(%%rdi), %%rbx\n"
		"mov 8*2(%%rdi), %%rcx\n"
		"mov 8*3(%%rdi), %%rdx\n"
		"mov 8*4(%%rdi), %%rsi\n"
		"mov 8*6(%%rdi), %%rbp\n"
		"mov 8*7(%%rdi), %%rsp\n"
		"mov 8*8(%%rdi), %%r8\n"
		"mov 8*9(%%rdi), %%r9\n"
		"mov 8*10(%%rdi), %%r10\n"
		"mov 8*11(%%rdi), %%r11\n"
		"mov 8*12(%%rdi), %%r12\n"
		"mov 8*13(%%rdi), %%r13\n"
		"mov 8*14(%%rdi), %%r14\n"
		"mov 8*15(%%rdi), %%r15\n"
		"mov 8*5(%%rdi), %%rdi\n"
		"jmp *__start_hab_stub+%c0+8*16(%%rip)\n"
		:
		: "i"(OFFSET(registers)), "i"(HAB_ATTACH_STATE_OFFSET),
		  "i"(HAB_ATTACH_PAGE_OFFSET));
}

bool machine_read_general(pid_t tid, struct user_regs_struct *general)
{
	return !ptrace(PTRACE_GETREGS, tid, 0, general);
}

bool machine_write_general(pid_t tid, const struct user_regs_struct *general)
{
	return !ptrace(PTRACE_SETREGS, tid, 0, general);
}

bool machine_read(pid_t tid, struct machine_registers *registers)
{
	struct iovec vectors = { registers->vectors, sizeof(registers->vectors) };

	if (!machine_read_general(tid, &registers->general) ||
	    ptrace(PTRACE_GETREGSET, tid, NT_X86_XSTATE, &vectors))
		return false;
	registers->vector_bytes = vectors.iov_len;
	return true;
}

bool machine_write(pid_t tid, const struct machine_registers *registers)
{
	struct iovec vectors = { (void *)registers->vectors, registers->vector_bytes };

	return !ptrace(PTRACE_SETREGSET, tid, NT_X86_XSTATE, &vectors) &&
	       machine_write_general(tid, &registers->general);
}

bool machine_is_known(void)
{
	unsigned int a, enabled, all, d;

	/* Bytes of the features that the kernel has enabled. */
	return __get_cpuid_count(0xd, 0, &a, &enabled, &all, &d) &&
	       enabled <= HAB_ATTACH_STATE_BYTES;
}

bool machine_is_in_call(const struct user_regs_struct *general)
{
	return (int64_t)general->orig_rax >= 0;
}

/* Calls that wait, which neither the allocator nor the dynamic linker makes with a lock. */
static const struct {
	int number;
	int rank;
} waits[] = {
	{ SYS_nanosleep, 0 },	      { SYS_clock_nanosleep, 0 }, { SYS_poll, 0 },
	{ SYS_ppoll, 0 },	      { SYS_select, 0 },	  { SYS_pselect6, 0 },
	{ SYS_epoll_wait, 0 },	      { SYS_epoll_pwait, 0 },	  { SYS_pause, 0 },
	{ SYS_rt_sigsuspend, 0 },     { SYS_wait4, 0 },		  { SYS_waitid, 0 },
	{ SYS_read, 1 },	      { SYS_recvfrom, 1 },	  { SYS_recvmsg, 1 },
	{ SYS_accept, 1 },	      { SYS_accept4, 1 },	  { SYS_epoll_pwait2, WORST },
	{ SYS_rt_sigtimedwait, WORST }, { SYS_readv, WORST },	  { SYS_write, WORST },
	{ SYS_writev, WORST },	      { SYS_sendto, WORST },	  { SYS_sendmsg, WORST },
	{ SYS_connect, WORST },	      { SYS_flock, WORST },	  { SYS_semop, 1 },
	{ SYS_semtimedop, WORST },    { SYS_msgrcv, 1 },	  { SYS_msgsnd, 1 },
	{ SYS_mq_timedreceive, 1 },   { SYS_io_getevents, WORST }, { SYS_io_uring_enter, WORST },
	{ SYS_recvmmsg, WORST },
	/* For a time, once interrupted: nanosleep(), poll() or a futex with a limit. */
	{ SYS_restart_syscall, WORST },
};

static int rank_of_wait(int64_t number)
{
	unsigned int i;

	for (i = 0; i < sizeof(waits) / sizeof(*waits); i++)
		if (waits[i].number == number)
			return waits[i].rank;
	return -1;
}

/* Interrupted, it would return before its time, or with less than all data. */
static bool is_cut_short(long number, const uint64_t arguments[6])
{
	switch (number) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		return (int32_t)arguments[3] != -1;
	case SYS_recvfrom:
		return arguments[3] & MSG_WAITALL;
	case SYS_recvmsg:
		return arguments[2] & MSG_WAITALL;
	default:
		return false;
	}
}

int machine_rank(long number, const uint64_t arguments[6])
{
	int rank = rank_of_wait(number);

	if (is_cut_short(number, arguments))
		return WORST;
	if (rank >= 0)
		return rank;
	return number == SYS_futex ? 2 : number == -1 ? 3 : MACHINE_RANK_NEVER;
}

/* For a semaphore, a condition or the end of a thread; of locks only rwlocks without a limit. */
static bool is_futex_of_bits(const struct user_regs_struct *general)
{
	return (int64_t)general->orig_rax == SYS_futex &&
	       (general->rsi & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
}

bool machine_waits(const struct user_regs_struct *general)
{
	return rank_of_wait((int64_t)general->orig_rax) >= 0 || is_futex_of_bits(general);
}

int64_t machine_result(const struct user_regs_struct *general)
{
	return (int64_t)general->rax;
}

void machine_set_call(struct user_regs_struct *general, uint64_t at, long number,
		      const uint64_t arguments[6])
{
	general->rip = at;
	general->rax = (uint64_t)number;
	general->orig_rax = (uint64_t)-1;
	general->rdi = arguments[0];
	general->rsi = arguments[1];
	general->rdx = arguments[2];
	general->r10 = arguments[3];
	general->r8 = arguments[4];
	general->r9 = arguments[5];
}

void machine_set_start(struct user_regs_struct *general, uint64_t at, uint64_t stack)
{
	general->rip = at;
	general->rsp = stack;
	general->orig_rax = (uint64_t)-1;
	general->eflags &= ~(uint64_t)(TRAP_FLAG | DIRECTION_FLAG);
}

static void make_again(struct user_regs_struct *general)
{
	general->rax = general->orig_rax;
	general->rip -= CALL_BYTES;
	general->orig_rax = (uint64_t)-1;
}

static void make_again_if_interrupted(struct user_regs_struct *general)
{
	int64_t result = machine_result(general);

	if (machine_is_in_call(general) && result <= -ERESTART_FIRST && result >= -ERESTART_LAST)
		make_again(general);
}

/* It has no time, or a socket has it, and nothing was done. */
static bool is_to_wait_again(const struct user_regs_struct *general)
{
	switch ((int64_t)general->orig_rax) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		return (int32_t)general->r10 == -1;
	case SYS_rt_sigtimedwait:
		return !general->rdx;
	case SYS_semtimedop:
	case SYS_epoll_pwait2:
		return !general->r10;
	case SYS_io_getevents:
		return !general->r8;
	case SYS_semop:
	case SYS_io_uring_enter:
	case SYS_read:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_accept:
	case SYS_accept4:
		return true;
	default:
		return false;
	}
}

void machine_wait_again(struct user_regs_struct *general)
{
	if (general->rax == (uint64_t)-EINTR && is_to_wait_again(general))
		general->rax = (uint64_t)-ERESTARTNOHAND;
}

int machine_find_return(const unsigned char *code, int bytes)
{
	/* mov $15, %rax; syscall */
	static const unsigned char returns[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	const unsigned char *found = memmem(code, (size_t)bytes, returns, sizeof(returns));

	return found ? (int)(found - code) : -1;
}

/* Of the vectors: up to the last feature that is in use. The others are as at first. */
static size_t bytes_in_use(const struct machine_registers *registers, uint64_t *features)
{
	size_t bytes = VECTORS_LEAST;
	unsigned int i, size, offset, c, d;
	uint64_t used;

	memcpy(features, registers->vectors + ENABLED_AT, sizeof(*features));
	memcpy(&used, registers->vectors + USED_AT, sizeof(used));
	for (i = 2; i < 63; i++)
		if (used & *features & 1ull << i && __get_cpuid_count(0xd, i, &size, &offset, &c, &d))
			bytes = max(bytes, (size_t)offset + size);
	return min(bytes, registers->vector_bytes);
}

/* As the kernel lays them out for a signal's handler. */
static size_t put_vectors(const struct machine_registers *registers, unsigned char *to, size_t size)
{
	static const uint32_t end = FP_XSTATE_MAGIC2;
	struct _fpx_sw_bytes says = { .magic1 = FP_XSTATE_MAGIC1 };
	uint64_t features;
	size_t bytes = bytes_in_use(registers, &features);

	if (size < bytes + sizeof(end))
		return 0;
	says.xstate_bv = features;
	says.xstate_size = (uint32_t)bytes;
	says.extended_size = (uint32_t)(bytes + sizeof(end));
	memcpy(to, registers->vectors, bytes);
	memcpy(to + ENABLED_AT, &says, sizeof(says));
	memcpy(to + bytes, &end, sizeof(end));
	return bytes + sizeof(end);
}

size_t machine_make_frame(const struct machine_registers *registers, uint64_t mask,
			  uint64_t returns, unsigned char *frame, size_t size, uint64_t *at)
{
	struct user_regs_struct now = registers->general;
	/* As the kernel's: the address to return to is in front. */
	struct {
		uint64_t returns;
		uint64_t flags, link;
		uint64_t stack[3];
		uint64_t registers[23];
		uint64_t vectors; /* where they are: behind it */
		uint64_t reserved[8];
		uint64_t mask;
	} made = { .returns = returns, .mask = mask };
	unsigned char vectors[HAB_ATTACH_STATE_BYTES + 8];
	size_t bytes = put_vectors(registers, vectors, sizeof(vectors));

	if (!bytes || size < sizeof(made) + bytes + FRAME_SPARE)
		return 0;
	make_again_if_interrupted(&now);
	made.registers[0] = now.r8;
	made.registers[1] = now.r9;
	made.registers[2] = now.r10;
	made.registers[3] = now.r11;
	made.registers[4] = now.r12;
	made.registers[5] = now.r13;
	made.registers[6] = now.r14;
	made.registers[7] = now.r15;
	made.registers[8] = now.rdi;
	made.registers[9] = now.rsi;
	made.registers[10] = now.rbp;
	made.registers[11] = now.rbx;
	made.registers[12] = now.rdx;
	made.registers[13] = now.rax;
	made.registers[14] = now.rcx;
	made.registers[15] = now.rsp;
	made.registers[16] = now.rip;
	made.registers[17] = now.eflags;
	made.registers[18] = (now.cs & 0xffff) | (uint64_t)(now.ss & 0xffff) << 48;
	made.flags = HAS_VECTORS | STRICT_STACK_SEGMENT;
	made.vectors = (now.rsp - RED_ZONE - bytes) & -(uint64_t)64;
	*at = ((made.vectors - sizeof(made)) & -(uint64_t)16) - sizeof(made.returns);
	memset(frame, 0, made.vectors - *at);
	memcpy(frame, &made, sizeof(made));
	memcpy(frame + (made.vectors - *at), vectors, bytes);
	return made.vectors - *at + bytes;
}

void machine_set_stack(struct user_regs_struct *general, uint64_t at)
{
	general->rsp = at;
}

void machine_keep(const struct user_regs_struct *general, uint64_t *registers)
{
	struct user_regs_struct now = *general;

	make_again_if_interrupted(&now);
	registers[KEPT_RAX] = now.rax;
	registers[KEPT_RBX] = now.rbx;
	registers[KEPT_RCX] = now.rcx;
	registers[KEPT_RDX] = now.rdx;
	registers[KEPT_RSI] = now.rsi;
	registers[KEPT_RDI] = now.rdi;
	registers[KEPT_RBP] = now.rbp;
	registers[KEPT_RSP] = now.rsp;
	registers[KEPT_R8] = now.r8;
	registers[KEPT_R9] = now.r9;
	registers[KEPT_R10] = now.r10;
	registers[KEPT_R11] = now.r11;
	registers[KEPT_R12] = now.r12;
	registers[KEPT_R13] = now.r13;
	registers[KEPT_R14] = now.r14;
	registers[KEPT_R15] = now.r15;
	registers[KEPT_RIP] = now.rip;
	registers[KEPT_FLAGS] = now.eflags;
}

bool machine_set_frame(const struct user_regs_struct *general, Dwfl_Thread *thread)
{
	/* By their DWARF numbers. */
	const Dwarf_Word words[] = {
		general->rax, general->rdx, general->rcx, general->rbx, general->rsi, general->rdi,
		general->rbp, general->rsp, general->r8,  general->r9,	general->r10, general->r11,
		general->r12, general->r13, general->r14, general->r15, general->rip,
	};

	return dwfl_thread_state_registers(thread, 0, sizeof(words) / sizeof(*words), words);
}

int machine_find_call(const unsigned char *code, int bytes)
{
	int at;

	for (at = 0; at + 1 < bytes; at++)
		if (code[at] == 0x0f && code[at + 1] == 0x05)
			return at;
	return -1;
}
