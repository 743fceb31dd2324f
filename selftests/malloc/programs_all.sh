# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash disable=SC2154,SC2016 # variables of the test; scripts of other languages
# More programs for programs_test --all: their own tests where Debian has them, known outputs where
# not. Sourced. Each gives the same output at each run.
export PATH=$PATH:/usr/sbin LC_ALL=C OMP_NUM_THREADS=2
export -f wait_until

# Standard error, too, without what differs from run to run.
outcome() { "$@" 2>&1 | sed -nE 's/ in [0-9.]+s$//; /^(Ran|OK|FAILED|ERROR|FAIL)/p'; }
python_tests() { outcome python3 -m unittest "$@"; }
export -f outcome python_tests

seq 200000 | awk '{ print $1 * 7919 % 100003, "line", $1 }' >"$folder/lines"
mkdir -p "$folder/tree"
for ((i = 0; i < 300; i++)); do seq "$i" $((i * 7)) >"$folder/tree/file$i"; done

# --- programs that work on text and files ---------------------------------------------------

coreutils() {
	sort --parallel=2 -S 2M -n "$folder/lines" | uniq | shuf --random-source="$folder/lines" | sha256sum
	sort -k3,3 -u "$folder/lines" | tac | paste -d: - - | cut -d: -f2 | tr a-z A-Z | md5sum
	seq 1000000007 1000000400 | factor | fold -w 20 | join -t: - - | wc
	split -b 100000 "$folder/lines" "$folder/part." && cat "$folder"/part.* | cksum && rm "$folder"/part.*
	ls -lR --time-style=+ "$folder/tree" | od -c | tail -100 | b2sum
	du -s --apparent-size "$folder/tree" | expand | numfmt --to=iec --invalid=ignore | cut -f1
}
archives() {
	tar -C "$folder" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -c tree >"$folder/tree.tar"
	for packer in gzip\ -n bzip2 'xz -T2' 'zstd -T2'; do
		$packer -c "$folder/tree.tar" | tee "$folder/packed" | sha256sum
		${packer%% *} -dc <"$folder/packed" | tar -t | wc
	done
}
text_tools() {
	grep -rcE '(1|23)+4?5$' "$folder/tree" | sed "s|$folder||" | sort
	sed -E 's/([0-9]+) line ([0-9]+)/\2-\1/; N; N; h; G; s/\n/+/g' "$folder/lines" | sha256sum
	find "$folder/tree" -size +4 -newer / -o -name '*9' | sort | sed "s|$folder||" | xargs -n 20 -P 1 | tail -5
	diff "$folder/tree/file200" "$folder/tree/file250" | sha256sum
}
export -f coreutils archives text_tools
program sort coreutils_run_as_without bash -c coreutils
program zstd archivers_run_as_without bash -c archives
program grep grep_sed_find_and_diff_run_as_without bash -c text_tools
program gawk gawk_runs_as_without gawk '{ a[$1 % 1000] = a[$1 % 1000] $3; n[$3 % 77]++ }
	END { for (i in a) s += length(a[i]); asorti(n, k); print s, length(k), k[7]; printf "%s\n", substr(a[17], 1, 300) }' "$folder/lines"
echo 'define(f, `ifelse($1, 0, , `$1 f(decr($1))'"'"')'"'"')f(1500)' >"$folder/numbers.m4"
program m4 m4_runs_as_without m4 "$folder/numbers.m4"
program bc bc_runs_as_without bash -c 'echo "scale=600; 4*a(1); e(1); 2^3000" | bc -l'
program openssl openssl_runs_as_without bash -c 'for a in sha512 blake2b512 sha3-256; do openssl dgst -$a -r <"$folder/lines"; done
	openssl enc -aes-256-cbc -pbkdf2 -iter 1000 -S 0011223344556677 -k key <"$folder/lines" | sha256sum; openssl prime 1000000007 1000000011'
program rsync rsync_runs_as_without bash -c 'rm -rf "$folder/copy"; rsync -a --stats "$folder/tree/" "$folder/copy" | grep -E "^(Number|Total file)"
	touch "$folder/copy/file5"; rsync -ac --delete -i "$folder/tree/" "$folder/copy" | sort; diff -r "$folder/tree" "$folder/copy" && echo same'
program curl curl_runs_as_without bash -c 'curl -s "file://$folder/tree/file[100-200]" | sha256sum'
program vim vim_runs_as_without bash -c 'vim -u NONE -es -n "$folder/lines" +"%s/line \(\d*\)7/seven \1/" +"g/seven/m0" +"%!sort" +"1,50p" +q!'
program groff groff_runs_as_without bash -c 'groff -man -Tutf8 Documentation/*.1 Documentation/*.8 | sha256sum'

# --- languages --------------------------------------------------------------------------------

for suite in gc threading subprocess dict list bytes json re sqlite3 zlib ctypes weakref fork1 memoryview asyncio; do
	program python3 "the_test_of_pythons_${suite//./_}_ends_as_without" bash -c "python_tests test.test_$suite"
done
program perl perl_runs_as_without perl -MDigest::SHA=sha256_hex -MStorable=dclone -MList::Util=sum -e '
	my %h = map { $_ => [ map { "x" x ($_ % 90) } 1 .. $_ % 50 ] } 1 .. 5000; my $c = dclone(\%h);
	print sha256_hex(join ",", map { "$_:" . @{$c->{$_}} } sort keys %$c), "\n";
	for my $i (1 .. 5) { my $p = fork // die; if (!$p) { my $s = "a" x 1e6; $s =~ s/a(a)/$1b/g; exit length($s) % 256 } waitpid $p, 0; print $? >> 8, "\n" }
	local $_ = "abc " x 20000; print sum(map { length } split), " ", s/(\w)(\w)/$2$1/g, "\n";'
program perl the_threads_of_perl_run_as_without perl -Mthreads -e '
	print join(",", map { $_->join } map { my $n = $_; threads->create(sub { my %h; $h{$_ % 999} .= "x" for 1 .. 30000 * $n; return length $h{7} }) } 1 .. 4), "\n"'
program ruby the_fibers_and_threads_of_ruby_run_as_without ruby -e '
	f = (0...500).map { |i| Fiber.new { s = []; 50.times { |j| s << "a" * (i + j); Fiber.yield s.sum(&:length) }; -1 } }
	puts (0...50).sum { f.sum(&:resume) }
	puts (0...8).map { |i| Thread.new { (0...20000).map { |j| (i * j).to_s }.join.hash.class.to_s + i.to_s } }.map(&:value).join(",")
	pid = fork { GC.compact rescue nil; exit "x".*(5_000_000).length % 251 }; Process.wait pid; puts $?.exitstatus; GC.start; puts ObjectSpace.each_object(Fiber).count > 0'
program node the_workers_of_node_run_as_without node -e '
	const { Worker, isMainThread } = require("worker_threads"), crypto = require("crypto"), zlib = require("zlib")
	const code = `const { parentPort, workerData } = require("worker_threads"); let a = []; for (let i = 0; i < 20000; i++) a.push(Buffer.from("x".repeat(i % 500) + workerData))
		parentPort.postMessage(require("crypto").createHash("sha256").update(Buffer.concat(a)).digest("hex"))`
	Promise.all([1, 2, 3, 4].map(n => new Promise((ok, bad) => new Worker(code, { eval: true, workerData: n }).on("message", ok).on("error", bad)))).then(r => {
		console.log(r.join("\n")); console.log(zlib.gunzipSync(zlib.gzipSync(Buffer.alloc(5e6, "abc"))).length)
		console.log(crypto.pbkdf2Sync("a", "b", 1000, 64, "sha512").toString("hex")) })'
program php the_modules_of_php_run_as_without php -r '
	$d = new SQLite3(":memory:"); $d->exec("create table t(a, b)"); for ($i = 0; $i < 20000; $i++) $d->exec("insert into t values($i, \"" . str_repeat("x", $i % 90) . "\")");
	echo json_encode($d->querySingle("select count(*), sum(a), sum(length(b)) from t where a % 3", true)), "\n";
	$x = new DOMDocument(); $r = $x->appendChild($x->createElement("r")); for ($i = 0; $i < 20000; $i++) $r->appendChild($x->createElement("e", "text $i"))->setAttribute("n", $i);
	$s = $x->saveXML(); $y = new DOMDocument(); $y->loadXML($s); echo strlen($s), " ", (new DOMXPath($y))->query("//e[@n mod 7 = 3]")->length, " ", md5(serialize(range(1, 50000))), "\n";
	preg_match_all("/(\w+) (\d+)/", $s, $m); echo count($m[0]), "\n";'
program lua5.4 lua_runs_as_without lua5.4 -e 't = {} for i = 1, 200000 do t[i] = ("x"):rep(i % 50) .. i end
	c = {} for i = 1, 1000 do c[i] = coroutine.wrap(function() for j = 1, 20 do coroutine.yield(i * j) end end) end
	s = 0 for j = 1, 20 do for i = 1, 1000 do s = s + c[i]() end end print(s, #table.concat(t), select(2, table.concat(t):gsub("x(%d)", "%1y")))'
cat >"$folder/numbers.tcl" <<'END'
for {set i 0} {$i < 50000} {incr i} {dict set d [expr {$i % 999}] [string repeat x [expr {$i % 77}]]; lappend l $i}
puts "[dict size $d] [string length [join $l]] [llength [lsort -dictionary $l]] [regexp -all {1(2|3)} $l]"
END
program tclsh tcl_runs_as_without tclsh "$folder/numbers.tcl"

# --- compilers and what they make ---------------------------------------------------------------

cat >"$folder/words.cc" <<'END'
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <thread>
int main()
{
	std::map<std::string, std::shared_ptr<std::string>> m;
	std::string sum;
	std::thread t([] { for (int i = 0; i < 20000; i++) std::make_unique<char[]>(i); });
	for (int i = 0; i < 20000; i++) { std::ostringstream s; s << i * 37 % 997; auto &p = m[s.str()]; p = std::make_shared<std::string>(p ? *p + s.str() : s.str()); }
	for (auto &e : m) if (std::regex_match(e.first, std::regex("[1-4]+"))) sum += *e.second;
	try { std::string(sum.max_size() + 1ul, 'x'); } catch (const std::length_error &) { sum += "!"; }
	t.join();
	std::cout << m.size() << " " << sum.size() << std::endl;
}
END
compile_and_run() { "$1" -std=c++17 -O1 -pthread -o "$folder/words" "$folder/words.cc" && "$folder/words" && objcopy -O binary -j .text "$folder/words" /dev/stdout | sha256sum; }
export -f compile_and_run
program g++ gxx_and_its_program_run_as_without bash -c 'compile_and_run g++'
program clang++ clang_and_its_program_run_as_without bash -c 'compile_and_run clang++'
program gdb gdb_runs_as_without bash -c 'gdb -nx -batch -ex "info functions ^hab_" -ex "disassemble hab_unwind" build/libhab.a 2>/dev/null | sha256sum; gdb -nx -batch -ex "ptype struct hab_live_table" -ex "info line hab_unwind" build/libhab-malloc.so'
program make make_runs_as_without bash -c 'make -nB -j2 lib | sort | sha256sum'
program git git_packs_as_without bash -c 'rm -rf "$folder/clone"; git clone -q --bare . "$folder/clone" && cd "$folder/clone" && git repack -qadf --threads=2 --depth=20 && git fsck --full 2>&1 | sort && git rev-list --objects --all | sha256sum'
cat >"$folder/Many.java" <<'END'
import java.util.*;
import java.util.stream.*;
class Many {
	public static void main(String[] arguments) throws Exception {
		var sum = IntStream.range(0, 2000000).parallel().mapToObj(i -> "x" + i % 5003).collect(Collectors.groupingByConcurrent(s -> s, Collectors.counting()));
		var buffer = java.nio.ByteBuffer.allocateDirect(20 << 20);
		for (int i = 0; i < 50; i++) { var t = new Thread(() -> java.nio.ByteBuffer.allocateDirect(100000)); t.start(); t.join(); }
		System.out.println(sum.size() + " " + new TreeMap<>(sum).firstEntry() + " " + buffer.capacity());
	}
}
END
least=20 program java java_collects_and_sorts_as_without java -Xmx256m -XX:+UseG1GC "$folder/Many.java"

# --- documents and pictures ---------------------------------------------------------------------

cat >"$folder/table.xsl" <<'END'
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:template match="/a"><t><xsl:for-each select="b[position() mod 3 = 0]"><r n="{position()}"><xsl:value-of select="concat(., @c)"/></r></xsl:for-each></t></xsl:template>
</xsl:stylesheet>
END
program xsltproc xsltproc_runs_as_without xsltproc "$folder/table.xsl" "$folder/large.xml"
program dot graphviz_runs_as_without bash -c '{ echo "digraph {"; for ((i = 0; i < 200; i++)); do echo "$((i * 7 % 60)) -> $((i * 13 % 60))"; done; echo "}"; } | dot -Tsvg'
picture() {
	convert -seed 7 -size 600x400 gradient:red-blue -swirl 90 -blur 0x4 -resize 150% -rotate 17 -depth 8 ppm:- | sha256sum
	convert logo: -edge 2 -colors 32 -quality 80 jpeg:- | convert jpeg:- -format '%w %h %k' info:
}
export -f picture
program convert imagemagick_runs_as_without bash -c picture
program gs ghostscript_runs_as_without bash -c 'groff -man -Tps Documentation/habctl.1 | gs -q -dSAFER -dBATCH -dNOPAUSE -sDEVICE=pgmraw -r100 -o - - | sha256sum'

# --- servers ----------------------------------------------------------------------------------

apache() {
	local modules=/usr/lib/apache2/modules port=$((20000 + RANDOM % 10000)) module
	mkdir -p "$folder/apache"
	{
		for module in mpm_event authz_core dir mime deflate filter; do
			echo "LoadModule ${module}_module $modules/mod_$module.so"
		done
		printf '%s\n' "Listen 127.0.0.1:$port" "ServerName localhost" "PidFile $folder/apache/pid" \
			"ErrorLog $folder/apache/errors" "DocumentRoot $folder/tree" "TypesConfig /dev/null" \
			"DefaultRuntimeDir $folder/apache" "Mutex file:$folder/apache" "SetOutputFilter DEFLATE" "User nobody" "Group nogroup"
	} >"$folder/apache/conf"
	apache2 -f "$folder/apache/conf" -D FOREGROUND &
	wait_until curl -sf "http://127.0.0.1:$port/file9"
	curl -s --compressed "http://127.0.0.1:$port/file[1-299]" | sha256sum
	kill -TERM "$(cat "$folder/apache/pid")"
	wait $!
	echo "ended with $?"
}
export -f apache
chmod 755 "$folder" "$folder/tree"
program apache2 apache_runs_as_without bash -c apache

# The server's own process, without others.
make_and_select() {
	rm -rf "$folder/single/data"
	initdb -D "$folder/single/data" -A trust -U test --no-instructions || return
	postgres --single -D "$folder/single/data" postgres <<-'END'
		create table t as select i, md5(i::text) as m, repeat('x', i % 99) as r from generate_series(1, 50000) i
		create index on t(m)
		select count(*), sum(length(r)), min(m), (select r from t where m = md5('777')) from t where m > '3'
		select string_agg(m, ',' order by m) from (select m from t order by md5(m) limit 20) s
	END
}
export -f make_and_select
mkdir -p -m 777 "$folder/single"
as=(as_user)
program initdb postgres_makes_a_database_and_selects_as_without bash -c make_and_select
as=()
