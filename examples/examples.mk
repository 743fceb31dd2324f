# SPDX-License-Identifier: GPL-2.0-only
# The examples. Target: examples. They see the library as an installed program does: hab.h and
# libhab.

EXAMPLES := $(patsubst examples/%,$(BUILD)/examples/%,$(basename $(wildcard examples/*.c examples/*.cc)))
# Other libraries' packages, of the examples that have one.
EXAMPLE_PACKAGES_with_expat := expat
EXAMPLE_PACKAGES_with_jansson := jansson
EXAMPLE_PACKAGES_with_lua := lua5.4
example_flags = $(if $(EXAMPLE_PACKAGES_$*),$$($(PKG_CONFIG) $(1) $(EXAMPLE_PACKAGES_$*)))

.PHONY: examples
examples: $(EXAMPLES)

$(BUILD)/examples/%: examples/%.c lib/hab.h $(wildcard lib/adapters/*) $(BUILD)/libhab.a
	@mkdir -p $(@D)
	$(CC) -Wall -Wextra -Werror -O2 -g -Ilib -Ilib/adapters $(call example_flags,--cflags) -pthread \
		-o $@ $< $(BUILD)/libhab.a $(call example_flags,--libs)

$(BUILD)/examples/%: examples/%.cc lib/hab.h $(wildcard lib/adapters/*) $(BUILD)/libhab.a
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -Wall -Wextra -Werror -O2 -g -Ilib -Ilib/adapters -pthread -o $@ $< $(BUILD)/libhab.a
