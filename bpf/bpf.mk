# SPDX-License-Identifier: GPL-2.0-only
# The BPF program and its skeleton. Needs no kernel: CO-RE finds the types at load.

BPFTOOL ?= $(or $(shell PATH=$$PATH:/usr/sbin command -v bpftool),/usr/sbin/bpftool)
BPF_INCLUDES := -I/usr/include/$(shell $(CC) -dumpmachine)
BPF_HEADERS := bpf/records.h uapi/hab.h

$(BUILD)/hab.bpf.o: bpf/hab.bpf.c $(BPF_HEADERS)
	@mkdir -p $(@D)
	$(CLANG) -g -O2 -target bpf -mcpu=v3 $(BPF_INCLUDES) -Wall -Wextra -Wno-unused-parameter \
		-Werror -c -o $@ $<

$(BUILD)/hab.skel.h: $(BUILD)/hab.bpf.o
	$(BPFTOOL) gen skeleton $< name hab_bpf > $@.new
	@mv $@.new $@
