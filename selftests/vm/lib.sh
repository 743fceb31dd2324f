# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034 # the variables are for scripts that source this
# Helpers shared by fetch, build-module and run: paths, names of kernels in the cache, messages.
# Sourced, not run.

vm_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
repo=$(cd "$vm_dir/../.." && pwd -P)
# Everything made here; HAB_BUILD is for trying another tree without disturbing this one.
build=${HAB_BUILD:-$repo/build}
cache=${HAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hab}
me=$(basename "$0")
# The guest's architecture: amd64, or arm64 after --arch arm64 or with HAB_ARCH. What is for arm64
# has folders of its own.
arch=${HAB_ARCH:-amd64}
if [ "${1-}" = --arch ]; then
	arch=${2-}
	shift 2 || shift
fi
case $arch in
amd64) qemu_package=qemu-system-x86 qemu_program=qemu-system-x86_64 image_name=vmlinux ;;
arm64)
	qemu_package=qemu-system-arm qemu_program=qemu-system-aarch64 image_name=Image
	cache=$cache/arm64
	[ -n "${HAB_BUILD:-}" ] || build=$build/arm64
	;;
*) echo "$me: there is no architecture \"$arch\" here: use amd64 or arm64." >&2 && exit 2 ;;
esac
export HAB_ARCH=$arch
# Number of the recipe that fills the cache; raise it when the contents change. Kernels built here
# take long, so they have a number of their own.
recipe=2 build_recipe=1
# Sources of the module; if one is newer than hab.ko, the module is built again.
module_sources=(Kbuild module core wire uapi selftests/core selftests/module/kunit)

step() { printf '%s: %s\n' "$me" "$*" >&2; }

die() {
	step "$*"
	exit "${die_status:-1}"
}

# Refuses an unknown kernel with a sentence.
check_kernel() {
	case $1 in
	6.1 | 6.12 | 7.2 | 6.12-debug | 6.12-kcsan | 7.2-slice) ;;
	7.2-16k | 6.12-64k | 7.2-norestart) [ "$arch" = arm64 ] || die "kernel $1 is of arm64 only: say --arch arm64 first." ;;
	*) die "there is no kernel \"$1\" here: use 6.1, 6.12, 7.2, 6.12-debug, 6.12-kcsan, 7.2-slice or (of arm64) 7.2-16k, 6.12-64k or 7.2-norestart." ;;
	esac
}

# settings_of NAME: prints the configuration files of a kernel built here, one a line; nothing for
# other names.
settings_of() {
	case $1 in
	6.12-debug) printf '%s\n' "$vm_dir"/config/{guest,$arch,checks,kasan}.config ;;
	6.12-kcsan) printf '%s\n' "$vm_dir"/config/{guest,$arch,checks,kcsan}.config ;;
	6.12-64k) printf '%s\n' "$vm_dir"/config/{guest,$arch,pages64}.config ;;
	7.2-slice) printf '%s\n' "$vm_dir"/config/{guest,$arch,slice}.config ;;
	7.2-norestart) printf '%s\n' "$vm_dir"/config/{guest,$arch,norestart}.config ;;
	esac
}

# words_of NAME: prints arguments of make for a kernel built here and for its modules, one a line.
# One is built by clang, so its module is, too; Debian's kernels need gcc.
words_of() {
	[ "$arch" = amd64 ] || printf '%s\n' "ARCH=$arch" CROSS_COMPILE=aarch64-linux-gnu-
	case $1 in
	6.12-kcsan) echo CC=clang ;;
	esac
}

# words_of_kernel NAME: the same for the kernel alone. KCSAN watches few accesses at a time, and
# missed the module's among the kernel's; so in the kernel it follows barriers only.
words_of_kernel() {
	words_of "$1"
	case $1 in
	6.12-kcsan) echo CFLAGS_KCSAN=-D__KCSAN_INSTRUMENT_BARRIERS__ ;;
	esac
}

# What the guest runs, and what programs for it are built with.
root_packages=(base-files base-passwd bash dash coreutils util-linux mount procps psmisc mawk sed grep
	findutils diffutils passwd dpkg systemd-standalone-sysusers kmod iproute2 busybox-static libc-bin libcap2-bin jq bc bpftool xz-utils curl
	libc6-dev linux-libc-dev libgcc-12-dev libstdc++-12-dev libasan8 libubsan1 libtsan2
	libbpf-dev systemtap-sdt-dev libelf-dev libdw-dev libdebuginfod-dev libiberty-dev zlib1g-dev
	uthash-dev libmnl-dev libprotobuf-c-dev libmicrohttpd-dev libcurl4-openssl-dev libjansson-dev
	libncurses-dev libsystemd-dev libcap-dev libexpat1-dev libsqlite3-dev liblua5.4-dev
	binutils python3 iso-codes libxml2-utils libjemalloc2 libjemalloc-dev libtcmalloc-minimal4 libmimalloc2.0)

# stamp_of NAME: prints the stamp of a NAME that is made by this recipe from these settings.
stamp_of() {
	local -a settings
	mapfile -t settings < <(settings_of "$1")
	if [ "$1" = root ]; then
		echo "$recipe $(cksum <<<"${root_packages[*]}")"
	elif [ ${#settings[@]} = 0 ]; then
		echo "$recipe"
	else
		echo "$build_recipe $({ cat "${settings[@]}" | grep '^CONFIG' | sort && words_of_kernel "$1"; } | cksum)"
	fi
}

# stamped NAME: true if the cache has NAME, complete and with that stamp.
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

# Sets the array `qemu` to the command that starts QEMU: the cache's, or else the machine's. The
# cache's may lack a library here, so it is used only if it runs. Returns 1 if there is none.
find_qemu() {
	local at=$cache/qemu/root
	qemu=(env "LD_LIBRARY_PATH=$at/usr/lib/x86_64-linux-gnu:$at/lib/x86_64-linux-gnu"
		"$at/usr/bin/$qemu_program" -L "$at/usr/share/qemu" -L "$at/usr/share/seabios")
	if stamped qemu && [ "$(qemu_major "${qemu[@]}")" != 0 ]; then
		return 0
	fi
	qemu=("$qemu_program")
	command -v "$qemu_program" >/dev/null && [ "$(qemu_major "${qemu[@]}")" != 0 ]
}
