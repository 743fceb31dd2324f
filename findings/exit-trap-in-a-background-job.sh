#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# bash 5.2.15 (Debian 5.2.15-2+b13): a background job that SIGTERM ends before it runs its program
# runs the EXIT trap of the script that started it, in the job's process. So a script with
#
#	folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT; server & ...; kill $!
#
# loses its folder while it goes on, if the signal is early. POSIX resets traps in subshells, and
# dash 0.5.12 (Debian 0.5.12-2) runs none there. Seen on 2026-11-29: 195 to 200 of 200 jobs.
#
# What helps: signal a job once it has shown that its program runs; or in the trap compare $BASHPID
# with $$. Found when a test of this project lost its folder; its scripts do the first now.
#
# Needs apt-get and dpkg of Debian 12 on x86-64; installs nothing. Ends with 1 if bash does otherwise.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq download bash=5.2.15-2+b13 dash=0.5.12-2
for package in *.deb; do dpkg -x "$package" root; done

# $1 is a file.
cat >script <<'END'
trap 'echo a trap ran >>"$1"' EXIT
i=0
while [ $i -lt 200 ]; do
	sleep 100 &
	kill -TERM $!
	wait $!
	i=$((i + 1))
done
END
# One of them is the script's own.
for shell in bash dash; do
	: >$shell.traps
	"root/bin/$shell" script $shell.traps 2>/dev/null
	echo "$shell: the traps of $(($(wc -l <$shell.traps) - 1)) of 200 jobs ran"
done
[ "$(wc -l <bash.traps)" -gt 1 ] && [ "$(wc -l <dash.traps)" = 1 ]
