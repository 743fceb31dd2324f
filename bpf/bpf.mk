# SPDX-License-Identifier: GPL-2.0-only
# The BPF program and its skeleton. Needs no kernel: CO-RE finds the types at load.

BPFTOOL ?= $(or $(shell PATH=$$PATH:/usr/sbin command -v bpftool),/usr/sbin/bpftool)
BPF_INCLUDES := -iquote . $(if $(ROOT),-isystem $(ROOT)/usr/include) -I$(ROOT)/usr/include/$(MACHINE_TRIPLET)
BPF_HEADERS := wire/record.h bpf/counts.h bpf/current.h bpf/paced.h uapi/hab.h module/events.h core/arithmetic.h wire/owner.h
BPF_ARCH := $(patsubst aarch64%,arm64,$(patsubst x86_64%,x86,$(MACHINE_TRIPLET)))

$(BUILD)/%.bpf.o: bpf/%.bpf.c $(BPF_HEADERS)
	@mkdir -p $(@D)
	$(CLANG) -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_$(BPF_ARCH) $(BPF_INCLUDES) -Wall -Wextra \
		-Wno-unused-parameter -Werror -c -o $@ $<

.PRECIOUS: $(BUILD)/%.bpf.o
$(BUILD)/%.skel.h: $(BUILD)/%.bpf.o
	$(BPFTOOL) gen skeleton $< name $*_bpf > $@.new
	@mv $@.new $@
