# SPDX-License-Identifier: GPL-2.0-only
my $wrong = 0;
open(my $began, ">", "began"); close($began);
until (-e "stop") {
	my %values = map { $_ => "$_" x 50 } 1 .. 2000;
	for my $number (1 .. 2000) {
		$wrong = 1 if $values{$number} ne "$number" x 50;
	}
}
print $wrong ? "wrong\n" : "right\n";
