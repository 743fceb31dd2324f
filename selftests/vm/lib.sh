# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034 # the variables are for those who source this
# Helpers shared by fetch, build-module and run: where things are, how a kernel
# of the cache is named, and how a step or an error is said. Sourced, not run.

vm_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
repo=$(cd "$vm_dir/../.." && pwd -P)
# Everything made here; HAB_BUILD is for trying another tree without disturbing this one.
build=${HAB_BUILD:-$repo/build}
cache=${HAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hab}
me=$(basename "$0")
# What a stamp in the cache must say; raise it when fetch fills the cache differently. Kernels
# built here take long, so they have a number of their own.
recipe=2 build_recipe=1
# What build-module compiles; anything newer than hab.ko makes it stale.
module_sources=(Kbuild module core uapi)

step() { printf '%s: %s\n' "$me" "$*" >&2; }

die() {
	step "$*"
	exit "${die_status:-1}"
}

# Refuses a kernel this runner does not know, in words.
check_kernel() {
	case $1 in
	6.1 | 6.12 | 7.2 | 6.12-debug | 6.12-kcsan | 7.2-slice) ;;
	*) die "there is no kernel \"$1\" here: use 6.1, 6.12, 7.2, 6.12-debug, 6.12-kcsan or 7.2-slice." ;;
	esac
}

# settings_of NAME: the files that a kernel built here is configured by, one a line;
# none for Debian's own and for what is no kernel.
settings_of() {
	case $1 in
	6.12-debug) printf '%s\n' "$vm_dir"/config/{guest,checks,kasan}.config ;;
	6.12-kcsan) printf '%s\n' "$vm_dir"/config/{guest,checks,kcsan}.config ;;
	7.2-slice) printf '%s\n' "$vm_dir"/config/{guest,slice}.config ;;
	esac
}

# words_of NAME: what make is told for a kernel built here and for modules of it, one a line. One is
# clang's, so that the module is, too: Debian's kernels are configured by gcc, and want it.
words_of() {
	case $1 in
	6.12-kcsan) echo CC=clang ;;
	esac
}

# words_of_kernel NAME: and what for the kernel alone. KCSAN watches few accesses at a time, and those
# of the module were too few among all: in the kernel it follows barriers only.
words_of_kernel() {
	words_of "$1"
	case $1 in
	6.12-kcsan) echo CFLAGS_KCSAN=-D__KCSAN_INSTRUMENT_BARRIERS__ ;;
	esac
}

# stamp_of NAME: what the stamp says of a NAME made by this recipe, from these settings.
stamp_of() {
	local -a settings
	mapfile -t settings < <(settings_of "$1")
	if [ ${#settings[@]} = 0 ]; then
		echo "$recipe"
	else
		echo "$build_recipe $({ cat "${settings[@]}" | grep '^CONFIG' && words_of_kernel "$1"; } | cksum)"
	fi
}

# stamped NAME: true when the cache holds NAME complete and made that way.
stamped() { [ -f "$cache/$1/.stamp" ] && [ "$(cat "$cache/$1/.stamp")" = "$(stamp_of "$1")" ]; }

# newer_than FILE PATH...: true when FILE is missing or something below PATH is newer.
newer_than() {
	local file=$1
	shift
	[ -e "$file" ] || return 0
	[ -n "$(find "$@" -newer "$file" -print -quit 2>/dev/null)" ]
}

# Major version of a QEMU binary, 0 when it does not run.
qemu_major() {
	local version
	version=$("$@" --version 2>/dev/null | sed -n 's/^QEMU emulator version \([0-9]*\).*/\1/p') || true
	echo "${version:-0}"
}

# Sets the array `qemu` to the command that starts QEMU: the cache's own first,
# then the machine's. The cache's may miss a library of the machine it was made on,
# so it counts only if it runs. Returns 1 when there is none.
find_qemu() {
	local at=$cache/qemu/root
	qemu=(env "LD_LIBRARY_PATH=$at/usr/lib/x86_64-linux-gnu:$at/lib/x86_64-linux-gnu"
		"$at/usr/bin/qemu-system-x86_64" -L "$at/usr/share/qemu" -L "$at/usr/share/seabios")
	if stamped qemu && [ "$(qemu_major "${qemu[@]}")" != 0 ]; then
		return 0
	fi
	qemu=(qemu-system-x86_64)
	command -v qemu-system-x86_64 >/dev/null && [ "$(qemu_major "${qemu[@]}")" != 0 ]
}
