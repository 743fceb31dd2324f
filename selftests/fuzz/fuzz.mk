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

# The programs' own sources, once more, with sanitizers and counters of what was reached. Objects
# lie in one folder, so no two of them may have the same name.
FUZZ_NAMES := $(notdir $(wildcard $(DAEMON_FOLDERS:%=daemon/%/*.c)) $(LIB_SOURCES))
ifneq ($(words $(FUZZ_NAMES)),$(words $(sort $(FUZZ_NAMES))))
$(error two sources of the daemon or the library have the same name; rename one of them)
endif
define fuzz_rule
$(FUZZ)/%.o: $(1)/%.c selftests/fuzz/fuzz.mk | $(FUZZ)
	$$(CLANG) $$(FUZZ_FLAGS) $(2) -MMD -MP -c -o $$@ $$<
	@sed -i 's| $$<||' $$(@:.o=.d)
endef
$(foreach folder,$(DAEMON_FOLDERS),$(eval $(call fuzz_rule,daemon/$(folder),$$(DAEMON_CFLAGS))))
$(foreach folder,$(sort $(patsubst %/,%,$(dir $(LIB_SOURCES)))),$(eval $(call fuzz_rule,$(folder),$$(HAB_CFLAGS) -iquote . -Wno-unused-parameter)))
$(eval $(call fuzz_rule,selftests/fuzz,$$(DAEMON_CFLAGS) -Ilib))

$(FUZZ)/profile.o: $(DAEMON_BUILD)/entries.h
$(FUZZ)/profile_pprof.o $(FUZZ)/profile_read.o: $(DAEMON_BUILD)/profile.pb-c.h
$(FUZZ)/profile.pb-c.o $(FUZZ)/web_graph.o $(FUZZ)/web_page.o: $(FUZZ)/%.o: $(DAEMON_BUILD)/%.c | $(FUZZ)
	$(CLANG) $(FUZZ_FLAGS) -iquote . -I$(DAEMON_BUILD) -c -o $@ $<

FUZZ_TABLES := $(COLLECTOR_SOURCES) replay_feed totals profile.pb-c web_graph
FUZZ_RECORDING := profile_read merge report report_table $(PROFILE_SOURCES) $(SHARED_SOURCES) profile.pb-c web_graph
FUZZ_ELF := elf_reader symbol_file perf_map demangle program util
# All of habd but what starts it, and what talks to the kernel and to other processes.
NOT_IN_HTTP := habd options sockets privilege http broker collectors connections routes part_process windows \
	owner_lookup module_feed every_process bpf_log no_feed probers prober
FUZZ_HTTP := $(sort $(filter-out $(NOT_IN_HTTP),$(HABD_SOURCES)) profile.pb-c web_graph web_page)
FUZZ_LIB := $(notdir $(LIB_SOURCES:.c=))

fuzz_objects = $(FUZZ)/$(1)_fuzz.o $(patsubst %,$(FUZZ)/%.o,$(2))

FUZZ_LIBS = $$($(PKG_CONFIG) --libs $(HABD_LIBS)) -lm -liberty

$(FUZZ)/records_fuzz: $(call fuzz_objects,records,$(FUZZ_TABLES))
$(FUZZ)/recording_fuzz: $(call fuzz_objects,recording,$(FUZZ_RECORDING))
$(FUZZ)/elf_fuzz: $(call fuzz_objects,elf,$(FUZZ_ELF))
$(FUZZ)/http_fuzz: $(call fuzz_objects,http,$(FUZZ_HTTP))
$(FUZZ)/levels_fuzz: $(call fuzz_objects,levels,$(FUZZ_LIB))
$(FUZZ)/rate_fuzz: $(call fuzz_objects,rate,util)
$(FUZZ_PROGRAMS):
	$(CLANG) $(FUZZ_LINK) -pthread -o $@ $^ $(FUZZ_LIBS)

-include $(wildcard $(FUZZ)/*.d)
