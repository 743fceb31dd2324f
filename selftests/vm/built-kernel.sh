# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154 # fetch's variables
# The part of fetch that builds kernels with checks that Debian's kernels lack: Debian's source,
# configured by settings_of(), with everything that a guest needs built in. Sourced by
# fetch, whose helpers it uses.
#
# Each requested line has to be in the result: the kernel's configuration drops, without a message,
# a setting whose dependencies are missing; without KASAN nothing would be found.

# configure_kernel SOURCE OBJECTS SETTINGS...; it and install_kernel() pass $words to make.
configure_kernel() {
	local source=$1 objects=$2 dropped
	shift 2
	mkdir -p "$objects"
	grep -h '^CONFIG' "$@" >"$objects/wanted"
	make -s -C "$source" O="$objects" "${words[@]}" KCONFIG_ALLCONFIG="$objects/wanted" allnoconfig >&2
	dropped=$(grep -v '=n$' "$objects/wanted" | grep -vxFf "$objects/.config") || true
	[ -z "$dropped" ] ||
		die "the kernel dropped these settings, because of others or because this compiler cannot: ${dropped//$'\n'/ }. See $*."
}

# install_kernel SOURCE OBJECTS: into $work, as fetch_kernel() has it. kbuild's programs are for
# this machine: with another CC they would be built once more.
install_kernel() {
	local source=$1 objects=$2 root=$work/root release headers
	release=$(cat "$objects/include/config/kernel.release")
	headers=$root/usr/src/linux-headers-$release
	mkdir -p "$headers" "$root/lib/modules/$release"
	make -s -C "$source" O="$objects" "${words[@]}" run-command \
		KBUILD_RUN_COMMAND="env CC=\$(HOSTCC) \$(srctree)/scripts/package/install-extmod-build $headers" >&2
	cp "$objects"/modules.{builtin,builtin.modinfo,order} "$root/lib/modules/$release/"
	depmod -b "$root" "$release"
	if [ "$arch" = amd64 ]; then
		objcopy --strip-debug "$objects/vmlinux" "$work/vmlinux"
	else
		cp "$objects/arch/$arch/boot/Image" "$work/Image"
	fi
	"${compiler}objcopy" --dump-section ".BTF=$headers/vmlinux" "$objects/vmlinux" "$work/discard"
	rm "$work/discard"
	cp "$objects/.config" "$work/config"
	ln -s headers/tools/bpf/resolve_btfids/resolve_btfids "$work/resolve_btfids"
	ln -s "root/usr/src/linux-headers-$release" "$work/headers"
	echo "$release" >"$work/release"
}

# download_source NAME: the package of that kernel's source, into $work/debs.
download_source() {
	local package=linux-source-${1%%-*}
	step "kernel $1: downloading $package (about 150 MB)"
	mkdir -p "$work/debs"
	if [ "${1%%-*}" = 7.2 ]; then
		read_lists trixie trixie-backports || die "the lists of trixie-backports cannot be had: see apt's message above."
	fi
	(cd "$work/debs" && apt_get "${apt_options[@]}" download "$package") ||
		die "apt-get could not download $package: run apt-get update and try again."
	[ ${#apt_options[@]} = 0 ] || forget_lists
}

# seed_fault NAME SOURCE: 7.2-norestart restarts no section after an interrupt. It has no note that
# an interrupt came from user space, as Linux 6.19 and 7.0.0 to 7.0.13 have none on arm64. Debian
# has none of these any more.
seed_fault() {
	local file=$2/arch/arm64/kernel/entry-common.c
	[ "$1" = 7.2-norestart ] || return 0
	[ "$(grep -cP '^\trseq_note_user_irq_entry\(\);$' "$file")" = 1 ] ||
		die "the source of $1 has not exactly one rseq_note_user_irq_entry() in entry-common.c, so the fault cannot be made."
	sed -i '/^\trseq_note_user_irq_entry();$/d' "$file"
}

# build_kernel NAME: fills $work with that kernel.
build_kernel() {
	local name=$1 source=$work/source objects=$work/objects program image=vmlinux compiler=
	local -a settings words
	[ "$arch" = amd64 ] || image=Image compiler=aarch64-linux-gnu-
	for program in flex bison bc pahole "${compiler}gcc" clang; do
		command -v "$program" >/dev/null || die "$program is missing, which building $name needs: run scripts/deps debug, and for arm64 scripts/deps arm64."
	done
	[[ $cache != *[[:space:]]* ]] ||
		die "the cache $cache has a blank in its name, which kbuild cannot take: set HAB_CACHE to another folder."
	mapfile -t settings < <(settings_of "$name")
	mapfile -t words < <(words_of_kernel "$name")
	download_source "$name"
	mkdir -p "$source"
	source_tar "$work"/debs/*.deb | tar -x -C "$source" --strip-components=1
	seed_fault "$name" "$source"
	configure_kernel "$source" "$objects" "${settings[@]}"
	step "kernel $name: building it (about 1,500 files; 5 GB of disk meanwhile)"
	make -s -C "$source" O="$objects" "${words[@]}" -j"$(nproc)" $image modules >"$work/log" 2>&1 || {
		tail -n 30 "$work/log" >&2
		die "kernel $name did not build: see the end of its output above."
	}
	install_kernel "$source" "$objects"
	words_of "$name" >"$work/make-words"
	rm -rf "$source" "$objects" "$work/log"
}
