# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Helpers for a Debian of its own, which is entered by chroot, so they need root. Sourced by scripts
# in the folder of the sources. HAB_CACHE keeps what was made once.
cache=${HAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hab}
mirror=$(sed -nE 's,^(URIs:|deb( \[[^]]*\])?) (https?://[^ ]*debian/?)( .*)?$,\3,p' \
	/etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1) || true

# make_base FILE RELEASE OPTION...: a Debian in a tar file, unless it is there.
make_base() {
	[ ! -f "$1" ] || return 0
	mkdir -p "$(dirname "$1")"
	mmdebstrap -q --format=tar "${@:3}" "$2" "$1.new" "$mirror" && mv "$1.new" "$1"
}

# unpack_base FILE ROOT
unpack_base() {
	mkdir "$2"
	tar -x -C "$2" -f "$1" --exclude=./dev/console
	cp /etc/resolv.conf "$2/etc/"
}

# inside_of ROOT COMMAND...: runs it in ROOT, in namespaces that end with it.
inside_of() {
	unshare --mount --pid --fork --root="$1" --mount-proc --wd=/root \
		env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive "${@:2}"
}
