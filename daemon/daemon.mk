# SPDX-License-Identifier: GPL-2.0-only
#
# habd and habctl. Included by the top Makefile, run from the top folder. Uses CC,
# CFLAGS, LDFLAGS and BUILD, and the rule for $(BUILD)/*.skel.h of whoever
# includes it.
#
# Target: daemon (both programs). Variables: HABD_OBJECTS, HABCTL_OBJECTS, DAEMON_INCLUDES.
#
#   habd/      the daemon's order of things, options, totals    feeds/    where records come from
#   samples/   from records to a table of stacks                symbols/  from addresses to names
#   profile/   what is written of it, in each format            http/     who is answered what
#   habctl/    the person's side                                shared/   what both need

BUILD ?= build
DAEMON_BUILD := $(BUILD)/daemon
PKG_CONFIG ?= pkg-config
PROTOC_C ?= protoc-c

HABD_LIBS := libbpf libdw libdebuginfod libelf libprotobuf-c libmicrohttpd libsystemd libcap jansson zlib
HABCTL_LIBS := libcurl jansson ncursesw libprotobuf-c zlib

DAEMON_FOLDERS := habd feeds samples symbols profile http habctl shared
DAEMON_INCLUDES := -iquote .

SHARED_SOURCES := filter kinds module_files rate string_table util
DRAWN_SOURCES := profile_parts profile_folded profile_svg profile_html flame
HABD_SOURCES := $(SHARED_SOURCES) $(DRAWN_SOURCES) \
	habd span options sockets privilege totals missed numbers metrics \
	module_feed probe_feed replay_feed bpf_reader libraries \
	ingest pending stacks \
	binaries build_id processes symbols symbol_reader symbol_file demangle \
	profile profile_names profile_events profile_pprof profile_jfr jfr jfr_metadata sites \
	http sending peer http_profile http_record http_json http_top http_page
HABCTL_SOURCES := $(SHARED_SOURCES) $(DRAWN_SOURCES) \
	habctl habctl_record habctl_report habctl_top habctl_screen habctl_status habctl_rate \
	host_state client query output rotation report report_table interval profile_read

HABD_OBJECTS := $(HABD_SOURCES:%=$(DAEMON_BUILD)/%.o) $(DAEMON_BUILD)/profile.pb-c.o
HABCTL_OBJECTS := $(HABCTL_SOURCES:%=$(DAEMON_BUILD)/%.o) $(DAEMON_BUILD)/profile.pb-c.o

DAEMON_CFLAGS := -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wmissing-prototypes -Werror \
	-pthread -I$(BUILD) -I$(DAEMON_BUILD) $(DAEMON_INCLUDES)
DAEMON_CFLAGS += $(shell $(PKG_CONFIG) --cflags $(HABD_LIBS) $(HABCTL_LIBS))

.PHONY: daemon
daemon: $(BUILD)/habd $(BUILD)/habctl

$(DAEMON_BUILD):
	mkdir -p $@

$(DAEMON_BUILD)/profile.pb-c.c $(DAEMON_BUILD)/profile.pb-c.h &: daemon/profile/profile.proto | $(DAEMON_BUILD)
	$(PROTOC_C) --proto_path=daemon/profile --c_out=$(DAEMON_BUILD) profile.proto

# Made by another's rules, so not held to ours.
$(DAEMON_BUILD)/profile.pb-c.o: $(DAEMON_BUILD)/profile.pb-c.c
	$(CC) $(CFLAGS) -I$(DAEMON_BUILD) -c -o $@ $<

# Names are unique over all folders.
define daemon_rule
$(DAEMON_BUILD)/%.o: daemon/$(1)/%.c daemon/daemon.mk | $(DAEMON_BUILD)
	$$(CC) $$(CFLAGS) $$(DAEMON_CFLAGS) -MMD -MP -c -o $$@ $$<
endef
$(foreach folder,$(DAEMON_FOLDERS),$(eval $(call daemon_rule,$(folder))))

$(DAEMON_BUILD)/module_feed.o: $(BUILD)/hab.skel.h
$(DAEMON_BUILD)/probe_feed.o: $(BUILD)/hab_usdt.skel.h
$(DAEMON_BUILD)/profile_pprof.o $(DAEMON_BUILD)/profile_read.o: $(DAEMON_BUILD)/profile.pb-c.h

$(BUILD)/habd: $(HABD_OBJECTS)
	$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $^ $$($(PKG_CONFIG) --libs $(HABD_LIBS)) -lm -liberty

$(BUILD)/habctl: $(HABCTL_OBJECTS)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $$($(PKG_CONFIG) --libs $(HABCTL_LIBS)) -lm

-include $(wildcard $(DAEMON_BUILD)/*.d)
