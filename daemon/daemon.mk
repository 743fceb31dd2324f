# SPDX-License-Identifier: GPL-2.0-only
#
# habd, habctl and habrun. Included by the top Makefile, run from the top folder. Uses CC,
# CFLAGS, LDFLAGS and BUILD, and the rule for $(BUILD)/*.skel.h in bpf/bpf.mk.
#
# Target: daemon (the programs). SHARED, PROFILE, COLLECT, HABD, HABCTL, HABRUN and ATTACH are
# sources without .c; daemon_objects gives their objects, each in its source's folder below
# build/.

BUILD ?= build
DAEMON_BUILD := $(BUILD)/daemon
PKG_CONFIG ?= pkg-config
PROTOC_C ?= protoc-c

HABD_LIBS := libbpf libdw libdebuginfod libelf libprotobuf-c libmicrohttpd libmnl libsystemd libcap jansson zlib
HABRUN_LIBS := libdw libdebuginfod libelf libprotobuf-c zlib
HABCTL_LIBS := libcurl libelf jansson ncursesw libprotobuf-c zlib

sources = $(basename $(wildcard $(1:%=daemon/%/*.c)))
SHARED := $(call sources,shared)
PROFILE := $(call sources,profile profile/formats)
COLLECT := $(call sources,collect)
HISTORY_READER := $(addprefix daemon/habd/history/,files end_files reader time)
HABD := $(call sources,habd habd/broker habd/history habd/http habd/kernel habd/parts habd/state)
HABCTL := $(call sources,habctl)
HABRUN := $(call sources,habrun)
# What attaching knows of the architecture.
MACHINE := $(or $(basename $(wildcard daemon/attach/$(firstword $(subst -, ,$(MACHINE_TRIPLET))).c)),daemon/attach/other)
ATTACH := $(filter-out daemon/attach/x86_64 daemon/attach/other,$(call sources,attach)) $(MACHINE)

daemon_objects = $(patsubst %,$(BUILD)/%.o,$(1))
PB := $(DAEMON_BUILD)/profile.pb-c
WEB_GRAPH := $(DAEMON_BUILD)/web_graph
WEB_PAGE := $(DAEMON_BUILD)/web_page
COMMON_OBJECTS := $(call daemon_objects,$(SHARED) $(PROFILE)) $(PB).o $(WEB_GRAPH).o
HABD_OBJECTS := $(COMMON_OBJECTS) $(call daemon_objects,$(COLLECT) $(HABD)) $(WEB_PAGE).o
HABRUN_OBJECTS := $(COMMON_OBJECTS) $(call daemon_objects,$(COLLECT) $(HABRUN) $(ATTACH))
HABCTL_OBJECTS := $(COMMON_OBJECTS) $(call daemon_objects,$(HISTORY_READER) $(HABCTL))

DAEMON_CFLAGS := -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wmissing-prototypes -Werror \
	-Wno-missing-field-initializers -Wno-unused-parameter \
	-pthread -I$(BUILD) -I$(DAEMON_BUILD) -iquote .
DAEMON_CFLAGS += $(shell $(PKG_CONFIG) --cflags $(HABD_LIBS) $(HABCTL_LIBS))

.PHONY: daemon habrun
daemon: $(BUILD)/habd $(BUILD)/habctl $(BUILD)/habrun
habrun: lib $(BUILD)/habctl $(BUILD)/habrun

$(DAEMON_BUILD):
	mkdir -p $@

$(DAEMON_BUILD)/profile.pb-c.c $(DAEMON_BUILD)/profile.pb-c.h &: daemon/profile/formats/profile.proto | $(DAEMON_BUILD)
	$(PROTOC_C) --proto_path=daemon/profile/formats --c_out=$(DAEMON_BUILD) profile.proto

# The library that draws the charts, with its licence.
CHART_FILES := $(DAEMON_BUILD)/chart.js $(DAEMON_BUILD)/chart.css
$(CHART_FILES): $(DAEMON_BUILD)/chart.%: scripts/npm-package | $(DAEMON_BUILD)
	package=$$(scripts/npm-package uplot) && { echo '/*' && \
		tar -xzO -f "$$package" package/LICENSE | tr -d '\r' && echo '*/' && \
		tar -xzO -f "$$package" package/dist/uPlot$(if $(filter js,$*),.iife).min.$*; } >$@.new
	mv $@.new $@

# Files of the page and of flame graphs as C strings.
GRAPH_FILES := $(addprefix daemon/profile/formats/,flame.html graph.css)
PAGE_FILES := $(wildcard daemon/habd/web/*.html daemon/habd/web/*.css daemon/habd/web/*.js) $(CHART_FILES)
$(WEB_GRAPH).c: $(GRAPH_FILES)
$(WEB_PAGE).c: $(PAGE_FILES)
$(WEB_GRAPH).c $(WEB_PAGE).c: scripts/strings | $(DAEMON_BUILD)
	scripts/strings $(filter-out %/strings,$^) >$@.new
	mv $@.new $@

# The exported functions of libhab, as strings.
$(DAEMON_BUILD)/entries.h: lib/libhab.map | $(DAEMON_BUILD)
	sed -n 's/^\t\(hab_[a-z_]*\);/"\1",/p' $< >$@

# Generated code, compiled without our warnings.
$(PB).o $(WEB_GRAPH).o $(WEB_PAGE).o: %.o: %.c
	$(CC) $(CFLAGS) -iquote . -I$(DAEMON_BUILD) -c -o $@ $<

$(BUILD)/daemon/%.o: daemon/%.c daemon/daemon.mk | $(DAEMON_BUILD)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(DAEMON_CFLAGS) -MMD -MP -c -o $@ $<

# Copied into other programs: it must call nothing.
$(DAEMON_BUILD)/attach/stub.o: DAEMON_CFLAGS += -ffreestanding -fno-stack-protector -fno-jump-tables \
	-fno-sanitize=all -mgeneral-regs-only -fno-tree-loop-distribute-patterns

$(DAEMON_BUILD)/habd/kernel/module_feed.o: $(BUILD)/hab.skel.h
$(DAEMON_BUILD)/habd/kernel/every_process.o: $(BUILD)/every_process.skel.h
$(DAEMON_BUILD)/habd/kernel/prober.o: $(BUILD)/probes.skel.h
$(DAEMON_BUILD)/profile/profile.o: $(DAEMON_BUILD)/entries.h
$(DAEMON_BUILD)/profile/formats/pprof.o $(DAEMON_BUILD)/profile/read.o: $(PB).h

$(BUILD)/habd: $(HABD_OBJECTS)
	$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $^ $$($(PKG_CONFIG) --libs $(HABD_LIBS)) -lm -liberty

$(BUILD)/habctl: $(HABCTL_OBJECTS) $(BUILD)/libhab.a
	$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $^ $$($(PKG_CONFIG) --libs $(HABCTL_LIBS)) -lm

$(BUILD)/habrun: $(HABRUN_OBJECTS)
	$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $^ $$($(PKG_CONFIG) --libs $(HABRUN_LIBS)) -lm -liberty

-include $(patsubst %.o,%.d,$(HABD_OBJECTS) $(HABRUN_OBJECTS) $(HABCTL_OBJECTS))
