// SPDX-License-Identifier: GPL-2.0-only
/*
 * Looks up names in an ELF file, with libdwfl.
 *
 * A symbol counts only if its own size covers the offset: in a stripped file the nearest exported
 * symbol is another function. One without a size, of assembly, ends where the next one begins, in
 * files that are not stripped. A file may have millions of symbols, which libdwfl would read for
 * each name: so they are read once, and sorted.
 */
#include "daemon/collect/symbol_file.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "daemon/collect/demangle.h"
#include "daemon/shared/util.h"
#include "daemon/collect/perf_map.h"
#include "daemon/collect/source_lines.h"

#define NAME_MAX_BYTES (64u << 10)
#define LOCALS_MAX     10000 /* of one source file that are looked at to find its name */
#define STEPS_MAX      64  /* symbols that begin before an address and may cover it */
#define SECTION_BYTES  256 /* about what libelf takes for one */

#define OWN_SIZE 4 /* of a rank: the symbol has a size */

/* The size is cut off at 4 GiB. Symbols with a greater rank are preferred. */
struct symbol {
	uint64_t address;
	uint32_t size;
	uint32_t number : 24; /* in the file's table, less than SYMBOLS_MAX */
	uint32_t rank : 8;
};

struct symbol_file {
	struct perf_map *map; /* not NULL: it is a perf map */
	Dwfl *dwfl;	      /* NULL: it cannot be read */
	Dwfl_Module *module;
	GElf_Addr bias;
	Elf *elf;
	struct symbol *symbols; /* by address */
	unsigned int nr_symbols;
	bool has_too_many;
	bool is_stripped;
	bool has_debug;
	int debug_fd; /* while the file is opened; then -1 */
	char *path;   /* this and the next: for debug files beside it */
	bool beside;
	struct source_lines *lines; /* NULL: not asked for yet, or there are none */
	bool has_asked;
	GElf_Addr lines_bias;
};

static int find_no_file(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
			char **path, Elf **elf)
{
	return -1;
}

static bool has_checksum(int fd, GElf_Word checksum)
{
	unsigned char part[16384];
	uLong sum = crc32(0, NULL, 0);
	ssize_t got;
	off_t at;

	for (at = 0; (got = pread(fd, part, sizeof(part), at)) > 0; at += got)
		sum = crc32(sum, part, (uInt)got);
	return !got && sum == checksum;
}

/* Takes @path. -1: it is another one, or there is none. */
static int open_beside(char *path, GElf_Word checksum)
{
	struct stat status;
	int fd = open_regular(path, 0, &status);

	free(path);
	if (fd < 0 || has_checksum(fd, checksum))
		return fd;
	close(fd);
	return -1;
}

/* Where debuggers look for it: beside the file, in .debug there, and among the installed ones. */
static int find_beside(const struct symbol_file *file, const char *link, GElf_Word checksum)
{
	const char *end = strrchr(file->path, '/');
	int folder = end ? (int)(end - file->path) : 0, fd;

	if (!file->beside || !link || !*link || strchr(link, '/') || *file->path != '/')
		return -1;
	fd = open_beside(xformat("%.*s/%s", folder, file->path, link), checksum);
	if (fd < 0)
		fd = open_beside(xformat("%.*s/.debug/%s", folder, file->path, link), checksum);
	if (fd < 0)
		fd = open_beside(xformat("/usr/lib/debug%.*s/%s", folder, file->path, link),
				 checksum);
	return fd;
}

/* Called for a stripped file only. The library closes the descriptor. */
static int find_debug_file(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
			   const char *path, const char *link, GElf_Word checksum,
			   char **debug_path)
{
	struct symbol_file *file = *data;
	int fd;

	file->is_stripped |= !file->has_asked;
	if (file->debug_fd >= 0)
		return fcntl(file->debug_fd, F_DUPFD_CLOEXEC, 0);
	fd = find_beside(file, link, checksum);
	file->has_debug |= fd >= 0;
	return fd;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_no_file,
	.find_debuginfo = find_debug_file,
	.section_address = dwfl_offline_section_address,
};

static bool open_module(struct symbol_file *file, int fd, const char *path)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	void **data;

	if (own < 0)
		return false;
	dwfl_report_begin(file->dwfl);
	/* On success the descriptor is taken over. */
	file->module = dwfl_report_offline(file->dwfl, path, path, own);
	dwfl_report_end(file->dwfl, NULL, NULL);
	if (!file->module) {
		close(own);
		return false;
	}
	dwfl_module_info(file->module, &data, NULL, NULL, NULL, NULL, NULL, NULL);
	*data = file;
	file->elf = dwfl_module_getelf(file->module, &file->bias);
	return file->elf;
}

static unsigned int rank_of(const GElf_Sym *symbol)
{
	switch (GELF_ST_BIND(symbol->st_info)) {
	case STB_LOCAL:
		return 0;
	case STB_WEAK:
		return 1;
	default:
		return 2;
	}
}

static bool is_function(const GElf_Sym *symbol)
{
	int type = GELF_ST_TYPE(symbol->st_info);

	return symbol->st_shndx != SHN_UNDEF &&
	       (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE);
}

/* Bytes from the symbol to the end of its section, if that has code. */
static uint64_t code_behind(Elf *elf, GElf_Word section, const GElf_Sym *symbol)
{
	GElf_Shdr head;

	if (!gelf_getshdr(elf_getscn(elf, section), &head) || !(head.sh_flags & SHF_EXECINSTR) ||
	    symbol->st_value < head.sh_addr || symbol->st_value - head.sh_addr >= head.sh_size)
		return 0;
	return head.sh_addr + head.sh_size - symbol->st_value;
}

/* The last symbol of an address is the best one: a global one, the shortest, the first. */
static int compare_symbols(const void *one, const void *two)
{
	const struct symbol *first = one, *second = two;

	if (first->address != second->address)
		return first->address < second->address ? -1 : 1;
	if (first->rank != second->rank)
		return first->rank < second->rank ? -1 : 1;
	if (first->size != second->size)
		return first->size > second->size ? -1 : 1;
	return first->number > second->number ? -1 : 1;
}

static void add_symbol(struct symbol_file *file, int number)
{
	GElf_Addr address;
	const char *name;
	GElf_Word section;
	GElf_Sym symbol;
	uint64_t size;
	Elf *elf;

	name = dwfl_module_getsym_info(file->module, number, &symbol, &address, &section, &elf,
				       NULL);
	if (!name || !*name || !is_function(&symbol))
		return;
	size = symbol.st_size;
	if (!size && !(file->is_stripped && !file->has_debug))
		size = code_behind(elf, section, &symbol);
	if (size)
		file->symbols[file->nr_symbols++] = (struct symbol){
			.address = address,
			.size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX,
			.number = (uint32_t)number,
			/* What has a size of its own is better. */
			.rank = (symbol.st_size ? OWN_SIZE : 0) + rank_of(&symbol),
		};
}

/* Those without a size end where the next one begins. */
static void set_ends(struct symbol_file *file)
{
	struct symbol *symbol, *next = NULL;
	unsigned int i;

	for (i = file->nr_symbols; i; i--) {
		symbol = &file->symbols[i - 1];
		if (symbol->rank < OWN_SIZE && next && next->address - symbol->address < symbol->size)
			symbol->size = (uint32_t)(next->address - symbol->address);
		if (i > 1 && file->symbols[i - 2].address != symbol->address)
			next = symbol;
	}
}

static bool read_symbols(struct symbol_file *file)
{
	int count = dwfl_module_getsymtab(file->module), i;

	/* A file without symbols is no error. */
	if (count <= 0)
		return true;
	if ((unsigned int)count > SYMBOLS_MAX)
		return false;
	file->symbols = xcalloc((size_t)count, sizeof(*file->symbols));
	for (i = 1; i < count; i++)
		add_symbol(file, i);
	file->symbols = xrealloc(file->symbols, file->nr_symbols, sizeof(*file->symbols));
	qsort(file->symbols, file->nr_symbols, sizeof(*file->symbols), compare_symbols);
	set_ends(file);
	return true;
}

struct symbol_file *symbol_file_open(int fd, int debug_fd, const char *path, bool beside)
{
	struct symbol_file *file = xcalloc(1, sizeof(*file));

	if (perf_map_has_name(path)) {
		file->map = perf_map_read(fd);
		return file;
	}
	file->dwfl = dwfl_begin(&callbacks);
	if (!file->dwfl)
		return file;
	file->debug_fd = debug_fd;
	file->path = xstrdup(path);
	file->beside = beside;
	file->has_debug = debug_fd >= 0;
	if (open_module(file, fd, path)) {
		file->has_too_many = !read_symbols(file);
		file->debug_fd = -1;
		return file;
	}
	say_verbose("no symbols from %s: %s", path, dwfl_errmsg(-1));
	dwfl_end(file->dwfl);
	file->dwfl = NULL;
	return file;
}

void symbol_file_close(struct symbol_file *file)
{
	if (!file)
		return;
	source_lines_free(file->lines);
	if (file->dwfl)
		dwfl_end(file->dwfl);
	perf_map_free(file->map);
	free(file->symbols);
	free(file->path);
	free(file);
}

/* The address at which the loader maps this offset of the file; false if it does not. */
static bool offset_address(Elf *elf, uint64_t offset, GElf_Addr *address)
{
	GElf_Phdr segment;
	size_t count, i;

	if (elf_getphdrnum(elf, &count))
		return false;
	for (i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_LOAD ||
		    !(segment.p_flags & PF_X))
			continue;
		if (offset >= segment.p_offset && offset - segment.p_offset < segment.p_filesz) {
			*address = offset - segment.p_offset + segment.p_vaddr;
			return true;
		}
	}
	return false;
}

uint64_t symbol_file_memory(const struct symbol_file *file)
{
	size_t sections = 0;

	if (file->map)
		return perf_map_memory(file->map);
	if (file->elf)
		elf_getshdrnum(file->elf, &sections);
	return file->nr_symbols * sizeof(*file->symbols) + sections * SECTION_BYTES +
	       (file->lines ? source_lines_memory(file->lines) : 0);
}

bool symbol_file_has_too_many(const struct symbol_file *file)
{
	return file->has_too_many;
}

bool symbol_file_needs_debug(const struct symbol_file *file)
{
	return file->is_stripped && !file->has_debug;
}

bool symbol_file_may_grow(const struct symbol_file *file)
{
	return file->map;
}

bool symbol_file_has_grown(const struct symbol_file *file, int fd)
{
	return file->map && perf_map_has_grown(file->map, fd);
}

/* The symbol that begins last, of those that cover the address. */
static const struct symbol *find_symbol(const struct symbol_file *file, uint64_t address)
{
	unsigned int low = 0, high = file->nr_symbols, middle, steps;
	const struct symbol *symbol;

	/* The symbols before low begin at the address or before it. */
	while (low < high) {
		middle = low + (high - low) / 2;
		if (file->symbols[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (steps = 0; steps < low && steps < STEPS_MAX; steps++) {
		symbol = &file->symbols[low - 1 - steps];
		if (address - symbol->address < symbol->size)
			return symbol;
	}
	return NULL;
}

static char *find_in_map(const struct perf_map *map, uint64_t address)
{
	const char *name = perf_map_find(map, address);
	char *copy;

	if (!name)
		return NULL;
	copy = xstrndup(name, strnlen(name, NAME_MAX_BYTES));
	clean_string(copy);
	return copy;
}

/* The source file of a symbol that others cannot refer to; "": not known. */
static const char *source_of(const struct symbol_file *file, int number)
{
	int least = number > LOCALS_MAX ? number - LOCALS_MAX : 1;
	GElf_Addr address;
	const char *name;
	GElf_Sym symbol;

	for (; number >= least; number--) {
		name = dwfl_module_getsym_info(file->module, number, &symbol, &address, NULL, NULL,
					       NULL);
		if (!name || GELF_ST_BIND(symbol.st_info) != STB_LOCAL)
			break;
		if (GELF_ST_TYPE(symbol.st_info) == STT_FILE)
			return name;
	}
	return "";
}

/* @name: of the symbol at @start. */
static char *describe(const struct symbol_file *file, const struct symbol *symbol,
		      const char *name, GElf_Addr start)
{
	/* "memcpy@@GLIBC_2.14" is memcpy. */
	size_t length = strcspn(name, "@");
	char *plain = xcalloc(1, NAME_MAX_BYTES + 1), *copy, *source, *all;
	bool is_mangled;

	if (!length || length > NAME_MAX_BYTES)
		length = strnlen(name, NAME_MAX_BYTES);
	copy = xstrndup(name, length);
	source = xstrdup(source_of(file, (int)symbol->number));
	is_mangled = demangle(copy, false, plain, NAME_MAX_BYTES + 1);
	clean_string(copy);
	clean_string(plain);
	clean_string(source);
	all = xformat("%s\n%s\n%llx\n%s", is_mangled ? plain : copy, is_mangled ? copy : "",
		      (unsigned long long)(start - file->bias), source);
	free(copy);
	free(plain);
	free(source);
	return all;
}

char *symbol_file_find(struct symbol_file *file, uint64_t offset)
{
	const struct symbol *symbol;
	GElf_Addr address, start;
	const char *name;
	GElf_Sym info;

	if (file->map)
		return find_in_map(file->map, offset);
	if (!file->dwfl || !offset_address(file->elf, offset, &address))
		return NULL;
	symbol = find_symbol(file, address + file->bias);
	if (!symbol)
		return NULL;
	name = dwfl_module_getsym_info(file->module, (int)symbol->number, &info, &start, NULL,
				       NULL, NULL);
	/* The file may have changed. */
	if (!name || !*name)
		return NULL;
	return describe(file, symbol, name, start);
}

char *symbol_file_find_lines(struct symbol_file *file, uint64_t offset)
{
	GElf_Addr address;
	Dwarf *dwarf;

	if (!file->dwfl || !offset_address(file->elf, offset, &address))
		return NULL;
	if (!file->has_asked) {
		file->has_asked = true;
		dwarf = dwfl_module_getdwarf(file->module, &file->lines_bias);
		file->lines = dwarf ? source_lines_new(dwarf) : NULL;
	}
	return file->lines ?
		       source_lines_find(file->lines, address + file->bias - file->lines_bias) :
		       NULL;
}
