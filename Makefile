# SPDX-License-Identifier: GPL-2.0-only
# All output goes into build/.
#
#   make deps     install what building and testing needs (Debian packages); FOR=build: less
#   make          library, BPF program, daemon, test programs
#   make habrun   what habrun needs, and habctl: nothing is downloaded
#   make examples the smallest programs that show each use
#   make ARCH=arm64   the same across, in build/arm64; FOR=arm64 has what that needs
#   make module   hab.ko for the running kernel, with the BTF that habd needs
#   make demo     all parts together, in a VM
#   make test     the gate, which CI runs: here and in two VMs, a quarter of an hour
#   make test-all PART=NAME   everything else, in parts; without PART a list of them, all: each
#   make fuzz     readers of outside input, by libFuzzer (ten minutes)
#   make lint     style and static checks
#   make bench    the paper's experiments and comparisons; QUICK=1: without the VM
#   make deb      Debian packages, in build/deb; as root with ARCH=arm64, in build/arm64/deb
#   make install  DESTDIR= PREFIX=; make module-install for the module

HAB_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/hab
export HAB_CACHE
CC = gcc
CXX = g++
# Across: with the packages that selftests/vm/fetch --arch arm64 root unpacks.
ifeq ($(ARCH)$(filter aarch64,$(shell uname -m)),arm64)
BUILD ?= build/arm64
ROOT := $(HAB_CACHE)/arm64/root/root
$(if $(filter deb,$(MAKECMDGOALS))$(wildcard $(ROOT)/usr/lib/aarch64-linux-gnu),,$(error There is nothing to build with for arm64: run scripts/deps arm64 and selftests/vm/fetch --arch arm64 root))
CC = aarch64-linux-gnu-gcc --sysroot=$(ROOT)
CXX = aarch64-linux-gnu-g++ --sysroot=$(ROOT)
AR = aarch64-linux-gnu-ar
PKG_CONFIG = PKG_CONFIG_SYSROOT_DIR=$(ROOT) \
	PKG_CONFIG_LIBDIR=$(ROOT)/usr/lib/aarch64-linux-gnu/pkgconfig:$(ROOT)/usr/share/pkgconfig pkg-config
endif
MACHINE_TRIPLET := $(shell $(CC) -dumpmachine)
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
CLANG = clang
CFLAGS ?= -O2 -g
# The packages' version without its revision.
VERSION := $(shell head -n 1 debian/changelog | grep -oE '[0-9][^-]*' | head -n 1)
SOVERSION := 0

WARNINGS := -Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes -Werror
HAB_CFLAGS := -std=gnu11 -D_GNU_SOURCE $(WARNINGS) -fPIC -pthread

.PHONY: arm64-tests all deps demo test test-all bench module module-install install clean format lint deb
.PHONY: $(foreach kind,demo test test-all,$(kind)-build $(kind)-run) guest-install
all: lib daemon tests

include lib/lib.mk
include bpf/bpf.mk
include daemon/daemon.mk
include selftests/selftests.mk
include selftests/fuzz/fuzz.mk
include bench/bench.mk
include examples/examples.mk

# FOR=build, demo, test, programs, arm64, debug, deb or bench: the purpose; test if not given.
deps:
	scripts/deps $(FOR)

# Each is the only command that a fresh machine needs.
demo test:
	@scripts/deps --missing $@
	@echo "make $@: building" >&2
	@began=$$(date +%s) && $(MAKE) --no-print-directory -s $(PARALLEL) $@-build && \
		HAB_BUILT=$$(($$(date +%s) - began)) $(MAKE) --no-print-directory -s $@-run

ifdef PART
test-all:
	@selftests/run --deps $(PART)
	@echo "make $@: building" >&2
	@$(MAKE) --no-print-directory -s $(PARALLEL) $@-build
	@selftests/run $(PART)
else
test-all:
	@echo 'make $@: say which part: make $@ PART="NAME...", or PART=all. Parts, usual minutes, purpose of scripts/deps:'
	@selftests/run --list
	@exit 2
endif

# Unless the user has said how many jobs.
PARALLEL = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

demo-build: lib daemon $(BUILD)/tests/json_server
demo-run:
	selftests/demo/run

test-build: lib daemon gate-tests examples fuzz-programs
test-run:
	selftests/run

# What the suites in VMs of arm64 run.
arm64-tests: all $(addprefix $(BUILD)/tests/,unwind_test unwind_signed_test channel_test malloc_channel_test malloc_calls_test \
	fake_python_13 fake_python_13_free fake_python_14)

test-all-build: all host-tests bench-programs examples fuzz-programs $(RISCV64_TESTS)

# QUICK=1: the native part, in some six minutes.
bench:
	@scripts/deps --missing bench
	@echo "make $@: building" >&2
	@$(MAKE) --no-print-directory -s $(PARALLEL) all bench-programs
	bench/run $(if $(QUICK),--quick)

# Of another kernel: make module KERNEL=its release, KDIR=its headers, IMAGE=its vmlinuz.
KERNEL ?= $(shell uname -r)
KDIR ?= /lib/modules/$(KERNEL)/build
module:
	@test -d $(KDIR) || { echo "make module: no kernel headers at $(KDIR): install linux-headers-$(KERNEL), or name them with KDIR=" >&2; exit 1; }
	scripts/copy-module-sources $(BUILD)/module/host
	install -D -t $(BUILD)/module/host/scripts scripts/dkms-build scripts/module-btf
	$(BUILD)/module/host/scripts/dkms-build $(KERNEL) $(abspath $(KDIR)) $(IMAGE)

# Below /lib/modules of that kernel, so that modprobe finds it.
module-install: module
	$(MAKE) -C $(KDIR) M=$(abspath $(BUILD)/module/host) INSTALL_MOD_PATH=$(DESTDIR) modules_install

install: lib daemon
	install -D -m 644 lib/hab.h $(DESTDIR)$(PREFIX)/include/hab.h
	install -m 644 -t $(DESTDIR)$(PREFIX)/include lib/adapters/*
	install -D -m 644 $(BUILD)/libhab.a $(DESTDIR)$(PREFIX)/lib/libhab.a
	install -D -m 755 $(BUILD)/libhab.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/libhab.so.$(VERSION)
	ln -sf libhab.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/libhab.so.$(SOVERSION)
	ln -sf libhab.so.$(SOVERSION) $(DESTDIR)$(PREFIX)/lib/libhab.so
	install -D -m 755 $(BUILD)/libhab-malloc.so $(DESTDIR)$(PREFIX)/lib/libhab-malloc.so
	cp -R --preserve=links $(BUILD)/libhab-malloc $(DESTDIR)$(PREFIX)/lib/
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' lib/hab.pc.in \
		> $(DESTDIR)$(PREFIX)/lib/pkgconfig/hab.pc
	install -D -m 755 $(BUILD)/habd $(DESTDIR)$(PREFIX)/sbin/habd
	install -D -m 755 $(BUILD)/habctl $(DESTDIR)$(PREFIX)/bin/habctl
	install -D -m 755 $(BUILD)/habrun $(DESTDIR)$(PREFIX)/bin/habrun
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed -e 's|/usr/sbin|$(PREFIX)/sbin|' daemon/habd.service \
		> $(DESTDIR)$(PREFIX)/lib/systemd/system/habd.service
	install -D -m 644 daemon/hab.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/hab.conf
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/hab daemon/habd/fleet/*
	install -D -m 644 module/60-hab.rules $(DESTDIR)$(PREFIX)/lib/udev/rules.d/60-hab.rules
	install -D -m 644 Documentation/habd.8 $(DESTDIR)$(PREFIX)/share/man/man8/habd.8
	install -D -m 644 Documentation/habctl.1 $(DESTDIR)$(PREFIX)/share/man/man1/habctl.1
	install -D -m 644 Documentation/habrun.1 $(DESTDIR)$(PREFIX)/share/man/man1/habrun.1
	install -D -m 644 Documentation/hab.3 $(DESTDIR)$(PREFIX)/share/man/man3/hab.3

# From a copy, because the packages are built with their own flags. It has the package of npm, too:
# they are built without a network.
DEB := $(BUILD)/deb
deb:
	@scripts/deps --missing deb
ifdef ROOT
	scripts/build-deb $$(. /etc/os-release && echo $$VERSION_CODENAME) arm64 $(DEB)
else
	rm -rf $(DEB)
	mkdir -p $(DEB)/hab-$(VERSION)
	git ls-files -z | tar -c --null -T - | tar -x -C $(DEB)/hab-$(VERSION)
	cp $$(scripts/npm-package uplot) $(DEB)/hab-$(VERSION)/daemon/habd/web/
	cd $(DEB)/hab-$(VERSION) && dpkg-buildpackage -us -uc -b
endif

# selftests/vm/run lays this folder over the guest's root. It is renewed only when something
# changed, because a running guest must not see its files replaced.
GUEST := $(BUILD)/install
$(GUEST)/.stamp: $(BUILD)/libhab.a $(LIB_SHARED) $(MALLOC_SHARED) $(BUILD)/habd $(BUILD)/habctl $(BUILD)/habrun Makefile \
		lib/hab.h lib/hab.pc.in daemon/habd.service daemon/hab.conf module/60-hab.rules \
		$(wildcard Documentation/*.[138])
	$(MAKE) --no-print-directory install DESTDIR=$(GUEST) PREFIX=/usr
	@touch $@
guest-install: $(GUEST)/.stamp

C_FILES = $(shell git ls-files '*.c' '*.h')
format:
	clang-format -i $(C_FILES)

lint:
	scripts/lint

clean:
	rm -rf $(BUILD)
