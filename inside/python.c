// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The functions of CPython 3.8 to 3.13, with the global interpreter lock.
 *
 * What is read is the chain of frames of the calling thread. The thread is in an allocation, so
 * the chain is as it is until the thread goes on. If it is attached to the interpreter (it has the
 * lock), nobody frees what it runs, and plain loads are enough. Else the interpreter may end and
 * free it: each page is tried before it is read, and nothing is read once it is ending. All pages
 * are tried until the layout has been seen to be right.
 *
 * The layouts are those of the headers of each version. From 3.13 on the interpreter says its own.
 * Objects are looked at only if their type is the expected one, which a wrong layout does not have:
 * after a few of those in a row nothing is read any more.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "inside/python.h"
#include "inside/python_code.h"
#include "inside/unwind.h"

/*
 * The interpreter's. The dynamic linker sets them while it loads the library. dlsym() would take
 * memory for the message that one is missing, from an allocator that may be any.
 */
extern const char _PyRuntime[], PyCode_Type[], PyUnicode_Type[], PyBytes_Type[];
extern const unsigned long Py_Version;
const char *Py_GetVersion(void);
void *PyGILState_GetThisThreadState(void);
void *PyThreadState_GetUnchecked(void);
void *_PyThreadState_UncheckedGet(void);
int Py_IsFinalizing(void);
int _Py_IsFinalizing(void);
void *_PyEval_EvalFrameDefault(void);
#pragma weak _PyRuntime
#pragma weak PyCode_Type
#pragma weak PyUnicode_Type
#pragma weak PyBytes_Type
#pragma weak Py_Version
#pragma weak Py_GetVersion
#pragma weak PyGILState_GetThisThreadState
#pragma weak PyThreadState_GetUnchecked
#pragma weak _PyThreadState_UncheckedGet
#pragma weak Py_IsFinalizing
#pragma weak _Py_IsFinalizing
#pragma weak _PyEval_EvalFrameDefault

/* Before glibc 2.34 it is in a library of its own. musl has neither. */
#if defined(__x86_64__) && defined(__GLIBC__)
__asm__(".symver dladdr1, dladdr1@GLIBC_2.3.3");
#endif
#pragma weak dladdr1
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
#pragma weak _dl_find_object
#endif

#define FRAMES_MAX   (2u * HAB_CHANNEL_DEPTH) /* that are looked at: some are no functions */
#define PAGE	     4096ul
#define PAGES	     16u
#ifdef __x86_64__
#define ADDRESS_BITS 47
#else
#define ADDRESS_BITS 48
#endif
#define CAREFUL_READ 64u /* until so many names were as expected all pages are tried */
#define WRONG_MAX    8u
#define TABLE_MAX    (1u << 20) /* bytes of a table of lines */
#define STRING_MAX   (1u << 20)

/* Offsets in bytes; 0: there is none. */
struct layout {
	uint16_t minor;
	uint16_t thread_id; /* this to current_frame: of the thread's state */
	uint16_t cframe;
	uint16_t current_frame; /* 0: it is in the cframe */
	uint16_t cframe_frame;	/* this and the next: of a cframe */
	uint16_t cframe_previous;
	uint16_t previous; /* this to owner: of a frame */
	uint16_t code;
	uint16_t place;
	uint16_t owner; /* 3.11: is_entry */
	uint16_t file;	/* this to bytecode: of a code object */
	uint16_t name;
	uint16_t lines;
	uint16_t first_line;
	uint16_t bytecode;
	uint16_t ascii; /* this and the next: where the characters of strings are */
	uint16_t characters;
};

/* clang-format off */
static const struct layout layouts[] = {
	/*   state      cframe  frame           code                     string */
	{ 8,  176,  0, 24,  0,  0,  24, 32, 104,  0,  104, 112, 120, 40,   0,  48, 72 },
	{ 9,  176,  0, 24,  0,  0,  24, 32, 104,  0,  104, 112, 120, 40,   0,  48, 72 },
	{ 10, 176, 48, 24,  0,  8,  24, 32,  96,  0,  104, 112, 120, 40,   0,  48, 72 },
	{ 11, 152, 56,  0,  8, 16,  48, 32,  56, 68,  112, 128, 136, 72, 184,  48, 72 },
	{ 12, 136, 56,  0,  0,  8,   8,  0,  56, 70,  112, 128, 136, 68, 192,  40, 56 },
	{ 13, 152,  0, 72,  0,  0,   8,  0,  56, 70,  112, 128, 136, 68, 200,  40, 56 },
};
/* clang-format on */

/* The same in all versions. */
#define OBJECT_TYPE   8
#define STRING_LENGTH 16
#define STRING_HASH   24
#define STRING_STATE  32
#define BYTES_LENGTH  16
#define BYTES_DATA    32
/* From 3.12 on: a frame in a native frame of the interpreter, without code. */
#define OWNED_BY_C 3

static struct {
	struct layout at;
	u32 version; /* major << 8 | minor; 0: it was not found, or is not wanted */
	bool is_known;
	void *(*current_state)(void);
	u32 careful; /* names that were as expected, up to CAREFUL_READ */
	u32 wrong;   /* objects in a row that were not as expected; WRONG_MAX: nothing is read */
} python;

/* --- reading ---------------------------------------------------------------------------- */

struct reader {
	bool is_safe; /* what the thread runs stays */
	u64 pages[PAGES]; /* that were tried, by the number's last bits */
};

/* One per thread: name() is called from within walk(). */
static __thread struct reader reader __attribute__((tls_model("initial-exec")));

static bool may_read(u64 address, u64 bytes)
{
	u64 page, *tried;

	if (address < 65536 || address >> ADDRESS_BITS || bytes > TABLE_MAX * 4ull)
		return false;
	if (reader.is_safe)
		return true;
	for (page = address & -PAGE; page < address + bytes; page += PAGE) {
		tried = &reader.pages[page / PAGE % PAGES];
		if (page == *tried)
			continue;
		if (!hab_page_is_readable(page))
			return false;
		*tried = page;
	}
	return true;
}

static bool read_word(u64 address, u64 *value)
{
	if (address % 8 || !may_read(address, 8))
		return false;
	*value = *(const volatile u64 *)address;
	return true;
}

static bool read_half(u64 address, u32 *value)
{
	if (address % 4 || !may_read(address, 4))
		return false;
	*value = *(const volatile u32 *)address;
	return true;
}

static bool is_of_type(u64 object, const void *type)
{
	u64 found;

	if (read_word(object + OBJECT_TYPE, &found) && found == (u64)(uintptr_t)type)
		return true;
	if (READ_ONCE(python.wrong) < WRONG_MAX)
		__atomic_fetch_add(&python.wrong, 1, __ATOMIC_RELAXED);
	return false;
}

/* --- names ------------------------------------------------------------------------------ */

/* The last characters of a string, @room bytes at most; returns how many bytes, 0: none. */
static u32 put_string(u64 string, char *to, u32 room)
{
	u64 length;
	u32 state, kind;

	if (!is_of_type(string, PyUnicode_Type) || !read_word(string + STRING_LENGTH, &length) ||
	    !read_half(string + STRING_STATE, &state))
		return 0;
	kind = state >> 2 & 7;
	/* It is compact: all strings of a compiler are. */
	if (!(state & 32) || (kind != 1 && kind != 2 && kind != 4) || length > STRING_MAX)
		return 0;
	string += state & 64 ? python.at.ascii : python.at.characters;
	if (!may_read(string, length * kind))
		return 0;
	/* Bytes of a character at most. */
	return hab_python_text((const void *)(uintptr_t)string, kind, length, to,
			       room / (state & 64 ? 1 : 4));
}

/* 0: not known. */
static u32 line_of(const struct hab_interpreter_place *place)
{
	u64 object, length;
	u32 first;

	if (!read_half(place->code + python.at.first_line, &first) ||
	    !read_word(place->code + python.at.lines, &object) ||
	    !is_of_type(object, PyBytes_Type) || !read_word(object + BYTES_LENGTH, &length) ||
	    length > TABLE_MAX || !may_read(object + BYTES_DATA, length))
		return 0;
	return hab_python_line(python.at.minor, (const void *)(uintptr_t)(object + BYTES_DATA),
			       (u32)length, first, place->place);
}

static bool name_place(const struct hab_interpreter_place *place, struct hab_interpreter_name *name)
{
	u64 function, file;

	if (!read_word(place->code + python.at.name, &function) ||
	    !read_word(place->code + python.at.file, &file))
		return false;
	name->function_length = put_string(function, name->function, sizeof(name->function));
	name->file_length = put_string(file, name->file, sizeof(name->file));
	name->line = line_of(place);
	if (!name->function_length || !name->file_length || !name->line)
		return name->function_length;
	/* All of it is as expected. */
	if (READ_ONCE(python.careful) < CAREFUL_READ)
		__atomic_fetch_add(&python.careful, 1, __ATOMIC_RELAXED);
	return true;
}

/* A code object may be freed, and another one made in its place: their names differ, or lines. */
static u64 key_of(const struct hab_interpreter_place *place)
{
	const uint16_t strings[] = { python.at.name, python.at.file };
	u64 key = hab_mix(place->code ^ hab_mix(place->place)), string, hash, length, lines;
	u32 i, line;

	for (i = 0; i < 2; i++) {
		if (!read_word(place->code + strings[i], &string) ||
		    !is_of_type(string, PyUnicode_Type) ||
		    !read_word(string + STRING_HASH, &hash) ||
		    !read_word(string + STRING_LENGTH, &length))
			return 0;
		key = hab_mix(key ^ string ^ hab_mix(hash ^ length));
	}
	if (!read_half(place->code + python.at.first_line, &line) ||
	    !read_word(place->code + python.at.lines, &lines) ||
	    !is_of_type(lines, PyBytes_Type) || !read_word(lines + BYTES_LENGTH, &length))
		return 0;
	/* Each of its objects has its type. */
	if (READ_ONCE(python.wrong))
		WRITE_ONCE(python.wrong, 0);
	return hab_mix(key ^ lines ^ hab_mix(line ^ length << 32));
}

/* --- frames ----------------------------------------------------------------------------- */

/* The number of the code unit; before 3.11 as the frame has it. False: not as expected. */
static bool place_of(u64 frame, struct hab_interpreter_place *place)
{
	u64 instruction;
	u32 last;

	if (!read_word(frame + python.at.code, &place->code) ||
	    !is_of_type(place->code, PyCode_Type))
		return false;
	if (python.at.minor >= 11) {
		if (!read_word(frame + python.at.place, &instruction))
			return false;
		place->place = (u64)((int64_t)(instruction - place->code - python.at.bytecode) / 2);
	} else {
		if (!read_half(frame + python.at.place, &last))
			return false;
		place->place = (u64)(int64_t)(int)last;
	}
	return true;
}

static bool add(struct hab_interpreter_walk *walk, u64 frame, u64 stack)
{
	struct hab_interpreter_place place;
	u32 line;

	if (!place_of(frame, &place) || !read_half(place.code + python.at.first_line, &line))
		return false;
	/* 3.13: a frame of the interpreter's own, between a constructor and its caller. */
	return !line || hab_interpreter_add(walk, &place, stack);
}

/* Until 3.10 each function has a native frame; 3.10 has a cframe in it. */
static void walk_objects(struct hab_interpreter_walk *walk, u64 state)
{
	u64 frame, cframe = 0;
	u32 i;

	if (!read_word(state + python.at.current_frame, &frame) ||
	    (python.at.cframe && !read_word(state + python.at.cframe, &cframe)))
		return;
	for (i = 0; frame && i < FRAMES_MAX && add(walk, frame, cframe); i++)
		if (!read_word(frame + python.at.previous, &frame) ||
		    (cframe && !read_word(cframe + python.at.cframe_previous, &cframe)))
			return;
}

/* 3.11: a cframe is in the native frame; the outermost of its functions says that it is. */
static void walk_entries(struct hab_interpreter_walk *walk, u64 state)
{
	u64 frame, cframe;
	u32 i, is_entry;

	if (!read_word(state + python.at.cframe, &cframe) ||
	    !read_word(cframe + python.at.cframe_frame, &frame))
		return;
	for (i = 0; frame && i < FRAMES_MAX && add(walk, frame, cframe); i++) {
		if (!read_half(frame + python.at.owner, &is_entry) ||
		    ((is_entry & 0xff) &&
		     !read_word(cframe + python.at.cframe_previous, &cframe)) ||
		    !read_word(frame + python.at.previous, &frame))
			return;
	}
}

/* From 3.12 on a frame without code is in the native frame, behind its functions. */
static void walk_shims(struct hab_interpreter_walk *walk, u64 state)
{
	u64 frame;
	u32 i, owner, first = 0;

	if (!read_word(state + (python.at.cframe ? python.at.cframe : python.at.current_frame),
		       &frame) ||
	    (python.at.cframe && !read_word(frame + python.at.cframe_frame, &frame)))
		return;
	for (i = 0; frame && i < FRAMES_MAX; i++) {
		if (!read_half(frame + (python.at.owner & ~3u), &owner))
			return;
		owner = owner >> (python.at.owner % 4 * 8) & 0xff;
		if (owner >= OWNED_BY_C) {
			hab_interpreter_set_stack(walk, first, frame);
			first = hab_interpreter_count(walk);
		} else if (!add(walk, frame, HAB_INTERPRETER_LATER)) {
			break;
		}
		if (!read_word(frame + python.at.previous, &frame))
			break;
	}
}

/* --- the thread ------------------------------------------------------------------------- */

static bool is_own(u64 state)
{
	u64 thread;

	return state && read_word(state + python.at.thread_id, &thread) &&
	       thread == (u64)pthread_self();
}

/* The interpreter is about to free what detached threads run. */
static bool is_ending(void)
{
	if (Py_IsFinalizing)
		return Py_IsFinalizing();
	return !_Py_IsFinalizing || _Py_IsFinalizing();
}

/* The calling thread's state; 0: it has none. Sets whether it is attached. */
static u64 find_state(void)
{
	u64 own = (u64)(uintptr_t)PyGILState_GetThisThreadState(), current = 0;

	reader.is_safe = false;
	memset(reader.pages, 0, sizeof(reader.pages));
	if (python.current_state)
		current = (u64)(uintptr_t)python.current_state();
	/* Until 3.11 it is that of the thread that has the lock. */
	if (!current || !is_own(current))
		return !is_ending() && is_own(own) ? own : 0;
	reader.is_safe = READ_ONCE(python.careful) >= CAREFUL_READ;
	return current;
}

static bool is_in_python(void)
{
	return READ_ONCE(python.wrong) < WRONG_MAX && find_state();
}

static void walk_python(struct hab_interpreter_walk *walk)
{
	u64 state = find_state();

	if (!state)
		return;
	if (python.at.minor >= 12)
		walk_shims(walk, state);
	else if (python.at.minor == 11)
		walk_entries(walk, state);
	else
		walk_objects(walk, state);
}

/* --- finding it ------------------------------------------------------------------------- */

/*
 * From 3.13 on _PyRuntime begins with offsets, as words: the version, whether the lock is missing,
 * and for each of the types in this order its size and some members.
 */
static bool take_offsets(const void *runtime, struct layout *at)
{
	enum { VERSION = 1, IS_FREE = 2, THREAD = 19, FRAME = 28, CODE = 34 };
	const u64 *words = runtime;

	if (memcmp(runtime, "xdebugpy", 8) != 0 || (words[VERSION] >> 16) != 0x30d ||
	    words[IS_FREE])
		return false;
	at->current_frame = (uint16_t)words[THREAD + 4];
	at->thread_id = (uint16_t)words[THREAD + 5];
	at->previous = (uint16_t)words[FRAME + 1];
	at->code = (uint16_t)words[FRAME + 2];
	at->place = (uint16_t)words[FRAME + 3];
	at->owner = (uint16_t)words[FRAME + 5];
	at->file = (uint16_t)words[CODE + 1];
	at->name = (uint16_t)words[CODE + 3];
	at->lines = (uint16_t)words[CODE + 4];
	at->first_line = (uint16_t)words[CODE + 5];
	at->bytecode = (uint16_t)words[CODE + 9];
	return true;
}

static u32 find_minor(void)
{
	const char *text;

	if (&Py_Version)
		return Py_Version >> 24 == 3 ? (u32)(Py_Version >> 16 & 0xff) : 0;
	text = Py_GetVersion ? Py_GetVersion() : "";
	return text[0] == '3' && text[1] == '.' ? (u32)atoi(text + 2) : 0;
}

/*
 * The interpreter's binary: a library, or a program of that name. In another program it is a part
 * of it, whose other functions are the program's own.
 */
static void find_binary(struct hab_interpreter *interpreter, void *loop)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
	struct dl_find_object object;

	if (!_dl_find_object || _dl_find_object(loop, &object))
		return;
	if (!*object.dlfo_link_map->l_name && strncmp(program_invocation_short_name, "python", 6) != 0)
		return;
	interpreter->code_low = (u64)(uintptr_t)object.dlfo_map_start;
	interpreter->code_high = (u64)(uintptr_t)object.dlfo_map_end;
#endif
}

/* The same, and the function that runs others. */
static void find_code(struct hab_interpreter *interpreter)
{
	void *loop = (void *)_PyEval_EvalFrameDefault;
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	if (!loop)
		return;
	find_binary(interpreter, loop);
	if (dladdr1 && dladdr1(loop, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol) {
		interpreter->loop_low = (u64)(uintptr_t)loop;
		interpreter->loop_high = interpreter->loop_low + symbol->st_size;
	}
}

static bool find_python(struct hab_interpreter *interpreter)
{
	const char *off;
	u32 i, minor;

	if (!_PyRuntime || !PyCode_Type || !PyUnicode_Type || !PyBytes_Type ||
	    !PyGILState_GetThisThreadState)
		return false;
	off = secure_getenv("HAB_PYTHON");
	if (off && *off == '0')
		return false;
	minor = find_minor();
	python.version = 3 << 8 | minor;
	for (i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
		if (layouts[i].minor == minor)
			python.at = layouts[i];
	python.current_state = minor >= 13 ? PyThreadState_GetUnchecked :
					     _PyThreadState_UncheckedGet;
	find_code(interpreter);
	python.is_known = python.at.minor && (minor < 13 || take_offsets(_PyRuntime, &python.at));
	return python.is_known;
}

bool hab_python_is_known(void)
{
	return python.is_known;
}

static u64 state_of_python(void)
{
	u64 state = HAB_INTERPRETER_SHOWN;

	if (!python.version)
		return HAB_INTERPRETER_NONE;
	if (!python.is_known)
		state = HAB_INTERPRETER_NOT_KNOWN;
	else if (READ_ONCE(python.wrong) >= WRONG_MAX)
		state = HAB_INTERPRETER_UNEXPECTED;
	return state | (u64)python.version << 8;
}

struct hab_interpreter hab_python = {
	.find = find_python,
	.is_running = is_in_python,
	.walk = walk_python,
	.key = key_of,
	.name = name_place,
	.state = state_of_python,
};
