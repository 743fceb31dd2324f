#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# binutils 2.40 (Debian 2.40-2): addr2line names a wrong file for the code with which the line table
# of a unit begins, if g++ 12.2.0, of the same Debian 12, wrote it with -O2 -g, which is DWARF 5.
# Such a table names no file before the first other one: the register "file" begins as 1, in version
# 5, too, where entry 0 is the source that was compiled. addr2line takes that one. With a source of
# ten lines it says "source.cc:1929", where stl_tree.h:1929 is meant. The same source with -gdwarf-4
# is right, and so is llvm-addr2line (14.0.6, Debian 1:14.0.6-12) with DWARF 5. Seen on 2026-11-29:
# 59 of the 80 instructions that are said to be of source.cc are beyond its end.
#
# What helps: libdw or LLVM's symbolizer; or -gdwarf-4. Tools that ask addr2line, and tests that
# compare with it, are concerned: this project's compares C code only.
#
# Needs g++ 12.2.0, objdump, apt-get and dpkg of Debian 12 on x86-64; installs nothing. Ends with 1
# if addr2line does otherwise.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
[ "$(g++ -dumpfullversion)" = 12.2.0 ] || { echo "this needs g++ 12.2.0" >&2; exit 2; }
apt-get -qq download binutils-x86-64-linux-gnu=2.40-2 libbinutils=2.40-2 binutils-common=2.40-2
for package in *.deb; do dpkg -x "$package" root; done

cat >source.cc <<'END'
#include <map>
int main()
{
	std::map<int, int> numbers;

	for (int i = 0; i < 9; i++)
		numbers[i] = i;
	return numbers.size();
}
END
# lines COMPILER-OPTION: of all instructions that are said to be of source.cc, one a row.
lines() {
	g++ -O2 -g "$1" -o program source.cc
	objdump -d --no-show-raw-insn program | awk '/^ +[0-9a-f]+:/ { sub(":", "", $1); print "0x" $1 }' |
		LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu \
			root/usr/bin/x86_64-linux-gnu-addr2line -s -e program |
		sed -n 's/^source\.cc:\([0-9][0-9]*\).*/\1/p'
}
beyond() { lines "$1" | awk '$1 > 9 { beyond++ } END { print beyond + 0, "of", NR }'; }
five=$(beyond -gdwarf-5) four=$(beyond -gdwarf-4)
echo "addresses beyond the end of source.cc: DWARF 5: $five, DWARF 4: $four"
[ "${five%% *}" != 0 ] && [ "${four%% *}" = 0 ]
