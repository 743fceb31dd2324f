# SPDX-License-Identifier: GPL-2.0-only
my ($wrong, $round) = (0, 0);
open(my $began, ">", "began"); close($began);
until (-e "stop") {
	my %values = map { $_ => "$_" x 50 } 1 .. 2000;
	$wrong = 1 if join(",", map { length $values{$_} } sort { $a <=> $b } keys %values) !~ /^50,50/;
}
print $wrong ? "wrong\n" : "right\n";
