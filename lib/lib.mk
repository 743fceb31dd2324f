# SPDX-License-Identifier: GPL-2.0-only
# libhab, static and shared. Target: lib.

LIB_SOURCES := $(addprefix lib/alloc/,chunk.c config.c heap.c levels.c lists.c region.c registry.c) \
	$(addprefix lib/alloc/,sizing.c thread.c tlab.c) \
	lib/rseq/rseq.c \
	$(addprefix lib/backend/,arena.c backend.c device.c process.c topology.c) \
	$(addprefix lib/telemetry/,events.c own_interval.c sampler.c usdt.c) \
	$(addprefix core/hierarchy/,free_extents.c hierarchy.c refill.c)
LIB_OBJECTS := $(LIB_SOURCES:%.c=$(BUILD)/lib/%.o)
LIB_SHARED := $(BUILD)/libhab.so.$(VERSION)

.PHONY: lib
lib: $(BUILD)/libhab.a $(LIB_SHARED)

# Frame pointers in functions that call: the kernel follows them from a probe to the program.
LIB_CFLAGS := -fno-omit-frame-pointer -momit-leaf-frame-pointer

# Depends on this file, so that new flags rebuild all objects.
$(BUILD)/lib/%.o: %.c lib/lib.mk
	@mkdir -p $(@D)
	$(CC) $(HAB_CFLAGS) $(LIB_CFLAGS) -iquote . $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/libhab.a: $(LIB_OBJECTS)
	@rm -f $@
	$(AR) rcs $@ $^

# nodelete: threads' descriptors of restartable sequences point into the library.
$(LIB_SHARED): $(LIB_OBJECTS) lib/libhab.map
	$(CC) -shared -o $@ $(LIB_OBJECTS) -pthread $(LDFLAGS) -Wl,--version-script=lib/libhab.map \
		-Wl,-z,nodelete -Wl,-z,defs -Wl,-soname,libhab.so.$(SOVERSION)
	@ln -sf libhab.so.$(VERSION) $(BUILD)/libhab.so.$(SOVERSION)
	@ln -sf libhab.so.$(SOVERSION) $(BUILD)/libhab.so

-include $(LIB_OBJECTS:.o=.d)
