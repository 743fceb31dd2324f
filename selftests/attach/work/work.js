// SPDX-License-Identifier: GPL-2.0-only
const fs = require("fs");
let wrong = false;
fs.writeFileSync("began", "");
function work() {
	const values = [];
	for (let i = 0; i < 300; i++)
		values.push({ number: i, text: Buffer.alloc(5000, String(i)).toString() });
	const text = JSON.stringify(values);
	if (JSON.stringify(JSON.parse(text)) !== text)
		wrong = true;
	if (fs.existsSync("stop"))
		console.log(wrong ? "wrong" : "right");
	else
		setImmediate(work);
}
work();
