# SPDX-License-Identifier: GPL-2.0-only
# libhab, static and shared. Target: lib.

LIB_SOURCES := lib/arena.c lib/backend.c lib/chunk.c lib/config.c lib/device.c lib/events.c lib/fork.c lib/heap.c \
	lib/levels.c lib/process.c lib/registry.c lib/rseq.c lib/sampler.c lib/sizing.c lib/stack.c lib/thread.c \
	lib/tlab.c lib/tolerant.c lib/topology.c lib/usdt.c core/hierarchy.c core/refill.c core/rests.c
LIB_OBJECTS := $(LIB_SOURCES:%.c=$(BUILD)/lib/%.o)
LIB_SHARED := $(BUILD)/libhab.so.$(VERSION)

.PHONY: lib
lib: $(BUILD)/libhab.a $(LIB_SHARED)

# Frame pointers in all that calls: the kernel follows them from a probe to its program.
LIB_CFLAGS := -fno-omit-frame-pointer -momit-leaf-frame-pointer

# Of this file, too: flags that change must not leave old objects.
$(BUILD)/lib/%.o: %.c lib/lib.mk
	@mkdir -p $(@D)
	$(CC) $(HAB_CFLAGS) $(LIB_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

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
