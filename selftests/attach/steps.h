/* SPDX-License-Identifier: GPL-2.0-only */
/* What marks the part of a program whose instructions are counted: a process group of nobody's. */
#ifndef ATTACH_STEPS_H
#define ATTACH_STEPS_H

#define PART (-4242)

#endif /* ATTACH_STEPS_H */
