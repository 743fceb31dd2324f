/* SPDX-License-Identifier: GPL-2.0-only */
/* What libbpf and the kernel's verifier say: all with --verbose, else the end if it is asked for. */
#ifndef HABD_BPF_LOG_H
#define HABD_BPF_LOG_H

/* From now on libbpf's words are kept. */
void bpf_log_keep(void);
/* The last lines; the reason is in them. */
void bpf_log_show(void);

#endif /* HABD_BPF_LOG_H */
