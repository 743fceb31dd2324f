# SPDX-License-Identifier: GPL-2.0-only
#
# habd, habctl and habrun. Included by the top Makefile, run from the top folder. Uses CC,
# CFLAGS, LDFLAGS and BUILD, and the rule for $(BUILD)/*.skel.h in bpf/bpf.mk.
#
# Target: daemon (the programs). Variables: HABD_OBJECTS, HABCTL_OBJECTS, HABRUN_OBJECTS,
# DAEMON_INCLUDES.
#
# Each folder includes from those above it only:
#
#   shared/    text, kinds of events, the module's files
#   symbols/   from addresses to names
#   samples/   from records to the stack table
#   web/       pages, scripts and styles
#   profile/   filters, and profiles of the table in each format
#   feeds/     sources of records
#   channels/  the server of channels
#   parts/     what the processes of habd have in common: memory, messages, snapshots
#   state/     the tables of habd and their locks
#   history/   a profile a minute, and of each process that was ended, on disk
#   http/      the HTTP server
#   broker/    starts the parts, and passes connections and records on to them
#   habd/      the daemon's main program
#   habctl/    the command; of the others it includes shared/, profile/ and history/
#   attach/    starts a thread in a process that runs, which loads the preload library
#   habrun/    the command that profiles one process tree; it includes those up to channels/

BUILD ?= build
DAEMON_BUILD := $(BUILD)/daemon
PKG_CONFIG ?= pkg-config
PROTOC_C ?= protoc-c

HABD_LIBS := libbpf libdw libdebuginfod libelf libprotobuf-c libmicrohttpd libmnl libsystemd libcap jansson zlib
# What attaching knows of the architecture.
MACHINE := $(basename $(notdir $(or $(wildcard daemon/attach/$(firstword $(subst -, ,$(MACHINE_TRIPLET))).c),other.c)))
HABRUN_LIBS := libdw libdebuginfod libelf libprotobuf-c zlib
HABCTL_LIBS := libcurl libelf jansson ncursesw libprotobuf-c zlib

DAEMON_FOLDERS := shared symbols samples profile feeds channels parts state history http broker attach habd habctl habrun
DAEMON_INCLUDES := -iquote .

SHARED_SOURCES := arguments child elf_reader file_message human kinds limits module_files output_files program string_table util
PROFILE_SOURCES := filter profile flame formats confidence profile_pprof profile_jfr jfr
READER_SOURCES := profile_read merge report history_files end_files history_reader history_time
COLLECTOR_SOURCES := $(SHARED_SOURCES) $(PROFILE_SOURCES) \
	ingest in_use pending probe_objects stacks \
	binaries interpreter_names mappings maps_reader process_maps \
	symbols symbol_reader symbol_file debug_fetcher demangle perf_map \
	collect \
	channels hello session
HABD_SOURCES := $(COLLECTOR_SOURCES) $(READER_SOURCES) history_writer ends \
	habd options sockets privilege state rss spans timeline totals missed history_points growth reduce \
	part part_feed snapshots access broker collectors connections routes part_process windows owner_lookup \
	probers prober probe_files \
	module_feed replay_feed no_feed every_process bpf_log \
	http clients counters request response http_json http_status http_machine http_top http_history http_metrics http_part http_profile http_record http_sites http_timeline
HABCTL_SOURCES := $(SHARED_SOURCES) $(PROFILE_SOURCES) \
	habctl habctl_record habctl_report habctl_top habctl_status rss_parts end_list seen \
	http_client filter_options live_profile span_options report_table $(READER_SOURCES)
HABRUN_SOURCES := $(COLLECTOR_SOURCES) habrun attached chosen collector command preload result unseen \
	attach apart borrow safe_point stub target $(MACHINE)

HABD_OBJECTS := $(addprefix $(DAEMON_BUILD)/,$(HABD_SOURCES:=.o) profile.pb-c.o web_graph.o web_page.o)
HABRUN_OBJECTS := $(addprefix $(DAEMON_BUILD)/,$(HABRUN_SOURCES:=.o) profile.pb-c.o web_graph.o)
HABCTL_OBJECTS := $(addprefix $(DAEMON_BUILD)/,$(HABCTL_SOURCES:=.o) profile.pb-c.o web_graph.o)

DAEMON_CFLAGS := -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wmissing-prototypes -Werror \
	-Wno-missing-field-initializers -Wno-unused-parameter \
	-pthread -I$(BUILD) -I$(DAEMON_BUILD) $(DAEMON_INCLUDES)
DAEMON_CFLAGS += $(shell $(PKG_CONFIG) --cflags $(HABD_LIBS) $(HABCTL_LIBS))

.PHONY: daemon habrun
daemon: $(BUILD)/habd $(BUILD)/habctl $(BUILD)/habrun
habrun: lib $(BUILD)/habctl $(BUILD)/habrun

$(DAEMON_BUILD):
	mkdir -p $@

$(DAEMON_BUILD)/profile.pb-c.c $(DAEMON_BUILD)/profile.pb-c.h &: daemon/profile/profile.proto | $(DAEMON_BUILD)
	$(PROTOC_C) --proto_path=daemon/profile --c_out=$(DAEMON_BUILD) profile.proto

# The library that draws the charts, with its licence.
CHART_FILES := $(DAEMON_BUILD)/chart.js $(DAEMON_BUILD)/chart.css
$(CHART_FILES): $(DAEMON_BUILD)/chart.%: scripts/npm-package | $(DAEMON_BUILD)
	package=$$(scripts/npm-package uplot) && { echo '/*' && \
		tar -xzO -f "$$package" package/LICENSE | tr -d '\r' && echo '*/' && \
		tar -xzO -f "$$package" package/dist/uPlot$(if $(filter js,$*),.iife).min.$*; } >$@.new
	mv $@.new $@

# Each file of web/ as a C string: those of flame graphs, and those of the page, for habd alone.
GRAPH_FILES := daemon/web/flame.html daemon/web/graph.css
PAGE_FILES := $(filter-out $(GRAPH_FILES),$(wildcard daemon/web/*.html daemon/web/*.css daemon/web/*.js)) \
	$(CHART_FILES)
$(DAEMON_BUILD)/web_graph.c: $(GRAPH_FILES)
$(DAEMON_BUILD)/web_page.c: $(PAGE_FILES)
$(DAEMON_BUILD)/web_graph.c $(DAEMON_BUILD)/web_page.c: daemon/web/strings | $(DAEMON_BUILD)
	daemon/web/strings $(filter-out %/strings,$^) >$@.new
	mv $@.new $@

# The exported functions of libhab, as strings.
$(DAEMON_BUILD)/entries.h: lib/libhab.map | $(DAEMON_BUILD)
	sed -n 's/^\t\(hab_[a-z_]*\);/"\1",/p' $< >$@

# Generated code, compiled without our warnings.
$(DAEMON_BUILD)/profile.pb-c.o $(DAEMON_BUILD)/web_graph.o $(DAEMON_BUILD)/web_page.o: $(DAEMON_BUILD)/%.o: $(DAEMON_BUILD)/%.c
	$(CC) $(CFLAGS) -iquote . -I$(DAEMON_BUILD) -c -o $@ $<

# Names are unique over all folders. A source that has moved is found by these rules: so the list of
# dependencies has only headers.
define daemon_rule
$(DAEMON_BUILD)/%.o: daemon/$(1)/%.c daemon/daemon.mk | $(DAEMON_BUILD)
	$$(CC) $$(CFLAGS) $$(DAEMON_CFLAGS) -MMD -MP -c -o $$@ $$<
	@sed -i 's| $$(subst .,[.],$$<)||' $$(@:.o=.d)
endef
$(foreach folder,$(DAEMON_FOLDERS),$(eval $(call daemon_rule,$(folder))))

# Copied into other programs: it must call nothing.
$(DAEMON_BUILD)/stub.o: DAEMON_CFLAGS += -ffreestanding -fno-stack-protector -fno-jump-tables \
	-fno-sanitize=all -mgeneral-regs-only -fno-tree-loop-distribute-patterns

$(DAEMON_BUILD)/module_feed.o: $(BUILD)/hab.skel.h
$(DAEMON_BUILD)/every_process.o: $(BUILD)/every_process.skel.h
$(DAEMON_BUILD)/prober.o: $(BUILD)/probes.skel.h
$(DAEMON_BUILD)/profile.o: $(DAEMON_BUILD)/entries.h
$(DAEMON_BUILD)/profile_pprof.o $(DAEMON_BUILD)/profile_read.o: $(DAEMON_BUILD)/profile.pb-c.h

$(BUILD)/habd: $(HABD_OBJECTS)
	$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $^ $$($(PKG_CONFIG) --libs $(HABD_LIBS)) -lm -liberty

$(BUILD)/habctl: $(HABCTL_OBJECTS) $(BUILD)/libhab.a
	$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $^ $$($(PKG_CONFIG) --libs $(HABCTL_LIBS)) -lm

$(BUILD)/habrun: $(HABRUN_OBJECTS)
	$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $^ $$($(PKG_CONFIG) --libs $(HABRUN_LIBS)) -lm -liberty

-include $(wildcard $(DAEMON_BUILD)/*.d)
