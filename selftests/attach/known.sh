# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154
# The known program, which answers, and habrun that attaches to it. $build, $work and $habrun
# are the caller's.

# start_known [COMMAND]...: starts it; $known is its pid, $ask and $answer its descriptors.
start_known() {
	local in=$work/in out=$work/out
	rm -f "$in" "$out"
	mkfifo "$in" "$out"
	"${@:-"$build/tests/attach_known"}" <"$in" >"$out" 2>>"$work/errors" &
	known=$!
	exec {ask}>"$in" {answer}<"$out"
}
tell() {
	local text=
	echo "$1" >&"$ask"
	read -r -t 300 -u "$answer" text
	echo "$text"
}
# allocate MEGABYTES: with time for habrun to read.
allocate() {
	local i
	for ((i = 0; i < 10; i++)); do
		tell "alloc $(($1 / 10))"
		sleep 0.05
	done
}
end_known() {
	tell end >/dev/null
	exec {ask}>&- {answer}<&-
	wait "$known"
}
# record OUTPUT [OPTION]...: attaches in the background, until it is attached; $recorder is habrun.
# A busy machine does not let each try end in time.
record() { wait_until begins_to_record "$@"; }
begins_to_record() {
	: >"$work/said"
	"$habrun" -p "$known" -o "$1" "${@:2}" 2>"$work/said" &
	recorder=$!
	wait_until is_attached_or_ended
	grep '^habrun: attached' "$work/said"
}
is_attached_or_ended() { grep -q '^habrun: attached' "$work/said" || ! kill -0 "$recorder"; }
stop_recording() {
	kill -INT "$recorder"
	wait "$recorder"
}

# pairs: instructions of 1,000 allocations and frees of the known program.
pairs() {
	local counter
	: >"$work/steps"
	"$build/tests/attach_steps" "$known" >"$work/steps" &
	counter=$!
	until grep -q ready "$work/steps" || ! kill -0 $counter; do sleep 0.05; done
	tell pairs >/dev/null
	wait $counter && tail -1 "$work/steps"
}
