# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# Completion of habd, habctl and habrun for bash. The options are read from --help.

# _hab_word PROGRAM: sets `at` to the index of the first word that is not an option or the value of
# one: the command of habctl, and the program that habrun starts.
_hab_word() {
	local with_value
	case $1 in
	habctl) with_value='-s|--socket' ;;
	*) with_value='-o|--output|--rate|--interval|--unit' ;;
	esac
	for ((at = 1; at < COMP_CWORD; at++)); do
		if [[ ${COMP_WORDS[at]} =~ ^($with_value)$ ]]; then
			at=$((at + 1))
		elif [[ ${COMP_WORDS[at]} != -* || ${COMP_WORDS[at]} == -- ]]; then
			return
		fi
	done
}

_hab() {
	local program=${1##*/} word=$2 before=$3 command='' words at
	case $program in
	habctl)
		_hab_word "$program"
		[ "$at" -ge "$COMP_CWORD" ] || command=${COMP_WORDS[at]}
		;;
	habrun)
		_hab_word "$program"
		if [ "$at" -lt "$COMP_CWORD" ] || [[ $word != -* && $before != -* ]]; then
			[ "${COMP_WORDS[at]}" != -- ] || at=$((at + 1))
			if [ "$at" = "$COMP_CWORD" ]; then
				mapfile -t COMPREPLY < <(compgen -c -- "$word")
			fi
			return
		fi
		;;
	esac
	case $before in
	--by) words='site stack process comm heap tag cgroup' ;;
	--format) words='table folded svg html' ;;
	--source) words='module channels auto' ;;
	--event) words='sample refill tlab outside growth all' ;;
	--events) words='sample refill tlab outside growth' ;;
	--user)
		mapfile -t COMPREPLY < <(compgen -u -- "$word")
		return
		;;
	-o | --output | -s | --socket | --channel | --history) return ;;
	*)
		[[ $program != habctl || -n $command || $word == -* ]] || words='top record report status rate'
		[[ $word != -* ]] || words=$("$1" ${command:+"$command"} --help 2>/dev/null |
			grep -oE -- '--[a-z][a-z-]+' | sort -u)
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "${words-}" -- "$word")
}

# Where there is no answer, files.
complete -o default -F _hab habd habctl habrun
