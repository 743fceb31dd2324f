/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A tracer of static probes of this program or its libraries, without privilege: it finds them in
 * the notes of the file, replaces their nops by breakpoints, and counts in the signal handler.
 *
 * It reads only the forms of arguments that all tracers read: a register, a constant, and memory at
 * a constant distance from one register. A probe with another form is an error of the library,
 * because tracers would not attach to it.
 */
#ifndef SELFTESTS_PROBES_H
#define SELFTESTS_PROBES_H

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define PROBES_MAX	 16
#define PROBES_ARGUMENTS 3
#define PROBES_KEPT	 8192
#define PROBES_NOP	 0x90
#define PROBES_INT3	 0xcc

struct probe_argument {
	int bytes;	     /* negative: signed */
	int register_number; /* index into gregs; -1: a constant */
	bool memory;
	long constant; /* or the distance from the register */
};

struct probe {
	char name[64];		      /* provider:name */
	uint64_t location, semaphore; /* addresses in the file */
	int nr_arguments;	      /* -1: in a form that not all tracers read */
	struct probe_argument arguments[PROBES_ARGUMENTS];
	/* Hits. */
	uint64_t hits;
	uint64_t sums[PROBES_ARGUMENTS];
	uint64_t last[PROBES_ARGUMENTS];
	uint64_t first_arguments[PROBES_KEPT];
};

struct probes {
	int nr;
	uint64_t bias; /* of the running program */
	void (*seen)(const struct probe *probe); /* if it is set: after each hit */
	struct probe all[PROBES_MAX];
};

static struct probes *probes_running;

/* Sizes of one register are adjacent, in the order 8, 4, 2 and 1 bytes. */
static int probes_register(const char *name, size_t length)
{
#ifdef __x86_64__
	static const struct {
		const char *names;
		int number;
	} table[] = {
		{ " rax eax ax al ", REG_RAX },	     { " rbx ebx bx bl ", REG_RBX },
		{ " rcx ecx cx cl ", REG_RCX },	     { " rdx edx dx dl ", REG_RDX },
		{ " rsi esi si sil ", REG_RSI },     { " rdi edi di dil ", REG_RDI },
		{ " rbp ebp bp bpl ", REG_RBP },     { " rsp esp sp spl ", REG_RSP },
		{ " r8 r8d r8w r8b ", REG_R8 },	     { " r9 r9d r9w r9b ", REG_R9 },
		{ " r10 r10d r10w r10b ", REG_R10 }, { " r11 r11d r11w r11b ", REG_R11 },
		{ " r12 r12d r12w r12b ", REG_R12 }, { " r13 r13d r13w r13b ", REG_R13 },
		{ " r14 r14d r14w r14b ", REG_R14 }, { " r15 r15d r15w r15b ", REG_R15 },
	};
	char wanted[16];
	unsigned int i;

	snprintf(wanted, sizeof(wanted), " %.*s ", (int)length, name);
	for (i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (strstr(table[i].names, wanted))
			return table[i].number;
#else
	(void)name;
	(void)length;
#endif
	return -1;
}

/* As "8@%rax", "-4@$7" or "8@16(%rdi)". */
static bool probes_parse_argument(const char *text, struct probe_argument *argument)
{
	char name[8];
	int used = 0;

	if (sscanf(text, "%d@%n", &argument->bytes, &used) != 1 || !used)
		return false;
	text += used;
	argument->register_number = -1;
	argument->memory = false;
	argument->constant = 0;
	if (*text == '$')
		return sscanf(text, "$%ld%n", &argument->constant, &used) == 1 && !text[used];
	argument->memory = *text != '%';
	if (argument->memory && *text != '(') {
		if (sscanf(text, "%ld%n", &argument->constant, &used) != 1)
			return false;
		text += used;
	}
	used = 0;
	if (sscanf(text, argument->memory ? "(%%%7[a-z0-9])%n" : "%%%7[a-z0-9]%n", name, &used) !=
	    1)
		return false;
	argument->register_number = probes_register(name, strlen(name));
	return used && !text[used] && argument->register_number >= 0;
}

static int probes_parse_arguments(const char *text, struct probe_argument *arguments)
{
	char copy[256], *rest = copy, *word;
	int nr = 0;

	snprintf(copy, sizeof(copy), "%s", text);
	while ((word = strsep(&rest, " ")))
		if (*word &&
		    (nr == PROBES_ARGUMENTS || !probes_parse_argument(word, &arguments[nr++])))
			return -1;
	return nr;
}

static void probes_add(struct probes *probes, const char *data, int64_t moved)
{
	const uint64_t *addresses = (const uint64_t *)data;
	const char *provider = data + 3 * sizeof(uint64_t);
	const char *name = provider + strlen(provider) + 1;
	const char *arguments = name + strlen(name) + 1;
	struct probe *probe = &probes->all[probes->nr];

	if (probes->nr == PROBES_MAX)
		return;
	probes->nr++;
	snprintf(probe->name, sizeof(probe->name), "%s:%s", provider, name);
	probe->location = addresses[0] + moved;
	probe->semaphore = addresses[2] ? addresses[2] + moved : 0;
	probe->nr_arguments = probes_parse_arguments(arguments, probe->arguments);
}

static void probes_read_notes(struct probes *probes, Elf_Data *data, uint64_t base)
{
	size_t at = 0, name, text;
	GElf_Nhdr note;

	while ((at = gelf_getnote(data, at, &note, &name, &text))) {
		const char *content = (const char *)data->d_buf + text;

		if (note.n_type == 3 && !strcmp((const char *)data->d_buf + name, "stapsdt"))
			/* The section moved if the file was prelinked. */
			probes_add(probes, content, base - ((const uint64_t *)content)[1]);
	}
}

/* All probes of a file; nr is 0 if it cannot be read. */
static void probes_read(struct probes *probes, const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	Elf_Scn *section = NULL, *notes = NULL;
	GElf_Shdr header;
	uint64_t base = 0;
	const char *name;
	size_t names;
	Elf *elf;

	memset(probes, 0, sizeof(*probes));
	elf_version(EV_CURRENT);
	elf = elf_begin(file, ELF_C_READ, NULL);
	if (elf && !elf_getshdrstrndx(elf, &names))
		while ((section = elf_nextscn(elf, section)) && gelf_getshdr(section, &header)) {
			name = elf_strptr(elf, names, header.sh_name);
			if (name && !strcmp(name, ".stapsdt.base"))
				base = header.sh_addr;
			if (name && !strcmp(name, ".note.stapsdt"))
				notes = section;
		}
	if (notes)
		probes_read_notes(probes, elf_getdata(notes, NULL), base);
	elf_end(elf);
	close(file);
}

static struct probe *probes_find(struct probes *probes, const char *name)
{
	int i;

	for (i = 0; i < probes->nr; i++)
		if (!strcmp(probes->all[i].name, name))
			return &probes->all[i];
	return NULL;
}

/* Raises or lowers the semaphore, as a tracer does. */
static void probes_listen(struct probe *probe)
{
	(*(volatile unsigned short *)(probes_running->bias + probe->semaphore))++;
}

static inline void probes_leave(struct probe *probe)
{
	(*(volatile unsigned short *)(probes_running->bias + probe->semaphore))--;
}

#ifdef __x86_64__
static uint64_t probes_value(const struct probe_argument *argument, const greg_t *registers)
{
	int bytes = abs(argument->bytes), unused = 64 - 8 * bytes;
	uint64_t value = argument->constant;

	if (argument->register_number >= 0 && !argument->memory) {
		value = registers[argument->register_number];
	} else if (argument->memory) {
		const char *from = (char *)registers[argument->register_number];

		value = 0;
		memcpy(&value, from + argument->constant, bytes);
	}
	value <<= unused;
	return argument->bytes < 0 ? (uint64_t)((int64_t)value >> unused) : value >> unused;
}

/* After a breakpoint of one byte comes what follows the nop of one byte. */
static void probes_hit(int signal, siginfo_t *info, void *context)
{
	const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t location = registers[REG_RIP] - 1 - probes_running->bias;
	struct probe *probe;
	int i, k;

	(void)signal;
	(void)info;
	for (i = 0; i < probes_running->nr; i++) {
		probe = &probes_running->all[i];
		if (probe->location != location)
			continue;
		for (k = 0; k < probe->nr_arguments; k++) {
			probe->last[k] = probes_value(&probe->arguments[k], registers);
			probe->sums[k] += probe->last[k];
		}
		if (probe->hits < PROBES_KEPT)
			probe->first_arguments[probe->hits] = probe->last[0];
		probe->hits++;
		if (probes_running->seen)
			probes_running->seen(probe);
		return;
	}
	abort();
}

/* Sets breakpoints on all probes of a file that is loaded with @bias. False on an error. */
static bool probes_trace_file(struct probes *probes, const char *path, uint64_t bias)
{
	struct sigaction action = { .sa_sigaction = probes_hit, .sa_flags = SA_SIGINFO };
	uint64_t page = sysconf(_SC_PAGESIZE), start;
	unsigned char *code;
	int i;

	probes_read(probes, path);
	probes->bias = bias;
	probes_running = probes;
	if (sigaction(SIGTRAP, &action, NULL))
		return false;
	for (i = 0; i < probes->nr; i++) {
		code = (unsigned char *)(probes->bias + probes->all[i].location);
		start = (uint64_t)code & -page;
		if (*code != PROBES_NOP ||
		    mprotect((void *)start, page, PROT_READ | PROT_WRITE | PROT_EXEC))
			return false;
		*code = PROBES_INT3;
		if (mprotect((void *)start, page, PROT_READ | PROT_EXEC))
			return false;
	}
	return true;
}
#else
static bool probes_trace_file(struct probes *probes, const char *path, uint64_t bias)
{
	(void)bias;
	probes_read(probes, path);
	return false;
}
#endif

/* The same of this program. One that is linked to fixed addresses has bias 0. */
static inline bool probes_trace(struct probes *probes)
{
	extern const Elf64_Ehdr __ehdr_start;

	return probes_trace_file(probes, "/proc/self/exe",
				 __ehdr_start.e_type == ET_DYN ? (uint64_t)&__ehdr_start : 0);
}

#endif /* SELFTESTS_PROBES_H */
