# SPDX-License-Identifier: GPL-2.0-only
#
# habd and habctl. Included by the top Makefile, run from the top folder. Uses CC,
# CFLAGS, LDFLAGS and BUILD, and the rule for $(BUILD)/*.skel.h of whoever
# includes it.
#
# Targets: daemon (both programs), daemon-test (tests on the host).
# Variables: HABD_OBJECTS, HABCTL_OBJECTS.

BUILD ?= build
DAEMON_BUILD := $(BUILD)/daemon
PKG_CONFIG ?= pkg-config
PROTOC_C ?= protoc-c

HABD_LIBS := libbpf libdw libdebuginfod libelf libprotobuf-c libmicrohttpd libsystemd libcap jansson zlib
HABCTL_LIBS := libcurl jansson ncursesw libprotobuf-c zlib

HABD_SOURCES := habd options rate kinds filter listen util strings module_files \
	binaries maps symbols demangle stacks stack_past sample_log ingest hold totals numbers \
	bpf_feed usdt_feed libraries bpf_counts bpf_log privilege replay \
	profile profile_parts profile_names profile_events profile_pprof profile_folded profile_svg \
	profile_html profile_jfr jfr jfr_metadata flame sites \
	http peer http_profile http_record http_json http_top http_page metrics
HABCTL_SOURCES := habctl habctl_record habctl_report habctl_top habctl_screen habctl_status \
	habctl_rate host_state rate kinds filter util strings module_files \
	client query output rotation report report_table interval \
	profile_read profile_parts profile_folded profile_svg profile_html flame

HABD_OBJECTS := $(HABD_SOURCES:%=$(DAEMON_BUILD)/%.o) $(DAEMON_BUILD)/profile.pb-c.o
HABCTL_OBJECTS := $(HABCTL_SOURCES:%=$(DAEMON_BUILD)/%.o) $(DAEMON_BUILD)/profile.pb-c.o

DAEMON_CFLAGS := -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wmissing-prototypes -Werror \
	-pthread -I$(BUILD) -I$(DAEMON_BUILD)
DAEMON_CFLAGS += $(shell $(PKG_CONFIG) --cflags $(HABD_LIBS) $(HABCTL_LIBS))

.PHONY: daemon daemon-test
daemon: $(BUILD)/habd $(BUILD)/habctl

$(DAEMON_BUILD):
	mkdir -p $@

$(DAEMON_BUILD)/profile.pb-c.c $(DAEMON_BUILD)/profile.pb-c.h &: daemon/profile.proto | $(DAEMON_BUILD)
	$(PROTOC_C) --proto_path=daemon --c_out=$(DAEMON_BUILD) profile.proto

# Made by another's rules, so not held to ours.
$(DAEMON_BUILD)/profile.pb-c.o: $(DAEMON_BUILD)/profile.pb-c.c
	$(CC) $(CFLAGS) -I$(DAEMON_BUILD) -c -o $@ $<

$(DAEMON_BUILD)/%.o: daemon/%.c | $(DAEMON_BUILD)
	$(CC) $(CFLAGS) $(DAEMON_CFLAGS) -MMD -MP -c -o $@ $<

$(DAEMON_BUILD)/bpf_feed.o: $(BUILD)/hab.skel.h
$(DAEMON_BUILD)/usdt_feed.o: $(BUILD)/hab_usdt.skel.h
$(DAEMON_BUILD)/profile_pprof.o $(DAEMON_BUILD)/profile_read.o: $(DAEMON_BUILD)/profile.pb-c.h

$(BUILD)/habd: $(HABD_OBJECTS)
	$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $^ $$($(PKG_CONFIG) --libs $(HABD_LIBS)) -lm -liberty

$(BUILD)/habctl: $(HABCTL_OBJECTS)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $$($(PKG_CONFIG) --libs $(HABCTL_LIBS)) -lm

# With sanitizers, in a folder of its own.
daemon-test:
	BUILD=$(BUILD) daemon/test/run

-include $(wildcard $(DAEMON_BUILD)/*.d)
