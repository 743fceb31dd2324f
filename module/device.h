/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef HAB_DEVICE_H
#define HAB_DEVICE_H

int hab_device_init(void);
void hab_device_exit(void);

#endif /* HAB_DEVICE_H */
