# SPDX-License-Identifier: GPL-2.0-only
import json, os, threading
wrong = []
def work():
    while not os.path.exists("stop"):
        values = [{"number": i, "text": str(i) * 20, "list": list(range(i % 10))} for i in range(300)]
        if json.loads(json.dumps(values)) != values:
            wrong.append(1)
threads = [threading.Thread(target=work) for _ in range(3)]
for t in threads: t.start()
open("began", "w").close()
for t in threads: t.join()
print("wrong" if wrong else "right")
