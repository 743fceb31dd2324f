# SPDX-License-Identifier: GPL-2.0-only
# Fuzzing with libFuzzer, ASan and UBSan. Included by the top Makefile.
#
#   make fuzz			all targets, about ten minutes; FUZZ_SECONDS=N for each
#   make fuzz TARGETS=elf_fuzz	one of them
#
# Targets: fuzz-programs, fuzz; fuzz-corpus makes anew what they begin with.

FUZZ := $(BUILD)/fuzz
FUZZ_TARGETS := records_fuzz recording_fuzz elf_fuzz http_fuzz levels_fuzz rate_fuzz
FUZZ_PROGRAMS := $(FUZZ_TARGETS:%=$(FUZZ)/%)
FUZZ_FLAGS := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined,fuzzer-no-link \
	-fno-sanitize-recover=all
FUZZ_LINK := -fsanitize=address,undefined,fuzzer

.PHONY: fuzz fuzz-programs fuzz-corpus
fuzz-programs: $(FUZZ_PROGRAMS)

fuzz: fuzz-programs
	selftests/fuzz/run $(if $(TARGETS),$(TARGETS),$(FUZZ_TARGETS))

fuzz-corpus: $(BUILD)/tests/make_inputs
	mkdir -p selftests/fuzz/corpus
	$< corpus selftests/fuzz/corpus

$(FUZZ):
	mkdir -p $@

# The programs' own sources, once more, with sanitizers and counters of what was reached.
define fuzz_rule
$(FUZZ)/$(1)/%.o: $(1)/%.c selftests/fuzz/fuzz.mk | $(FUZZ)
	@mkdir -p $$(@D)
	$$(CLANG) $$(FUZZ_FLAGS) $(2) -MMD -MP -c -o $$@ $$<
endef
$(eval $(call fuzz_rule,daemon,$$(DAEMON_CFLAGS)))
$(eval $(call fuzz_rule,selftests/replay,$$(DAEMON_CFLAGS)))
$(eval $(call fuzz_rule,selftests/fuzz,$$(DAEMON_CFLAGS) -Ilib))
$(foreach folder,$(sort $(patsubst %/,%,$(dir $(LIB_SOURCES)))),$(eval $(call fuzz_rule,$(folder),$$(HAB_CFLAGS) -iquote . -Wno-unused-parameter)))

$(FUZZ)/daemon/profile/profile.o: $(DAEMON_BUILD)/entries.h
$(FUZZ)/daemon/profile/formats/pprof.o $(FUZZ)/daemon/profile/formats/read.o: $(PB).h
GENERATED := $(addprefix daemon/,profile.pb-c web_graph web_page)
$(GENERATED:%=$(FUZZ)/%.o): $(FUZZ)/%.o: $(BUILD)/%.c | $(FUZZ)
	@mkdir -p $(@D)
	$(CLANG) $(FUZZ_FLAGS) -iquote . -I$(DAEMON_BUILD) -c -o $@ $<

FUZZ_COMMON := $(SHARED) $(PROFILE) daemon/profile.pb-c daemon/web_graph
FUZZ_TABLES := $(FUZZ_COMMON) $(COLLECT) selftests/replay/replay_feed daemon/habd/state/totals
FUZZ_RECORDING := $(FUZZ_COMMON) daemon/habctl/report_table
FUZZ_ELF := $(addprefix daemon/,shared/elf_reader collect/symbol_file collect/source_lines collect/perf_map collect/demangle shared/program shared/util)
# All of habd but what starts it, and what talks to the kernel and to other processes.
NOT_IN_HTTP := $(addprefix daemon/habd/,habd options sockets privilege http/http kernel/module_feed kernel/every_process \
	kernel/bpf_log kernel/prober)
FUZZ_HTTP := $(FUZZ_COMMON) $(COLLECT) daemon/web_page $(filter-out $(NOT_IN_HTTP) daemon/habd/broker/%,$(HABD))
FUZZ_LIB := $(LIB_SOURCES:.c=)

fuzz_objects = $(FUZZ)/selftests/fuzz/$(1)_fuzz.o $(2:%=$(FUZZ)/%.o)

FUZZ_LIBS = $$($(PKG_CONFIG) --libs $(HABD_LIBS)) -lm -liberty

$(FUZZ)/records_fuzz: $(call fuzz_objects,records,$(FUZZ_TABLES))
$(FUZZ)/recording_fuzz: $(call fuzz_objects,recording,$(FUZZ_RECORDING))
$(FUZZ)/elf_fuzz: $(call fuzz_objects,elf,$(FUZZ_ELF))
$(FUZZ)/http_fuzz: $(call fuzz_objects,http,$(FUZZ_HTTP))
$(FUZZ)/levels_fuzz: $(call fuzz_objects,levels,$(FUZZ_LIB))
$(FUZZ)/rate_fuzz: $(call fuzz_objects,rate,daemon/shared/util)
$(FUZZ_PROGRAMS):
	$(CLANG) $(FUZZ_LINK) -pthread -o $@ $^ $(FUZZ_LIBS)

-include $(sort $(patsubst %,$(FUZZ)/%.d,$(SHARED) $(PROFILE) $(COLLECT) $(HABD) $(FUZZ_LIB)) $(FUZZ_TARGETS:%=$(FUZZ)/selftests/fuzz/%.d))
