<?php
// SPDX-License-Identifier: GPL-2.0-only
$wrong = false;
touch("began");
do {
	$values = [];
	for ($i = 0; $i < 300; $i++)
		$values[] = ["number" => $i, "text" => str_repeat("$i", 500), "list" => range(0, $i % 10)];
	if (json_decode(json_encode($values), true) != $values)
		$wrong = true;
	clearstatcache();
} while (!file_exists("stop"));
echo $wrong ? "wrong\n" : "right\n";
