# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# TAP for tests that are scripts. Sourced. Each check promises one thing by its name:
#
#   check NAME COMMAND...      passes if the command succeeds
#   check_status N NAME COMMAND...   passes if it ends with N
#   check_says TEXT NAME COMMAND...  passes if it fails and its output has TEXT
#   skip NAME WHY
#   tap_end                    prints the plan; exits 1 if anything failed
#   wait_until COMMAND...      repeats it until it succeeds. Only what hangs reaches the limit
#   in_test_all                false in the gate (make test), which has no test whose verdict
#                              depends on time, speed or luck
#   signal_jobs SIGNAL all|PID...
#                              those of the script's jobs that still run: the number of one
#                              that has ended may be another program's by now

tap_count=0 tap_failed=0
tap_output=$(mktemp)
trap 'rm -f "$tap_output"' EXIT

tap_result() {
	tap_count=$((tap_count + 1))
	if [ "$1" = ok ]; then
		echo "ok $tap_count $2"
	else
		tap_failed=$((tap_failed + 1))
		echo "not ok $tap_count $2"
		echo "# $3"
		head -c 4000 "$tap_output" | sed 's/^/# /'
	fi
}

check() { check_status 0 "$@"; }

check_status() {
	local wanted=$1 name=$2 status=0
	shift 2
	"$@" >"$tap_output" 2>&1 || status=$?
	if [ "$status" = "$wanted" ]; then
		tap_result ok "$name"
	else
		tap_result failed "$name" "ended with $status instead of $wanted: $*"
	fi
}

check_says() {
	local text=$1 name=$2 status=0
	shift 2
	"$@" >"$tap_output" 2>&1 || status=$?
	if [ "$status" != 0 ] && grep -qF -- "$text" "$tap_output"; then
		tap_result ok "$name"
	else
		tap_result failed "$name" "ended with $status, and should have failed saying \"$text\": $*"
	fi
}

skip() {
	tap_count=$((tap_count + 1))
	echo "ok $tap_count $1 # SKIP $2"
}

signal_jobs() {
	local pid
	for pid in $(jobs -rp); do
		[[ ${2-} != all && " ${*:2} " != *" $pid "* ]] || kill -"$1" "$pid" 2>/dev/null
	done
}

wait_until() {
	local limit=$((SECONDS + 300))
	until "$@" >/dev/null 2>&1; do
		if [ $SECONDS -ge $limit ]; then
			echo "in vain for five minutes: $*"
			"$@"
			return
		fi
		sleep 0.1
	done
}

in_test_all() { [ -z "${HAB_GATE-}" ]; }

tap_end() {
	echo "1..$tap_count"
	[ "$tap_failed" = 0 ]
}
