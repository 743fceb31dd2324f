# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Shared by the scripts of bench/, which run in the top folder.

build=${BUILD:-build}
# shellcheck disable=SC2034 # used by scripts that source this
results=${BENCH_RESULTS:-$build/results} programs=$build/bench

say() { printf 'bench: %s\n' "$*" >&2; }

die() {
	say "$*"
	exit 1
}

# need COMMAND WHAT-FOR: if the command is missing, prints so and returns false.
need() {
	command -v "$1" >/dev/null && return
	say "no $1 here, so $2; scripts/deps bench installs it."
	return 1
}

# Reads "KEY VALUE" lines, prints "KEY MEDIAN MIN MAX", keys in order of appearance.
medians() {
	awk '
	{ if (!($1 in n)) order[++keys] = $1; value[$1, ++n[$1]] = $2 }
	END {
		for (k = 1; k <= keys; k++) {
			key = order[k]
			count = n[key]
			for (i = 1; i <= count; i++)
				v[i] = value[key, i]
			for (i = 2; i <= count; i++)	# few values: insertion sort
				for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
					t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
				}
			middle = int((count + 1) / 2)
			median = count % 2 ? v[middle] : (v[middle] + v[middle + 1]) / 2
			print key, median, v[1], v[count]
		}
	}' OFMT=%.6g CONVFMT=%.12g
}

# find_traces javac|compilers: sets the array "traces" to those of that workload or ends. If
# BENCH_WORKLOAD is another, it is that one, and $results becomes a folder of that name.
# BENCH_TRACES: the first so many of them.
find_traces() {
	local recorder=bench/record workload=${BENCH_WORKLOAD:-$1}
	case $workload in
	javac) recorder=bench/record-java ;;
	compilers) ;;
	*) die "unknown BENCH_WORKLOAD \"$workload\": use javac or compilers." ;;
	esac
	[ "$workload" = "$1" ] || results=$results/$workload
	shopt -s nullglob
	traces=("$programs/traces-$workload"/*.trace)
	shopt -u nullglob
	[ ${#traces[@]} -gt 0 ] || die "no traces in $programs/traces-$workload: run $recorder first."
	[ -z "${BENCH_TRACES-}" ] || traces=("${traces[@]:0:$BENCH_TRACES}")
}

# replay ARGUMENT...: prints one line of CSV; if it fails, a sentence on stderr, and returns false.
replay() { "$programs/replay" "$@" "${traces[@]}"; }

# ticks SHELL: prints the hundredths of seconds in which the CPUs did other work than that of the
# ended children of SHELL, a process, and all that passed.
ticks() {
	awk 'NR == 1 { busy = $2 + $3 + $4 + $7 + $8 + $9; all = busy + $5 + $6 }
		/^[0-9]/ { printf "%.0f %.0f\n", busy - $16 - $17, all }' /proc/stat "/proc/$1/stat"
}

# others_since TICKS SHELL: prints the percentage of other work since then.
others_since() {
	awk '{ printf "%.1f\n", ($4 > $2 && $3 > $1) ? 100 * ($3 - $1) / ($4 - $2) : 0 }' \
		<<<"$1 $(ticks "$2")"
}

below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }

# alone COMMAND...: prints the line of the command, on CPUs that do little else. The line has three
# columns more, $alone_columns: the share of idle time before it, for which it waits two seconds at
# most; the share of the CPUs that others had during it; and the number of tries. It is measured
# again while others had 5 % or more, BENCH_TRIES times in all, default 3.
# shellcheck disable=SC2034 # used by scripts that source this
alone_columns=idle_percent,others_percent,tries
alone() {
	local shell=$BASHPID line before busy others try i
	for ((try = 1; try <= ${BENCH_TRIES:-3}; try++)); do
		for ((i = 0; i < 10; i++)); do
			before=$(ticks "$shell")
			sleep 0.2
			busy=$(others_since "$before" "$shell")
			! below "$busy" 10 || break
		done
		before=$(ticks "$shell")
		line=$("$@") || return
		others=$(others_since "$before" "$shell")
		! below "$others" 5 || break
	done
	echo "$line,$(awk -v busy="$busy" 'BEGIN { print 100 - busy }'),$others,$((try > ${BENCH_TRIES:-3} ? try - 1 : try))"
}

replay_alone() { alone replay "$@"; }

# Sets malloc_peers to NAME=LIBRARY for each malloc that the linker finds; glibc's has no library.
find_malloc_peers() {
	local peer libraries
	libraries=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p)
	malloc_peers=(glibc=)
	for peer in jemalloc=libjemalloc.so.2 tcmalloc=libtcmalloc_minimal.so.4 \
		mimalloc=libmimalloc.so.2; do
		if [[ $libraries == *"${peer#*=} "* ]]; then
			malloc_peers+=("$peer")
		else
			say "no ${peer#*=} here, so ${peer%%=*} is left out; scripts/deps bench installs it."
		fi
	done
}
