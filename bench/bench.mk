# SPDX-License-Identifier: GPL-2.0-only
# The programs of the experiments. Target: bench-programs.

BENCH_CFLAGS = $(filter-out -fPIC,$(HAB_CFLAGS)) -O2 -g -fPIE
BENCH_HEADERS := $(wildcard bench/programs/*.h) $(LIB_HEADERS)
BENCH_PROGRAMS := $(addprefix $(BUILD)/bench/,arenas backends books burst counted faults mechanisms mechanisms-count paced pair replay request-work requests slice trace-summary usage \
	librecord.so attach-count.so)

.PHONY: bench-programs
bench-programs: $(BENCH_PROGRAMS) $(BUILD)/tests/malloc_collect

$(BUILD)/bench/%.o: bench/programs/%.c $(BENCH_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(BENCH_CFLAGS) -iquote . -c -o $@ $<

MECHANISMS := $(addprefix $(BUILD)/bench/,mechanisms.o mechanisms_loops.o \
	mechanisms_report.o operations.o statistics.o)
$(BUILD)/bench/mechanisms: $(MECHANISMS) $(BUILD)/libhab.a
	$(CC) -pthread -o $@ $^

# Runs the library's sections without the kernel's help: for valgrind.
$(BUILD)/bench/mechanisms-count: $(MECHANISMS) $(BUILD)/bench/fake_rseq.o $(BUILD)/libhab.a
	$(CC) -pthread -Wl,--wrap=hab_rseq_attach -o $@ $^

$(BUILD)/bench/arenas: $(addprefix $(BUILD)/bench/,arenas.o statistics.o)
	$(CC) -pthread -o $@ $^

$(BUILD)/bench/counted: $(BUILD)/bench/counted.o $(BUILD)/libhab.a
	$(CC) -pthread -o $@ $^

$(BUILD)/bench/backends: $(addprefix $(BUILD)/bench/,backends.o statistics.o) $(BUILD)/libhab.a
	$(CC) -pthread -o $@ $^

$(BUILD)/bench/books: $(addprefix $(BUILD)/bench/,books.o statistics.o) $(BUILD)/libhab.a
	$(CC) -o $@ $^

REPLAY := $(addprefix $(BUILD)/bench/,replay.o replay_bump.o replay_hab.o replay_malloc.o \
	replay_options.o replay_state.o safepoint.o statistics.o tolerant.o trace.o)
$(BUILD)/bench/replay: $(REPLAY) $(BUILD)/libhab.a
	$(CC) -pthread -o $@ $^

$(BUILD)/bench/%.o: bench/programs/%.cc $(BENCH_HEADERS)
	@mkdir -p $(@D)
	$(CXX) -std=c++17 -Wall -Wextra -Werror -pthread -O2 -g -fPIE -iquote . -c -o $@ $<

$(BUILD)/bench/requests: $(addprefix $(BUILD)/bench/,requests.o requests_pmr.o statistics.o) $(BUILD)/libhab.a
	$(CXX) -pthread -o $@ $^ -ljansson -ldl

$(BUILD)/bench/request-work: $(BUILD)/bench/request_work.o
	$(CC) -o $@ $^ -ljansson -lexpat -lsqlite3

$(BUILD)/bench/paced: $(BUILD)/bench/paced.o $(BUILD)/libhab.a
	$(CC) -pthread -o $@ $^

$(BUILD)/bench/burst: $(addprefix $(BUILD)/bench/,burst.o statistics.o) $(BUILD)/libhab.a
	$(CC) -pthread -o $@ $^

$(BUILD)/bench/faults: $(BUILD)/bench/faults.o
	$(CC) -o $@ $^

$(BUILD)/bench/pair: $(BUILD)/bench/pair.o
	$(CC) -o $@ $^

$(BUILD)/bench/usage: $(BUILD)/bench/usage.o
	$(CC) -o $@ $^

$(BUILD)/bench/slice: $(addprefix $(BUILD)/bench/,slice.o statistics.o) $(BUILD)/libhab.a
	$(CC) -pthread -o $@ $^

$(BUILD)/bench/trace-summary: $(addprefix $(BUILD)/bench/,trace_summary.o trace.o)
	$(CC) -o $@ $^

$(BUILD)/bench/librecord.so: bench/programs/record.c bench/programs/trace.h
	@mkdir -p $(@D)
	$(CC) $(HAB_CFLAGS) -O2 -g -fno-builtin -iquote . -shared -Wl,-soname,librecord.so -o $@ $<

$(BUILD)/bench/attach-count.so: bench/programs/attach_count.c
	@mkdir -p $(@D)
	$(CC) $(HAB_CFLAGS) -O2 -fno-builtin -shared -o $@ $<

# The recorder of Java's objects; only where there is a JDK.
JDK := $(patsubst %/bin/javac,%,$(realpath $(shell command -v javac)))
ifneq ($(wildcard $(JDK)/include/jvmti.h),)
bench-programs: $(BUILD)/bench/librecord-java.so $(BUILD)/bench/java/RecordJavac.class
endif

# Its header is made from the native methods.
$(BUILD)/bench/librecord-java.so: bench/programs/record_java.c bench/programs/trace.h $(BUILD)/bench/java/RecordJavac.class
	$(CC) $(HAB_CFLAGS) -O2 -g -iquote . -I$(BUILD)/bench/java -isystem $(JDK)/include \
		-isystem $(JDK)/include/linux -shared -o $@ $<

$(BUILD)/bench/java/RecordJavac.class: bench/java/RecordJavac.java
	@mkdir -p $(@D)
	$(JDK)/bin/javac -Xlint:all -d $(@D) -h $(@D) $<

# CPython on hab; only where its headers are.
ifeq ($(shell $(PKG_CONFIG) --exists python3-embed && echo yes),yes)
bench-programs gate-tests: $(BUILD)/bench/runtime
endif

RUNTIME := $(addprefix $(BUILD)/bench/,runtime.o runtime_arenas.o)
$(RUNTIME): BENCH_CFLAGS += $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags python3-embed))
$(BUILD)/bench/runtime: $(RUNTIME) $(BUILD)/bench/statistics.o $(BUILD)/libhab.a
	$(CC) -pthread -o $@ $^ $$($(PKG_CONFIG) --libs python3-embed)
