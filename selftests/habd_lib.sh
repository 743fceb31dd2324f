# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154
# habd in tests that are scripts. Sourced after tap.sh. $at is a folder of the test's own.
#
#   start_habd ARGUMENT...   starts habd, and returns when it is ready. $habd is its pid, and
#                            $at/habd.log has what it says.
#   stop_habd                ends it, as an operator does; its status.
#   sum_owners NAME          of /metrics, from stdin: the value; if NAME has no owner and there are
#                            several, their sum. Nothing: there is none.

start_habd() {
	: >"$at/habd.log"
	"${build:-build}/habd" "$@" >"$at/habd.log" 2>&1 &
	habd=$!
	wait_until is_ready_or_ended "$habd" "$at/habd.log"
	grep -q ready "$at/habd.log" || { cat "$at/habd.log"; return 1; }
}

is_ready_or_ended() { grep -q ready "$2" || ! kill -0 "$1"; }

stop_habd() { kill "$habd" && wait "$habd"; }

sum_owners() {
	awk -v name="$1" '$1 == name { print $2; exact = 1 }
		{ sub(/[{]owner="[0-9a-z]+"[}]/, "", $1); sub(/,owner="[0-9a-z]+"/, "", $1) }
		$1 == name { n += $2; found = 1 } END { if (found && !exact) printf "%d\n", n }'
}
