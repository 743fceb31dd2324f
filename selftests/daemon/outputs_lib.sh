# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# habd on replayed records, for the tests of its outputs and symbols. Sourced, from the
# top folder, after selftests/tap.sh.
#
#   make_records NAME OPTION...  records in $work/NAME; what they sum up to in $work/NAME.sums
#   habd_start NAME OPTION...    habd on a socket of that name; waits until it is ready. With
#                                --replay FILE it is habd_replay
#   habd_replay NAME OPTION...   the same on the records NAME; waits until all are read
#   habd_end                     ends it
#   get PATH [CURL-OPTION]...    sends it a request
#   metric NAME                  one value of /metrics
#   sum_of NAME KEY              what the records NAME sum up to
#   ctl ARGUMENT...              habctl, on that socket
#   folder NAME                  makes an empty one, in $out; left: what is in it; bytes_in DIR
#   sum_folded FILE...           what folded stacks add up to
#   noise COUNT                  so many bytes, the same in each run
#   same WANTED GOT; has FILE TEXT   for check

# shellcheck source-path=SCRIPTDIR source=../habd_lib.sh
. selftests/habd_lib.sh

build=${BUILD:-build}
work=$(mktemp -d)

# shellcheck disable=SC2317
outputs_clean() {
	signal_jobs KILL all
	wait 2>/dev/null
	# shellcheck disable=SC2154 # of tap.sh
	rm -rf "$work" "$tap_output"
}
trap outputs_clean EXIT

make_records() {
	local name=$1
	shift
	"$build/tests/make_records" "$@" "$work/$name" 2>"$work/$name.sums"
}

habd_start() {
	local program=habd
	socket=$work/$1.sock
	shift
	[[ " $* " != *' --replay '* ]] || program=habd_replay
	: >"$socket.log"
	"$build/$program" --socket "$socket" --listen none "$@" 2>"$socket.log" 7>&- &
	habd_pid=$!
	wait_until is_ready_or_ended "$habd_pid" "$socket.log"
	grep -q ready "$socket.log" || { echo "# habd did not start: $(cat "$socket.log")"; return 1; }
}

habd_replay() {
	local name=$1
	shift
	habd_start "$name" --replay "$work/$name" "$@" || return 1
	wait_until has_replayed || { echo "# habd did not read all of $name"; return 1; }
}

has_replayed() { grep -q ': all records are read$' "$socket.log"; }

habd_end() {
	kill "$habd_pid" 2>/dev/null
	wait "$habd_pid" 2>/dev/null
}

get() {
	local path=$1
	shift
	curl -sS --fail-with-body --max-time 300 --unix-socket "$socket" "$@" "http://localhost$path"
}
metric() { get /metrics | sum_owners "$1"; }
sum_of() { sed -n "s/^$2=//p" "$work/$1.sums"; }
ctl() { "$build/habctl" --socket "$socket" "$@"; }

folder() { out=$work/out-$1 && mkdir "$out"; }
left() { find "$out" -type f -printf '%f\n' | sort | tr '\n' ' '; }
bytes_in() { find "$1" -type f -printf '%s\n' | awk '{ n += $1 } END { print n + 0 }'; }
sum_folded() { awk '{ sum += $NF } END { printf "%d\n", sum }' "$@"; }

noise() { perl -e 'srand 1; print map { chr int rand 256 } 1 .. shift' "$1"; }

same() { [ "$1" = "$2" ] || { echo "wanted $1, got $2"; return 1; }; }
has() { grep -qF -- "$2" "$1" || { echo "no \"$2\" in:"; head -50 "$1"; return 1; }; }
