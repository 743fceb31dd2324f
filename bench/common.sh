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

# traces: sets the array of that name, to the first BENCH_TRACES of them if that is set, or ends.
find_traces() {
	shopt -s nullglob
	traces=("$programs"/traces/*.trace)
	shopt -u nullglob
	[ ${#traces[@]} -gt 0 ] || die "no traces in $programs/traces: run bench/record first."
	[ -z "${BENCH_TRACES-}" ] || traces=("${traces[@]:0:$BENCH_TRACES}")
}

# replay ARGUMENT...: prints one line of CSV; if it fails, a sentence on stderr, and returns false.
replay() { "$programs/replay" "$@" "${traces[@]}"; }
