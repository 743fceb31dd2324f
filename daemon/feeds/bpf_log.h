/* SPDX-License-Identifier: GPL-2.0-only */
/* libbpf's messages: kept until they are the reason for something, or shown at once if verbose. */
#ifndef HABD_BPF_LOG_H
#define HABD_BPF_LOG_H

void bpf_log_begin(void);
/* Says the last of them. */
void bpf_log_say(void);

#endif /* HABD_BPF_LOG_H */
