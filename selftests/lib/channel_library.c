// SPDX-License-Identifier: GPL-2.0-only
/* A library that channel_target.c opens later. */
void call(void (*function)(int), int argument)
{
	function(argument);
	__asm__ volatile("" ::: "memory");
}
