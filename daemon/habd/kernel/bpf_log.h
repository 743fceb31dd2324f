/* SPDX-License-Identifier: GPL-2.0-only */
/* The messages of libbpf. Not thread-safe. */
#ifndef HABD_BPF_LOG_H
#define HABD_BPF_LOG_H

/* Takes them from now on: with --verbose they are printed, else the last eight are kept. */
void bpf_log_begin(void);
/* Says those that were kept. */
void bpf_log_say(void);

#endif /* HABD_BPF_LOG_H */
