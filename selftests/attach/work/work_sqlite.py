# SPDX-License-Identifier: GPL-2.0-only
import os, sqlite3
wrong = False
open("began", "w").close()
while not os.path.exists("stop"):
    base = sqlite3.connect(":memory:")
    base.execute("create table t (number integer primary key, text text)")
    base.executemany("insert into t values (?, ?)", ((i, str(i) * 50) for i in range(5000)))
    wrong |= base.execute("select sum(length(text)) from t").fetchone()[0] != 50 * sum(len(str(i)) for i in range(5000))
    base.close()
print("wrong" if wrong else "right")
