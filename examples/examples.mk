# SPDX-License-Identifier: GPL-2.0-only
# The examples. Target: examples. They see the library as an installed program does: hab.h and
# libhab.

EXAMPLES := $(patsubst examples/%.c,$(BUILD)/examples/%,$(wildcard examples/*.c))

.PHONY: examples
examples: $(EXAMPLES)

$(BUILD)/examples/%: examples/%.c lib/hab.h $(BUILD)/libhab.a
	@mkdir -p $(@D)
	$(CC) -Wall -Wextra -Werror -O2 -g -Ilib -pthread -o $@ $< $(BUILD)/libhab.a
