# SPDX-License-Identifier: GPL-2.0-only
# The test programs. Target tests: all that run in VMs and here; target host-tests:
# the same sources with sanitizers, for this host only.

HARNESS_DIR := $(HAB_CACHE)/linux-source/tools/testing/selftests
HARNESS := $(HARNESS_DIR)/kselftest_harness.h
TEST_CFLAGS := -std=gnu11 -Wall -Wextra -Werror -pthread -D_GNU_SOURCE -isystem $(HARNESS_DIR) -iquote . -Ilib \
	-include selftests/patience.h

# The stress test has the library's sources in it, with delays in the sections; the
# blind one also without their CPU check: it has to fail.
INJECTED := $(filter-out lib/alloc/chunk.c,$(LIB_SOURCES))
STRESS_SOURCES := selftests/lib/stress_test.c lib/alloc/chunk.c $(INJECTED)
STRESS_CFLAGS := -include selftests/lib/inject.h

TESTS := $(addprefix $(BUILD)/tests/,lib_test cid_test trial_test trial_seeded_test trial_barrier_test config_test layouts_test sandbox_test region_test trim_test region_stress_test stress_test stress_blind stress_untried abi_test abi_memory_test full_heap_test \
	fail_test fuzz_test hostile_test hostile_limits_test hotplug_test churn_stop_test \
	churn_move_test churn_unload_test telemetry_test \
	throttle_vm_test events_test keep_heap_open \
	probed probed_static promised)
HOST_TESTS := $(addprefix $(BUILD)/tests/,hierarchy_test free_extents_test topology_test throttle_test shares_test \
	threads_test cpu_check_test explore_throttle_test explore_refill_test explore_lists_test explore_ring_test explore_live_test explore_client_test bias_test bytes_bias_test sampling_interval_test \
	pending_test lib_test_asan \
	config_test_asan region_test_asan region_test_clang adapters_test pmr_test region_stress_test_tsan lib_test_clang stress_test_clang layouts_test_asan plugin_test stacks_test usdt_test sampler_test draws_test channel_test tolerant_test unwind_test \
	interval_test reduce_test sites_test timeline_test rss_test claims_test durations_test binaries_test names_test processes_test perf_map_test give_socket_test \
	malloc_channel_test preload_probes_test malloc_draws_test malloc_calls_test malloc_in_use_test malloc_harm_test malloc_collect malloc_made_code malloc_figures \
	fake_python_13 fake_python_13_free fake_python_14) \
	$(if $(shell $(PKG_CONFIG) --exists python3-embed && echo yes),$(BUILD)/tests/embedded)
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

ADVERSARY := $(addprefix $(BUILD)/tests/,copper silver tin adversary profile_check copper_owned silver_owned tin_owned hidden opened clock_jump.so)

# Of other compilers and sanitizers, and for the parts of make test-all.
NOT_IN_GATE := $(addprefix $(BUILD)/tests/,region_test_asan region_test_clang region_stress_test_tsan lib_test_clang stress_test_clang layouts_test_asan \
	fail_test hotplug_test churn_move_test churn_unload_test throttle_vm_test stress_untried lib_test_asan)
GATE_TESTS := $(filter-out $(NOT_IN_GATE),$(HOST_TESTS) $(TESTS))

.PHONY: tests host-tests gate-tests
TEST_TOOLS := $(BUILD)/habd_replay $(addprefix $(BUILD)/tests/,json_server make_records channel_program slow_clients make_inputs map_file make_symbols renamed find_lines churn symbols_target brass zinc)
tests: $(TESTS) $(TEST_TOOLS) $(ADVERSARY)
host-tests: $(HOST_TESTS) $(TESTS) daemon-sanitized
gate-tests: $(GATE_TESTS) $(TEST_TOOLS) daemon-sanitized

# habd and habctl with sanitizers.
.PHONY: daemon-sanitized
daemon-sanitized: $(BUILD)/tests/replay_gen
	+$(MAKE) -s --no-print-directory BUILD=$(BUILD)/daemon-test CFLAGS='-O1 -g $(SANITIZE)' daemon $(BUILD)/daemon-test/habd_replay

$(HARNESS):
	selftests/vm/fetch kselftest

$(BUILD)/tests:
	mkdir -p $@

TEST_DEPS = $(HARNESS) selftests/patience.h | $(BUILD)/tests
STACKS_SOURCES := $(addprefix daemon/,collect/in_use.c collect/stacks.c shared/limits.c shared/util.c)
DAEMON_HEADERS := $(wildcard daemon/*/*.h daemon/*/*/*.h wire/*.h)
THROTTLE_SOURCES := core/throttle/offer.c core/throttle/rotate.c core/throttle/max_min.c
LIB_HEADERS := $(wildcard lib/*.h lib/*/*.h inside/*.h inside/*/*.h wire/*.h core/*.h core/*/*.h uapi/*.h)

$(BUILD)/tests/topology_test: selftests/core/topology_test.c core/hierarchy/topology.h $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(SANITIZE) -o $@ $<

$(BUILD)/tests/hierarchy_test $(BUILD)/tests/free_extents_test: $(BUILD)/tests/%: selftests/core/%.c selftests/core/books.h core/hierarchy/hierarchy.c core/hierarchy/free_extents.c core/hierarchy/refill.c $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(SANITIZE) -o $@ $(filter %.c,$^)

$(BUILD)/tests/throttle_test $(BUILD)/tests/shares_test: $(BUILD)/tests/%: selftests/core/%.c selftests/core/reader.h $(THROTTLE_SOURCES) $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(SANITIZE) -o $@ $(filter %.c,$^) -lm

# A hundred million events: without sanitizers.
$(BUILD)/tests/bias_test: selftests/core/bias_test.c selftests/core/reader.h $(THROTTLE_SOURCES) daemon/profile/confidence.c $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^) -lm

$(BUILD)/tests/bytes_bias_test: selftests/core/bytes_bias_test.c selftests/core/reader.h $(THROTTLE_SOURCES) daemon/profile/confidence.c $(STACKS_SOURCES) $(LIB_HEADERS) $(DAEMON_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^) -lm

$(BUILD)/tests/sampling_interval_test: selftests/core/sampling_interval_test.c selftests/core/reader.h $(THROTTLE_SOURCES) $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^) -lm

$(BUILD)/tests/threads_test: selftests/core/threads_test.c $(THROTTLE_SOURCES) $(LIB_HEADERS) $(TEST_DEPS)
	$(CLANG) $(TEST_CFLAGS) -Wno-unused-parameter $(CFLAGS) -fsanitize=thread -o $@ $(filter %.c,$^)

# core/ with an os.h of their own, in which threads change at each shared access.
EXPLORED_CFLAGS := -include selftests/core/os_explored.h -O2
EXPLORED := selftests/core/explore.c selftests/core/weak.c selftests/core/explore.h selftests/core/weak.h selftests/core/os_explored.h
$(BUILD)/tests/explore_throttle_test: selftests/core/explore_throttle_test.c $(EXPLORED) $(THROTTLE_SOURCES) $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(EXPLORED_CFLAGS) -o $@ $(filter %.c,$^)

$(BUILD)/tests/explore_ring_test: selftests/core/explore_ring_test.c $(EXPLORED) wire/channel.h $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(EXPLORED_CFLAGS) -o $@ $(filter %.c,$^)

# Also the library's table of live samples, with few slots and buckets.
$(BUILD)/tests/explore_live_test: selftests/core/explore_live_test.c selftests/core/atomics_explored.h inside/live.c $(EXPLORED) $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(EXPLORED_CFLAGS) -include selftests/core/atomics_explored.h -DHAB_CHANNEL_LIVE_SLOTS=64u -DHAB_LIVE_BUCKET_BITS=1 -o $@ $(filter %.c,$^)

# Also the library's start of a channel, which the test includes.
$(BUILD)/tests/explore_client_test: selftests/core/explore_client_test.c selftests/core/atomics_explored.h $(EXPLORED) inside/client.c lib/telemetry/heap_channel.c $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(EXPLORED_CFLAGS) -o $@ selftests/core/explore_client_test.c selftests/core/explore.c selftests/core/weak.c

$(BUILD)/tests/explore_refill_test: selftests/core/explore_refill_test.c $(EXPLORED) core/hierarchy/hierarchy.c core/hierarchy/refill.c core/hierarchy/free_extents.c $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(EXPLORED_CFLAGS) -o $@ $(filter %.c,$^)

# Also the library's lists of free chunks, with modelled sections.
$(BUILD)/tests/explore_lists_test: selftests/core/explore_lists_test.c selftests/core/rseq_explored.h lib/alloc/lists.c lib/alloc/lists_collect.c lib/alloc/trim.c $(EXPLORED) $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(EXPLORED_CFLAGS) -include selftests/core/rseq_explored.h -DHAB_CLASSES=2u -DHAB_LEAST_EXTENT=80u -D'HAB_LEAST_RETURN(arena)=140u' -DHAB_TRIM_CLOCK=explored_clock -o $@ $(filter %.c,$^)

PENDING_SOURCES := daemon/collect/pending.c $(STACKS_SOURCES)
$(BUILD)/tests/stacks_test: selftests/daemon/stacks_test.c $(STACKS_SOURCES) $(DAEMON_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(SANITIZE) -o $@ $(filter %.c,$^) -lm

$(BUILD)/tests/interval_test: selftests/daemon/interval_test.c daemon/profile/confidence.c $(STACKS_SOURCES) $(DAEMON_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^) -lm

$(BUILD)/tests/give_socket_test: selftests/daemon/give_socket_test.c daemon/shared/util.c $(DAEMON_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(SANITIZE) -o $@ $(filter %.c,$^)

$(BUILD)/tests/binaries_test: selftests/daemon/binaries_test.c $(addprefix daemon/,collect/binaries.c collect/interpreter_names.c shared/limits.c collect/perf_map.c shared/elf_reader.c shared/util.c) $(DAEMON_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(SANITIZE) -o $@ $(filter %.c,$^) -lelf

$(BUILD)/tests/durations_test: selftests/daemon/durations_test.c daemon/shared/util.c $(DAEMON_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(SANITIZE) -o $@ $(filter %.c,$^)

$(BUILD)/tests/names_test: selftests/daemon/names_test.c $(addprefix daemon/,collect/interpreter_names.c shared/limits.c shared/util.c) $(DAEMON_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(SANITIZE) -o $@ $(filter %.c,$^)

PROCESSES_SOURCES := $(addprefix daemon/,collect/binaries.c collect/interpreter_names.c shared/limits.c collect/perf_map.c collect/mappings.c collect/maps_reader.c collect/process_maps.c shared/elf_reader.c shared/util.c)
$(BUILD)/tests/processes_test: selftests/daemon/processes_test.c selftests/fuzz/elf_file.h $(PROCESSES_SOURCES) $(DAEMON_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(SANITIZE) -o $@ $(filter %.c,$^) -lelf

$(BUILD)/tests/perf_map_test: selftests/daemon/perf_map_test.c daemon/collect/perf_map.c daemon/collect/perf_map.h daemon/shared/util.c $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(SANITIZE) -o $@ $(filter %.c,$^)

$(BUILD)/tests/reduce_test: selftests/daemon/reduce_test.c daemon/profile/reduce.c daemon/profile/profile.c daemon/shared/util.c $(DAEMON_BUILD)/entries.h $(DAEMON_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) -Wno-unused-parameter -I$(DAEMON_BUILD) $(CFLAGS) $(SANITIZE) -o $@ $(filter %.c,$^)

$(BUILD)/tests/sites_test: selftests/daemon/sites_test.c daemon/profile/profile.c daemon/shared/util.c $(DAEMON_BUILD)/entries.h $(DAEMON_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) -Wno-unused-parameter -I$(DAEMON_BUILD) $(CFLAGS) $(SANITIZE) -o $@ $(filter %.c,$^)

$(BUILD)/tests/rss_test: selftests/daemon/rss_test.c daemon/habd/state/rss.c daemon/shared/util.c $(DAEMON_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^)

$(BUILD)/tests/claims_test: selftests/daemon/claims_test.c $(filter-out %/habd/habd.o,$(HABD_OBJECTS)) $(DAEMON_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) -Wno-unused-parameter $(CFLAGS) -o $@ $(filter %.c %.o,$^) $$($(PKG_CONFIG) --libs $(HABD_LIBS)) -lm -liberty

$(BUILD)/tests/timeline_test: selftests/daemon/timeline_test.c daemon/habd/state/timeline.c $(STACKS_SOURCES) $(DAEMON_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) -Wno-unused-parameter $(CFLAGS) $(SANITIZE) -o $@ $(filter %.c,$^) -lm

$(BUILD)/tests/pending_test: selftests/daemon/pending_test.c $(PENDING_SOURCES) $(DAEMON_HEADERS) $(BPF_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(SANITIZE) -o $@ $(filter %.c,$^) -lm

$(BUILD)/tests/%_test_asan: selftests/lib/%_test.c $(LIB_SOURCES) $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(SANITIZE) -o $@ $(filter %.c,$^)

# The same by the other compiler: the sections are its assembly then.
$(BUILD)/tests/lib_test_clang $(BUILD)/tests/region_test_clang: $(BUILD)/tests/%_clang: selftests/lib/%.c $(LIB_SOURCES) $(LIB_HEADERS) $(TEST_DEPS)
	$(CLANG) $(TEST_CFLAGS) -Wno-unused-parameter $(CFLAGS) -o $@ $(filter %.c,$^)

# For a processor without sections, by itself: it is run by an emulator.
RISCV64_TESTS := $(addprefix $(BUILD)/tests/,region_test_riscv64 config_test_riscv64)
$(RISCV64_TESTS): $(BUILD)/tests/%_riscv64: selftests/lib/%.c $(LIB_SOURCES) $(LIB_HEADERS) $(TEST_DEPS)
	riscv64-linux-gnu-gcc $(TEST_CFLAGS) $(CFLAGS) -static -o $@ $(filter %.c,$^)

$(BUILD)/tests/stress_test_clang: $(STRESS_SOURCES) selftests/lib/inject.h $(LIB_HEADERS) $(TEST_DEPS)
	$(CLANG) $(TEST_CFLAGS) -Wno-unused-parameter $(CFLAGS) $(STRESS_CFLAGS) -o $@ $(STRESS_SOURCES)

$(addprefix $(BUILD)/tests/,lib_test cid_test config_test layouts_test sandbox_test unwind_test region_test trim_test): $(BUILD)/tests/%_test: selftests/lib/%_test.c $(BUILD)/libhab.a $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $< $(BUILD)/libhab.a

$(BUILD)/tests/cpu_check_test: selftests/lib/cpu_check_test.c lib/rseq/cpu_check.h $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $<

# Of arm64: return addresses are signed.
$(BUILD)/tests/unwind_signed_test: selftests/lib/unwind_test.c $(LIB_SOURCES) $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -mbranch-protection=standard -o $@ $(filter %.c,$^)

# Plugins with a library of their own, and their host, whose rpath is a folder of one test.
PLUGINS := $(addprefix $(BUILD)/tests/,plugin.so another_plugin.so)
$(PLUGINS): selftests/lib/plugin.c selftests/lib/plugin.h $(BUILD)/libhab.a | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -fPIC -shared -o $@ $< $(BUILD)/libhab.a

$(BUILD)/tests/waiting_plugin.so: selftests/lib/plugin.c selftests/lib/plugin.h $(LIB_SHARED) | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -DPLUGIN_CONSTRUCTOR -fPIC -shared -o $@ $< -L$(BUILD) -lhab -Wl,-rpath,$(abspath $(BUILD))

$(BUILD)/tests/plugin_test: selftests/lib/plugin_test.c selftests/lib/plugin.h $(PLUGINS) $(BUILD)/tests/waiting_plugin.so $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -Wl,-rpath,. -o $@ $<

# The trial of sections, and with sections that go on after a signal, and after membarrier().
TRIAL_CFLAGS :=
$(addprefix $(BUILD)/tests/,trial_test trial_seeded_test trial_barrier_test): selftests/lib/trial_test.c $(LIB_SOURCES) $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(TRIAL_CFLAGS) -o $@ $(filter %.c,$^)
$(BUILD)/tests/trial_seeded_test: TRIAL_CFLAGS += -DHAB_TRIAL_SEEDED
$(BUILD)/tests/trial_barrier_test: TRIAL_CFLAGS += -DHAB_TRIAL_SEEDED_BARRIER

$(BUILD)/tests/tolerant_test: selftests/lib/tolerant_test.c bench/programs/tolerant.c bench/programs/tolerant.h $(BUILD)/libhab.a $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^) $(BUILD)/libhab.a

$(BUILD)/tests/usdt_test $(BUILD)/tests/sampler_test: $(BUILD)/tests/%: selftests/lib/%.c selftests/lib/probes.h $(BUILD)/libhab.a $(LIB_SHARED) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $< $(BUILD)/libhab.a -lelf -lm

$(BUILD)/tests/preload_probes_test: selftests/lib/preload_probes_test.c selftests/lib/probes.h selftests/malloc/own_channel.h $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) -O1 -fno-builtin $(CFLAGS) -o $@ $< -lelf -lm

$(BUILD)/tests/draws_test: selftests/lib/draws_test.c selftests/lib/inject_draw.h selftests/lib/roll.h selftests/malloc/collector.h daemon/collect/in_use.c daemon/shared/util.c $(LIB_SOURCES) $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -include selftests/lib/inject_draw.h -o $@ $(filter %.c,$^) -lm

$(BUILD)/tests/channel_target: selftests/lib/channel_target.c $(BUILD)/libhab.a | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) -O1 -g -fno-builtin -fno-optimize-sibling-calls -o $@ $^

$(BUILD)/tests/channel_library.so: selftests/lib/channel_library.c | $(BUILD)/tests
	$(CC) $(CFLAGS) -shared -fPIC -o $@ $^

$(BUILD)/tests/channel_test: selftests/lib/channel_test.c selftests/malloc/collector.h daemon/collect/in_use.c daemon/shared/util.c $(addprefix $(BUILD)/tests/,channel_target channel_library.so) $(MALLOC_SHARED) $(LIB_HEADERS) $(DAEMON_HEADERS) $(BPF_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^) -lm

$(BUILD)/tests/stress_test: $(STRESS_SOURCES) selftests/lib/inject.h $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(STRESS_CFLAGS) -o $@ $(STRESS_SOURCES)

# Real libraries on regions.
$(BUILD)/tests/adapters_test: selftests/lib/adapters_test.c $(wildcard lib/adapters/*) $(BUILD)/libhab.a $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(SANITIZE) $$($(PKG_CONFIG) --cflags lua5.4) -o $@ $< $(BUILD)/libhab.a \
		-ljansson -lexpat $$($(PKG_CONFIG) --libs lua5.4)

$(BUILD)/tests/pmr_test: selftests/lib/pmr_test.cc lib/adapters/hab_pmr.hpp $(BUILD)/libhab.a $(TEST_DEPS)
	$(CXX) -std=c++17 -Wall -Wextra -Werror -pthread $(CFLAGS) $(SANITIZE) -iquote . -Ilib -o $@ $< $(BUILD)/libhab.a

$(BUILD)/tests/region_stress_test: selftests/lib/region_stress_test.c $(LIB_SOURCES) selftests/lib/inject.h $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(STRESS_CFLAGS) -o $@ $(filter %.c,$^)

# The sanitizer does not see sections: every chunk goes through the heap's lists.
$(BUILD)/tests/region_stress_test_tsan: selftests/lib/region_stress_test.c $(LIB_SOURCES) $(LIB_HEADERS) $(TEST_DEPS)
	$(CLANG) $(TEST_CFLAGS) -Wno-unused-parameter $(CFLAGS) -DHAB_NO_RSEQ -fsanitize=thread -o $@ $(filter %.c,$^)

$(BUILD)/tests/stress_blind: $(STRESS_SOURCES) selftests/lib/inject.h $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(STRESS_CFLAGS) -DHAB_RSEQ_NO_CPU_CHECK -o $@ $(STRESS_SOURCES)

$(BUILD)/tests/stress_untried: $(STRESS_SOURCES) selftests/lib/inject.h $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(STRESS_CFLAGS) -DHAB_RSEQ_NO_TRIAL -o $@ $(STRESS_SOURCES)

$(addprefix $(BUILD)/tests/,hotplug_test churn_stop_test churn_move_test): $(BUILD)/tests/%: selftests/module/%.c selftests/module/churn.h lib/alloc/chunk.c $(INJECTED) selftests/lib/inject.h $(LIB_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) $(STRESS_CFLAGS) -o $@ $< lib/alloc/chunk.c $(INJECTED)

$(addprefix $(BUILD)/tests/,abi_test abi_memory_test full_heap_test): $(BUILD)/tests/%: selftests/module/%.c selftests/module/abi.h selftests/module/raw.h uapi/hab.h $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $<

$(BUILD)/tests/fail_test: selftests/module/fail_test.c selftests/module/fail_steps.c selftests/module/fail_steps.h uapi/hab.h $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^)

$(addprefix $(BUILD)/tests/,hostile_test hostile_limits_test churn_unload_test): $(BUILD)/tests/%: selftests/module/%.c selftests/module/hostile.h selftests/module/namespaces.h selftests/module/raw.h uapi/hab.h $(BUILD)/libhab.a $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $< $(BUILD)/libhab.a

FUZZ_SOURCES := $(addprefix selftests/module/,fuzz_test.c fuzz_attacker.c fuzz_ioctl.c fuzz_memory.c \
	fuzz_outside.c fuzz_process.c fuzz_table.c fuzz_regular.c)
$(BUILD)/tests/fuzz_test: $(FUZZ_SOURCES) selftests/module/fuzz.h uapi/hab.h $(BUILD)/libhab.a $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $(FUZZ_SOURCES) $(BUILD)/libhab.a

$(BUILD)/tests/telemetry_test $(BUILD)/tests/throttle_vm_test $(BUILD)/tests/events_test: $(BUILD)/tests/%: selftests/telemetry/%.c selftests/telemetry/telemetry.h selftests/module/namespaces.h $(BUILD)/hab.skel.h $(BUILD)/libhab.a $(BPF_HEADERS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) -I$(BUILD) $(CFLAGS) -o $@ $< $(BUILD)/libhab.a -lbpf -lm

$(BUILD)/tests/keep_heap_open: selftests/module/keep_heap_open.c $(BUILD)/libhab.a | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $< $(BUILD)/libhab.a

# As programs have it: by the dynamic linker, and within.
$(BUILD)/tests/probed: selftests/telemetry/probed.c $(LIB_SHARED) | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -fno-omit-frame-pointer -o $@ $< -L$(BUILD) -lhab

$(BUILD)/tests/promised: selftests/telemetry/promised.c | $(BUILD)/tests
	$(CC) $(CFLAGS) -o $@ $<

$(BUILD)/tests/probed_static: selftests/telemetry/probed.c $(BUILD)/libhab.a | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -fno-omit-frame-pointer -o $@ $< $(BUILD)/libhab.a

# A program whose own allocator has probes, and nothing of hab.
tests host-tests gate-tests: $(BUILD)/tests/sdt_program
$(BUILD)/tests/sdt_program: selftests/telemetry/sdt_program.c | $(BUILD)/tests
	$(CC) -std=gnu11 -D_GNU_SOURCE -O2 -g -fno-omit-frame-pointer -Wall -Wextra -Werror -static -o $@ $< -lm

# Programs whose growth is known.
GROWERS := $(addprefix $(BUILD)/tests/,leaker grower grower_static $(if $(shell command -v musl-gcc),grower_musl) $(if $(shell command -v go),grower_go))
tests host-tests gate-tests: $(GROWERS)
GROWER_CFLAGS := -std=gnu11 -D_GNU_SOURCE -O1 -fno-omit-frame-pointer -Wall -Wextra -Werror
$(BUILD)/tests/leaker: selftests/telemetry/leaker.c | $(BUILD)/tests
	$(CC) $(GROWER_CFLAGS) -o $@ $<
$(BUILD)/tests/grower $(BUILD)/tests/grower_static: selftests/telemetry/grower.c | $(BUILD)/tests
	$(CC) $(GROWER_CFLAGS) $(if $(findstring static,$@),-static) -o $@ $<
$(BUILD)/tests/grower_musl: selftests/telemetry/grower.c | $(BUILD)/tests
	musl-gcc $(GROWER_CFLAGS) -o $@ $<
$(BUILD)/tests/grower_go: selftests/telemetry/grower.go | $(BUILD)/tests
	CGO_ENABLED=0 GOCACHE=$(abspath $(BUILD))/go-cache go build -o $@ $<

$(BUILD)/tests/json_server: selftests/demo/json_server.c $(BUILD)/libhab.a | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $< $(BUILD)/libhab.a -l:libjansson.a

$(BUILD)/tests/make_records: selftests/daemon/make_records.c daemon/shared/kinds.c daemon/shared/util.c selftests/replay/replay.h wire/record.h uapi/hab.h | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^)

# habd that reads its records from a file.
$(BUILD)/habd_replay: selftests/replay/habd_replay.c selftests/replay/replay_feed.c selftests/replay/replay.h daemon/habd/habd.c $(filter-out %/habd/habd.o,$(HABD_OBJECTS)) $(DAEMON_HEADERS)
	$(CC) $(CFLAGS) $(DAEMON_CFLAGS) $(LDFLAGS) -o $@ $(filter-out daemon/%,$(filter %.c,$^)) $(filter %.o,$^) $$($(PKG_CONFIG) --libs $(HABD_LIBS)) -lm -liberty

$(BUILD)/tests/channel_program: selftests/daemon/channel_program.c selftests/daemon/looked_at.h wire/channel.h wire/record.h | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) -D_GNU_SOURCE $(CFLAGS) -o $@ $<

$(BUILD)/tests/replay_gen: selftests/daemon/replay_gen.c selftests/replay/replay.h wire/record.h uapi/hab.h | $(BUILD)/tests
	$(CC) -D_GNU_SOURCE -g -O1 -Wall -Wextra -Werror -fasynchronous-unwind-tables -iquote . \
		-Wl,--build-id -o $@ $<

$(BUILD)/tests/symbols_target: selftests/daemon/symbols_target.cc | $(BUILD)/tests
	$(CXX) -O1 -g -Wall -Wextra -Werror -fno-omit-frame-pointer -Wl,--build-id -o $@ $<

$(BUILD)/tests/map_file $(BUILD)/tests/slow_clients $(BUILD)/tests/make_symbols $(BUILD)/tests/renamed: $(BUILD)/tests/%: selftests/daemon/%.c | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $<

$(BUILD)/tests/find_lines: selftests/daemon/find_lines.c $(call daemon_objects,$(addprefix daemon/,collect/symbol_file collect/source_lines collect/perf_map collect/demangle shared/util)) | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $^ -ldw -lelf -lz -liberty

$(BUILD)/tests/make_inputs: selftests/fuzz/make_inputs.c selftests/fuzz/elf_file.h selftests/fuzz/fuzz.h daemon/shared/util.c selftests/replay/replay.h wire/record.h uapi/hab.h | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^) -lz

$(BUILD)/tests/churn: selftests/telemetry/churn.c $(BUILD)/libhab.a | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $< $(BUILD)/libhab.a

$(addprefix $(BUILD)/tests/fake_python_,13 13_free 14): $(BUILD)/tests/fake_python_%: selftests/python/fake_python.c | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -rdynamic -DMINOR=$(*:_free=) -DFREE=$(if $(findstring _free,$*),1,0) -o $@ $<

$(BUILD)/tests/embedded: selftests/python/embedded.c | $(BUILD)/tests
	$(CC) -O1 -g -Wall -Werror $$($(PKG_CONFIG) --cflags python3-embed) -o $@ $< $$(pkg-config --libs python3-embed)

# The truth test: programs that count what their functions allocate.
$(BUILD)/tests/brass $(BUILD)/tests/zinc: $(BUILD)/tests/%: selftests/telemetry/truth_program.c $(BUILD)/libhab.a | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -DPROGRAM=$* $(if $(filter brass,$*),-DLARGE) -Wl,--build-id -o $@ $< $(BUILD)/libhab.a

# The adversary test: three honest programs, whose functions have names of their own, and one that
# attacks habd by one strategy at a time.
$(addprefix $(BUILD)/tests/,copper silver tin): $(BUILD)/tests/%: selftests/adversary/honest.c $(BUILD)/libhab.a | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -DPROGRAM=$* -Wl,--build-id -o $@ $< $(BUILD)/libhab.a

$(BUILD)/tests/adversary: $(addprefix selftests/adversary/,adversary.c heaps.c files.c elf.c clients.c fuse.c channel.c claiming.c collector.c sockets.c samples.c mapped.c scan.c adversary.h channel.h) $(call daemon_objects,daemon/habd/parts/part $(SHARED)) selftests/fuzz/elf_file.h selftests/module/raw.h wire/record.h wire/channel.h uapi/hab.h $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $(filter %.c %.o,$^) $$($(PKG_CONFIG) --libs $(HABD_LIBS)) -lm

# The owners' test: honest programs that are watched by the preload library, what they are watched
# beside, and a clock that jumps.
$(addprefix $(BUILD)/tests/,copper_owned silver_owned tin_owned): $(BUILD)/tests/%_owned: selftests/adversary/owned.c | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) -O1 -fno-builtin -DPROGRAM=$* -Wl,--build-id -o $@ $<

# At an address that anybody knows.
$(BUILD)/tests/hidden: selftests/adversary/hidden.c | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) -O1 -no-pie -fno-pie -Wl,--build-id -o $@ $<

$(BUILD)/tests/opened: selftests/adversary/opened.c | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $<

$(BUILD)/tests/clock_jump.so: selftests/adversary/clock_jump.c | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -fPIC -shared -o $@ $<

$(BUILD)/tests/profile_check: selftests/adversary/profile_check.c $(COMMON_OBJECTS) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $(filter %.c %.o,$^) $$($(PKG_CONFIG) --libs $(HABCTL_LIBS)) -lm

# The preload library. The compiler must not leave out calls of the allocator.
$(BUILD)/tests/malloc_target: $(addprefix selftests/malloc/,target_sites.c target_ways.c target_growth.c target_pages.c target_sites.h)
$(BUILD)/tests/malloc_target $(BUILD)/tests/malloc_figures: selftests/malloc/own_channel.h wire/channel.h
$(addprefix $(BUILD)/tests/malloc_,target calls sparse made_code figures): $(BUILD)/tests/malloc_%: selftests/malloc/%.c | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) -O1 -g -fno-builtin -Wno-alloc-size-larger-than -o $@ $(filter %.c,$^)

# Programs of another C library, which has no pvalloc().
ifneq ($(shell command -v musl-gcc),)
$(BUILD)/tests/malloc_calls_test: $(BUILD)/tests/malloc_calls_musl
endif
$(BUILD)/tests/malloc_calls_musl: selftests/malloc/calls.c | $(BUILD)/tests
	musl-gcc -std=gnu11 -O1 -g -fno-builtin -Dpvalloc=valloc -o $@ $<

# With the library by its name, since its header is in a package of its own.
$(BUILD)/tests/malloc_allocx: selftests/malloc/allocx.c | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) -O1 -g -fno-builtin -o $@ $< -l:libjemalloc.so.2

# The C library stands before it.
$(BUILD)/tests/malloc_allocx_behind: selftests/malloc/allocx.c | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) -O1 -g -fno-builtin -o $@ $< -Wl,--no-as-needed -lc -l:libjemalloc.so.2

tests host-tests gate-tests: $(BUILD)/tests/malloc_leaks
$(BUILD)/tests/malloc_leaks: selftests/malloc/leaks.cc | $(BUILD)/tests
	$(CXX) -std=c++17 -O2 -g -Wall -Wextra -Werror -o $@ $<

$(BUILD)/tests/malloc_news: selftests/malloc/news.cc | $(BUILD)/tests
	$(CXX) -std=c++17 -O1 -g -Wall -Wextra -Werror -o $@ $<

$(addprefix $(BUILD)/tests/malloc_,plugin.so bump.so): $(BUILD)/tests/malloc_%.so: selftests/malloc/%.c | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) -O1 -g -fno-builtin -fPIC -shared -o $@ $<

# The preload library with the bug of inject_draw.h.
$(BUILD)/tests/malloc_draws.so: $(MALLOC_SOURCES) inside/malloc/libhab-malloc.map $(LIB_HEADERS) | $(BUILD)/tests
	$(CC) $(HAB_CFLAGS) $(LIB_CFLAGS) $(MALLOC_CFLAGS) -iquote . $(CFLAGS) '-DHAB_INJECT_DRAW(thread, sampling)=true' \
		-shared -Wl,--version-script=inside/malloc/libhab-malloc.map -Wl,-z,nodelete -o $@ $(MALLOC_SOURCES)

$(BUILD)/tests/malloc_draws_test: $(BUILD)/tests/malloc_draws.so

# Programs that are easily harmed, and their plugins.
HARM := $(addprefix $(BUILD)/tests/malloc_,harm harm_family.so harm_own.so harm_waits.so harm_pool.so harm_std.so)
HARM_SOURCES := $(addprefix selftests/malloc/,harm.c harm_plugins.c harm_stacks.c harm_family.c)
$(BUILD)/tests/malloc_harm: $(HARM_SOURCES) selftests/malloc/harm.h | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) -O1 -g -fno-builtin -Wl,-z,now -o $@ $(HARM_SOURCES) -ldl

# With the sanitizers' shared runtimes.
HARM_SANITIZED := $(addprefix $(BUILD)/tests/malloc_harm_,address leak thread)
$(HARM_SANITIZED): $(BUILD)/tests/malloc_harm_%: $(HARM_SOURCES) selftests/malloc/harm.h | $(BUILD)/tests
	gcc $(TEST_CFLAGS) -O1 -g -fno-builtin -fsanitize=$* -o $@ $(HARM_SOURCES) -ldl

$(addprefix $(BUILD)/tests/malloc_harm_,family.so own.so): $(BUILD)/tests/malloc_%.so: selftests/malloc/%.c selftests/malloc/harm.h | $(BUILD)/tests
	$(CC) $(TEST_CFLAGS) -O1 -g -fno-builtin -fPIC -shared -o $@ $<

$(BUILD)/tests/malloc_harm_waits.so: selftests/malloc/harm_waits.cc | $(BUILD)/tests
	$(CXX) -std=c++17 -O1 -g -Wall -Wextra -Werror -pthread -fPIC -shared -o $@ $<

$(BUILD)/tests/malloc_harm_pool.so: CXXFLAGS += -DPOOL
$(BUILD)/tests/malloc_harm_pool.so $(BUILD)/tests/malloc_harm_std.so: selftests/malloc/harm_operators.cc | $(BUILD)/tests
	$(CXX) -std=c++17 -O1 -g -Wall -Wextra -Werror $(CXXFLAGS) -fPIC -shared -o $@ $<

$(BUILD)/tests/malloc_harm_test: $(HARM) $(HARM_SANITIZED)
$(BUILD)/tests/malloc_in_use_test: daemon/profile/confidence.c
$(addprefix $(BUILD)/tests/malloc_,channel_test draws_test calls_test harm_test in_use_test collect): $(BUILD)/tests/malloc_%: selftests/malloc/%.c selftests/malloc/collector.h daemon/collect/in_use.c daemon/shared/util.c $(LIB_HEADERS) $(DAEMON_HEADERS) $(BPF_HEADERS) $(addprefix $(BUILD)/tests/malloc_,target calls sparse allocx allocx_behind news plugin.so bump.so) $(MALLOC_SHARED) $(TEST_DEPS)
	$(CC) $(TEST_CFLAGS) $(CFLAGS) -o $@ $(filter %.c,$^) -lm

# Attaching to programs that run, which is for x86-64.
ATTACH_OBJECTS := $(call daemon_objects,$(ATTACH) $(addprefix daemon/shared/,program elf_reader util file_message))
ATTACH_TESTS := $(addprefix $(BUILD)/tests/,attach_storm attach_plugin.so attach_cycles attach_known attach_static attach_filtered attach_traced attach_habits attach_ptrace_shim.so attach_slow_list_shim.so \
	attach_steps $(if $(shell command -v musl-gcc),attach_musl))
ATTACH_TESTS := $(if $(filter %/x86_64,$(MACHINE)),$(ATTACH_TESTS))
HOST_TESTS += $(ATTACH_TESTS)
host-tests gate-tests: $(ATTACH_TESTS)
$(BUILD)/tests/attach_storm: selftests/attach/storm.cc | $(BUILD)/tests
	$(CXX) -std=c++17 -O1 -g -Wall -Wextra -Werror -fopenmp -pthread -o $@ $< -ldl
$(BUILD)/tests/attach_plugin.so $(BUILD)/tests/attach_ptrace_shim.so $(BUILD)/tests/attach_slow_list_shim.so: $(BUILD)/tests/attach_%.so: selftests/attach/%.c | $(BUILD)/tests
	$(CC) -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -fPIC -shared -o $@ $<
$(BUILD)/tests/attach_cycles: selftests/attach/cycles.c $(ATTACH_OBJECTS) $(DAEMON_HEADERS)
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -iquote . -o $@ $< $(ATTACH_OBJECTS) -ldw -lelf -pthread
$(BUILD)/tests/attach_known $(BUILD)/tests/attach_filtered $(BUILD)/tests/attach_traced $(BUILD)/tests/attach_habits $(BUILD)/tests/attach_steps: $(BUILD)/tests/attach_%: selftests/attach/%.c selftests/attach/steps.h | $(BUILD)/tests
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -fno-builtin -o $@ $< -pthread -ldl
$(BUILD)/tests/attach_static: selftests/attach/traced.c | $(BUILD)/tests
	$(CC) -std=gnu11 -D_GNU_SOURCE -O1 -static -o $@ $<
$(BUILD)/tests/attach_musl: selftests/attach/traced.c | $(BUILD)/tests
	musl-gcc -D_GNU_SOURCE -O1 -o $@ $<
