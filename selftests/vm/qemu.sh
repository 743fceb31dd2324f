# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2034,SC2054,SC2154 # run's variables; QEMU's commas
# The part of run that starts QEMU, waits for it and reads the kernel's log. Sourced
# by run, whose variables it uses.

# A boot of many CPUs is slow, but writes to the console all the time. Now and then the emulation
# stalls in a boot; its console is silent from then on.
boot_limit=$((120 + 2 * cpus))
silence_limit=$((30 + cpus / 2))
# With counted instructions one CPU of this machine does all the work, at a fifth of the speed.
[ -z "$icount" ] || boot_limit=600 silence_limit=120
# Kernels with checks are slow, and print nothing during some tests of the boot.
[[ $kernel != *-* ]] || boot_limit=$((3 * boot_limit)) silence_limit=$((3 * silence_limit))
# systemd starts services before it starts COMMAND.
[ -z "$root" ] || boot_limit=600 silence_limit=180
# It kills a program with a system call in a section, or with a section that is not as it should be.
declare -A checks=([7.2]=' rseq_debug=on' [7.2-16k]=' rseq_debug=on')
# Lines of a normal boot under emulation that look like complaints.
harmless='^$'
# 6.1 says this where cores of the emulated machine have two threads.
[ "$arch" = amd64 ] || harmless='BUG: arch topology borken'
complaints='WARNING: |BUG: |BUG at |Oops|Call [Tt]race|general protection|Kernel panic|INFO: (task|rcu|possible|suspicious|trying|recovery|Slab)'
complaints+='|possible recursive locking|circular locking|suspicious RCU|inconsistent lock state|detected( expedited)? stalls|soft lockup|hard LOCKUP'
complaints+='|blocked for more than|KASAN|UBSAN|KFENCE:|KCSAN|kmemleak: [0-9]+ new|unreferenced object|refcount_t|list_(add|del) corruption|sleeping function called|scheduling while atomic|bad page state|invoked oom-killer'

# A test that makes the kernel kill processes of a memory cgroup writes a line to the log before and
# after it. The report of the kill, between the two, is no complaint.
without_meant_kills() {
	awk '/hab-vm: an OOM kill is meant from here/ { meant = 1 }
		/hab-vm: an OOM kill is meant to here/ { meant = 0 }
		!(meant && /invoked oom-killer|Call [Tt]race/)'
}

# Removes reports from a WARNING that contains $known to the end of the report.
without_known_warnings() {
	awk -v known="$known" '
		known != "" && /WARNING: / && index($0, known) { skip = 1 }
		!skip
		/---\[ end trace/ { skip = 0 }'
}

# Of arm64 the emulated device tree has no caches, so it is written with a second level of each core
# and, if a socket shares its last one, a third.
describe_caches() {
	local tree=$run_dir/tree.dtb cpu n=0 core socket
	command -v fdtput >/dev/null || die "fdtput is missing, which describes caches: install device-tree-compiler."
	"${qemu[@]}" -M "$machine,dumpdtb=$tree" "${options[@]}" >/dev/null 2>&1 ||
		die "this QEMU did not write its device tree."
	cache() { # NAME LEVEL PHANDLE
		fdtput -c "$tree" "/cpus/$1"
		fdtput -t s "$tree" "/cpus/$1" compatible cache
		fdtput "$tree" "/cpus/$1" cache-unified
		fdtput -t x "$tree" "/cpus/$1" cache-level "$2"
		fdtput -t x "$tree" "/cpus/$1" phandle "$3"
	}
	for ((socket = 0; socket < sockets; socket++)); do
		[ "$llc" = core ] || cache "l3-cache$socket" 3 "$((7000 + socket))"
	done
	for ((core = 0; core < sockets * cores; core++)); do
		cache "l2-cache$core" 2 "$((6000 + core))"
		[ "$llc" = core ] ||
			fdtput -t x "$tree" "/cpus/l2-cache$core" next-level-cache "$((7000 + core / cores))"
	done
	for cpu in $(fdtget -l "$tree" /cpus | grep '^cpu@'); do
		fdtput -t x "$tree" "/cpus/$cpu" next-level-cache "$((6000 + n / threads))"
		n=$((n + 1))
	done
	options+=(-dtb "$tree")
}

# Sets the array `options` to everything after the name of the program.
qemu_options() {
	local machine=q35,smm=off,sata=off,smbus=off,vmport=off,usb=off accel=tcg,thread=multi clock=() install=() nodes=() node size
	local cpu=max,vendor=GenuineIntel console=ttyS0
	# Emulated CPUs that wait for a busy machine are not stalled. And a kernel with page tables
	# of its own makes the emulator drop all translations at each entry, which takes a third of
	# the time.
	local emulated='pti=off rcupdate.rcu_cpu_stall_timeout=60 workqueue.watchdog_thresh=60 watchdog_thresh=30'
	[ "$(qemu_major "${qemu[@]}")" -ge 8 ] || accel=tcg,thread=single
	# On some machines /dev/kvm opens and kernels hang: their CPUs show no svm or vmx.
	if [ -n "$icount" ]; then
		accel=tcg,thread=single clock=(-icount shift=0,sleep=off)
	elif [ "$arch" = amd64 ] && (: <>/dev/kvm) 2>/dev/null && grep -qwE 'svm|vmx' /proc/cpuinfo; then
		accel=kvm emulated=''
	fi
	# With several threads CPUs that wait for a lock take the time of the one that has it: there
	# WFE does nothing.
	if [ "$arch" = arm64 ]; then
		machine=virt,gic-version=3 cpu=${HAB_VM_CPU:-max,pauth-impdef=on} console=ttyAMA0 accel=tcg,thread=single
	fi
	[ -z "$tree" ] || install+=(-virtfs "local,id=tree,path=${tree//,/,,},mount_tag=tree,security_model=none,readonly=on,multidevs=remap")
	if [ -z "$root" ] && [ -d "$build/install" ]; then
		append="$append hab_vm.install"
		install+=(-virtfs "local,id=install,path=${build//,/,,}/install,mount_tag=install,security_model=none,readonly=on,multidevs=remap")
	fi
	for ((node = 0; node < sockets && sockets > 1; node++)); do
		size=$((megabytes / sockets))
		[ "$node" != 0 ] || size=$((megabytes - size * (sockets - 1)))
		nodes+=(-object "memory-backend-ram,id=mem$node,size=${size}M" -numa "node,nodeid=$node,memdev=mem$node"
			-numa "cpu,node-id=$node,socket-id=$node")
	done
	options=(-cpu "$cpu" -nodefaults -no-user-config -nic none -display none -no-reboot -m "${megabytes}M"
		-smp "$cpus,sockets=$sockets,cores=$cores,threads=$threads" "${nodes[@]}")
	if [ "$arch" = arm64 ] && [ -n "$llc" ]; then
		describe_caches
	elif [ "${llc:-socket}" != socket ]; then
		machine+=",smp-cache.0.cache=l3,smp-cache.0.topology=$llc"
	fi
	options+=(-M "$machine" -accel "$accel" "${clock[@]}"
		-kernel "$image" -initrd "$work/initramfs.cpio"
		-append "console=$console ignore_loglevel panic=-1 oops=panic $emulated${checks[$kernel]-}$append"
		-chardev "file,id=log,path=${log//,/,,}" -serial chardev:log
		-virtfs "local,id=root,path=$guest_root,mount_tag=root,security_model=none,readonly=on,multidevs=remap"
		-virtfs "local,id=run,path=${run_dir//,/,,},mount_tag=run,security_model=none"
		"${install[@]}"
		-device virtio-serial-pci
		-add-fd fd=3,set=1 -chardev file,id=out,path=/dev/fdset/1,append=on
		-device virtserialport,chardev=out,name=hab.out
		-add-fd fd=4,set=2 -chardev file,id=err,path=/dev/fdset/2,append=on
		-device virtserialport,chardev=err,name=hab.err)
	[ -z "$modules" ] || options+=(-virtfs "local,id=modules,path=${modules//,/,,},mount_tag=modules,security_model=none,readonly=on,multidevs=remap")
	[ -z "$shared" ] || options+=(-virtfs "local,id=share,path=${shared//,/,,},mount_tag=share,security_model=none,multidevs=remap")
}

running() { kill -0 "$pid" 2>/dev/null; }

# QEMU waits for ever if its output is not read. So cat reads it; when cat is killed, the run ends
# as by SIGPIPE.
open_output() {
	exec {out}> >(exec cat)
	reader=$!
}
close_output() {
	exec {out}>&-
	wait "$reader" || true
}

# Starts QEMU and returns when COMMAND can start; returns 1 and sets `why` if the boot failed.
# QEMU ends with this program, even if that is killed.
boot() {
	local start=$SECONDS second=$SECONDS heard=$SECONDS said='' size
	rm -f "$run_dir/verdict" "$run_dir/booted"
	setpriv --pdeathsig KILL "${qemu[@]}" "${options[@]}" 3>&"$out" 4>&2 </dev/null >"$run_dir/qemu" 2>&1 &
	pid=$!
	until [ -e "$run_dir/booted" ]; do
		if ! running; then
			[ ! -e "$run_dir/booted" ] || break
			why="QEMU ended: $(tail -n 1 "$run_dir/qemu")$(grep -a 'hab-vm: ' "$log" | tail -n 1)"
			return 1
		fi
		if [ $((SECONDS - start)) -ge "$boot_limit" ]; then
			why="nothing for $boot_limit s"
			return 1
		fi
		if [ "$SECONDS" != "$second" ]; then
			second=$SECONDS
			size=$(stat -c %s "$log" 2>/dev/null || true)
			[ "$size" = "$said" ] || heard=$SECONDS
			said=$size
			if [ $((SECONDS - heard)) -ge "$silence_limit" ]; then
				why="silent for $silence_limit s, after: $(tail -n 1 "$log" | tr -d '\r' | cut -c1-120)"
				return 1
			fi
		fi
		sleep 0.05
	done
}

watch_command() {
	local start=$SECONDS
	timed_out=''
	while running; do
		if [ $((SECONDS - start)) -ge "$limit" ] && [ ! -e "$run_dir/verdict" ]; then
			timed_out=1
			break
		fi
		kill -0 "$reader" 2>/dev/null || exit 141
		# A guest with a verdict has ten seconds to power off.
		[ -e "$run_dir/verdict" ] || start_off=$SECONDS
		[ $((SECONDS - ${start_off:-$start})) -lt 10 ] || [ ! -e "$run_dir/verdict" ] || break
		sleep 0.05
	done
	stop_qemu
	close_output
}

# report STATUS SENTENCE: prints why the run failed, with the kernel's complaints or, without a
# verdict, the end of the console's output; exits with STATUS.
report() {
	step "$2"
	if [ -n "${found:-}" ]; then
		printf '%s\n' "$found" | head -n 40 >&2
	elif [ "$1" = 125 ] && [ ! -e "$run_dir/verdict" ]; then
		tail -n 40 "$log" | tr -d '\r' >&2
	fi
	grep -v 'terminating on signal' "$run_dir/qemu" | sed "s/^/$me: QEMU said: /" >&2 || true
	step "the kernel's log: $log"
	exit "$1"
}

# KCSAN's reports are between two lines of equals signs. Only those with a function of the module
# count: the kernel has races of its own.
without_foreign_races() {
	awk '/====================/ { if (race && ours) printf "%s", block; else if (!race) printf "%s", block
			block = ""; race = ours = 0 }
		/BUG: KCSAN/ { race = 1 }
		/\[hab\]/ { ours = 1 }
		{ block = block $0 "\n" }
		!race { printf "%s", block; block = "" }
		END { printf "%s", block }'
}

# idles CPU: the log's backtrace of it says so.
idles() {
	tr -d '\r\000' <"$log" | awk -v cpu="$1" '
		/NMI backtrace for cpu / { here = $0 ~ "for cpu " cpu "( |$)" }
		here && (/skipped: idling/ || /RIP: .*(safe_halt|_idle)\+/) { idle = 1 }
		END { exit !idle }'
}

# judge_stopped STATUS CPUS: on these CPUs a sleeping program does not wake. If the kernel's log
# shows one of them idle, the emulator lost its timer; else the kernel is in a loop there.
# Complaints about waiting for it are no others.
judge_stopped() {
	local n
	! grep -qvE 'rcu: INFO|detected( expedited)? stalls|blocked for more than|Call [Tt]race' <<<"${found:-rcu: INFO}" ||
		report 123 "the kernel complained, and lost CPU $2 (the command ended with $1):"
	for n in $2; do
		if idles "$n"; then
			report 121 "the emulator failed: CPU $n has lost its timer (the command ended with $1)."
		fi
	done
	report 123 "programs that sleep on CPU $2 of the guest do not wake (the command ended with $1)."
}

# The kernel patches its code by way of an int3. The emulator sometimes executes the int3 after it
# was removed, because it had translated it before.
stale_int3() {
	tr -d '\r\000' <"$log" | awk '
		/Oops: / { oops = 1; int3 = /Oops: int3/ }
		oops && /Code: / { exit !(int3 && !/ cc <[0-9a-f][0-9a-f]>/) }
		END { if (!oops) exit 1 }'
}

# The message of QEMU's assertion before it aborts.
aborted() { grep -qE 'Assertion .* failed|: assertion failed' "$run_dir/qemu"; }

judge() {
	local kind rest
	found=$(tr -d '\r\000' <"$log" | without_foreign_races | without_meant_kills | without_known_warnings |
		grep -aE "$complaints" | grep -avE "$harmless") || true
	[ -z "$timed_out" ] || report 124 "the command was still running after $limit s, so the guest was stopped.${found:+ Its kernel complained:}"
	[ -e "$run_dir/verdict" ] || ! stale_int3 ||
		report 121 "the emulator failed: a CPU saw an int3 that the kernel had taken away before. Its kernel complained:"
	[ -e "$run_dir/verdict" ] || ! aborted || report 121 "the emulator failed: QEMU aborted while the command ran."
	[ -e "$run_dir/verdict" ] || report 125 "the guest stopped while the command ran.${found:+ Its kernel complained:}"
	read -r kind rest <"$run_dir/verdict"
	[ "$kind" != stopped ] || judge_stopped "${rest%% *}" "${rest#* }"
	if [ "$kind" = fail ]; then
		[ ! -e "$run_dir/dmesg" ] || cat "$run_dir/dmesg" >&2
		report 122 "$rest"
	fi
	[ -z "$found" ] || report 123 "the kernel complained (the command ended with $rest):"
	[ "$rest" = 0 ] || report "$rest" "the command ended with $rest."
	rm -f "$log"
	exit 0
}
