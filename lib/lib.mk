# SPDX-License-Identifier: GPL-2.0-only
# libhab, static and shared, and the preload library libhab-malloc.so. Target: lib.

# The program's side of a channel: in both libraries.
CLIENT_SOURCES := $(addprefix inside/,client.c connect.c live.c maps.c own_interval.c sandbox.c unwind.c unwind_table.c usdt.c)

LIB_SOURCES := $(addprefix lib/alloc/,chunk.c config.c heap.c levels.c lists.c lists_collect.c loaded.c region.c registry.c) \
	$(addprefix lib/alloc/,sizing.c thread.c tlab.c trim.c trim_thread.c) \
	lib/rseq/rseq.c lib/rseq/trial.c \
	$(addprefix lib/backend/,arena.c backend.c cpu_domains.c device_backend.c forked.c process_backend.c) \
	$(addprefix lib/telemetry/,heap_channel.c events.c sampler.c usdt_objects.c) $(CLIENT_SOURCES) \
	$(addprefix core/hierarchy/,free_extents.c hierarchy.c refill.c)
LIB_OBJECTS := $(LIB_SOURCES:%.c=$(BUILD)/%.o)
LIB_SHARED := $(BUILD)/libhab.so.$(VERSION)

MALLOC_SOURCES := $(addprefix inside/malloc/,allocx.c calls.c interpose.c loaded.c mmap.c operators.c real.c references.c worker.c sample.c python_objects.c) \
	$(addprefix inside/,python.c python_code.c interpreter.c stack.c) \
	$(CLIENT_SOURCES)
MALLOC_OBJECTS := $(MALLOC_SOURCES:%.c=$(BUILD)/%.o)
MALLOC_SHARED := $(BUILD)/libhab-malloc.so
# A folder of folders, one for each value that $$LIB has in a loader: see daemon/habrun/preload.c.
MALLOC_FOLDERS := $(BUILD)/libhab-malloc

.PHONY: lib
lib: $(BUILD)/libhab.a $(LIB_SHARED) $(MALLOC_SHARED) $(MALLOC_FOLDERS)

# Frame pointers in functions that call: the kernel follows them to the program.
# Two stores are fewer instructions than a vector of two.
LIB_CFLAGS := -fno-omit-frame-pointer -momit-leaf-frame-pointer -fno-tree-slp-vectorize

# Depends on this file, so that new flags rebuild all objects.
$(sort $(LIB_OBJECTS) $(MALLOC_OBJECTS)): $(BUILD)/%.o: %.c lib/lib.mk
	@mkdir -p $(@D)
	$(CC) $(HAB_CFLAGS) $(LIB_CFLAGS) -iquote . $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/libhab.a: $(LIB_OBJECTS)
	@rm -f $@
	$(AR) rcs $@ $^

# nodelete: threads' descriptors of restartable sequences point into the library.
$(LIB_SHARED): $(LIB_OBJECTS) lib/libhab.map
	$(CC) -shared -o $@ $(LIB_OBJECTS) -pthread $(LDFLAGS) -Wl,--version-script=lib/libhab.map \
		-Wl,-z,nodelete -Wl,--defsym=hab_is_shared=1 -Wl,-z,defs -Wl,-soname,libhab.so.$(SOVERSION)
	@ln -sf libhab.so.$(VERSION) $(BUILD)/libhab.so.$(SOVERSION)
	@ln -sf libhab.so.$(SOVERSION) $(BUILD)/libhab.so

# The compiler must not take the functions that are defined here for those of the C library.
MALLOC_CFLAGS := -fvisibility=hidden -fexceptions $(addprefix -fno-builtin-,malloc calloc realloc free)
$(BUILD)/inside/malloc/%.o: LIB_CFLAGS += $(MALLOC_CFLAGS)

# Loaded into any program: it needs the C library alone, and is never unloaded. It is bound at the
# start: at a call the dynamic linker would take 3 KiB of a stack, which may be a small one. Before
# glibc 2.34 libdl.so.2 has dlsym().
$(MALLOC_SHARED): $(MALLOC_OBJECTS) inside/malloc/libhab-malloc.map
	$(CC) -shared -static-libgcc -o $@ $(MALLOC_OBJECTS) $(LDFLAGS) \
		-Wl,--version-script=inside/malloc/libhab-malloc.map -Wl,-z,nodelete -Wl,-z,defs \
		-Wl,-soname,libhab-malloc.so -Wl,-z,now -Wl,--hash-style=both -Wl,--no-as-needed -l:libdl.so.2

# For 64 bits it has links to the library, for 32 bits an empty one, if the compiler is one for x86.
$(MALLOC_FOLDERS): lib/lib.mk
	@rm -rf $@ && mkdir -p $@/lib/x86_64-linux-gnu $@/lib64 $@/lib32 $@/lib/i386-linux-gnu
	@if $(CC) -m32 -shared -nostdlib -o $@/lib32/libhab-malloc.so -x c /dev/null 2>/dev/null; then \
		cp $@/lib32/libhab-malloc.so $@/lib/i386-linux-gnu/ && \
		ln -s ../../../libhab-malloc.so $@/lib/x86_64-linux-gnu/ && \
		ln -s ../../libhab-malloc.so $@/lib64/ && ln -s ../../libhab-malloc.so $@/lib/; \
	else \
		rm -r $@/lib*; \
	fi

-include $(sort $(LIB_OBJECTS:.o=.d) $(MALLOC_OBJECTS:.o=.d))
