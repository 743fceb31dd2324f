/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HAB_LIB_LOADED_H
#define HAB_LIB_LOADED_H

/*
 * Before the first heap: dlclose() does not unload the library from then on. 0, or -EOPNOTSUPP in a
 * namespace of dlmopen(). In a plugin it takes the dynamic linker's lock, so the caller holds none.
 */
int hab_loaded_keep(void);

#endif /* HAB_LIB_LOADED_H */
