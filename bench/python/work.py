# SPDX-License-Identifier: GPL-2.0-only
"""Programs for bench/programs/runtime.c.

    work.py WORKLOAD SCALE

json      SCALE times: reads documents, keeps them all, builds indices of them and writes those.
compile   SCALE modules of the standard library: reads all, keeps their trees, as a checker of
          types does; then writes each tree as text, and compiles that.
rows      reads a table of SCALE rows, groups and sorts it.
threads   four threads take the work of "json" and "compile" from a queue, a piece at a time.

Sets "result", a hash of all that was made.
"""
import ast
import csv
import glob
import hashlib
import io
import json
import os
import queue
import sys
import threading

DOCUMENTS = "/usr/share/iso-codes/json/iso_*.json"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def digest(parts):
    made = hashlib.sha256()
    for part in parts:
        made.update(part.encode())
    return made.hexdigest()[:16]


# --- the pieces: each returns texts ---------------------------------------------------------------


def index_documents(texts):
    """Each field's values, and the entries that have them."""
    documents = [json.loads(text) for text in texts]
    indices = {}
    for document in documents:
        for entries in document.values():
            for entry in entries:
                for field, value in entry.items():
                    indices.setdefault(field, {}).setdefault(str(value), []).append(entry)
    return [json.dumps(index, sort_keys=True) for _, index in sorted(indices.items())]


def code_texts(code):
    """A code object as text, without addresses."""
    yield code.co_code.hex()
    yield " ".join(code.co_names + code.co_varnames)
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from code_texts(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))
        else:
            yield repr(constant)


def compile_tree(tree):
    text = ast.unparse(tree)
    return [text, *code_texts(compile(text, "module", "exec"))]


# --- the workloads --------------------------------------------------------------------------------


def documents():
    return [read(path) for path in sorted(glob.glob(DOCUMENTS))]


def modules(number):
    folder = os.path.dirname(os.__file__)
    return [read(path) for path in sorted(glob.glob(folder + "/*.py"))[:number]]


def work_json(scale):
    texts = documents()
    return digest(part for _ in range(scale) for part in index_documents(texts))


def work_compile(scale):
    trees = [ast.parse(text) for text in modules(scale)]
    return digest(part for tree in trees for part in compile_tree(tree))


def work_rows(scale):
    text = "id,name,place,number\n" + "".join(
        f"{i},name {i * 7919 % 100003},place {i % 997},{i * 31 % 10007}\n" for i in range(scale))
    groups = {}
    for row in csv.DictReader(io.StringIO(text)):
        groups.setdefault(row["place"], []).append(row)
    sums = []
    for place, rows in sorted(groups.items()):
        rows.sort(key=lambda row: (row["name"], int(row["id"])))
        sums.append(f"{place} {sum(int(row['number']) for row in rows)} {rows[0]['name']}")
    return digest(sums)


def work_threads(scale):
    pieces = queue.SimpleQueue()
    texts = documents()
    results = {}

    def serve():
        while True:
            number, piece, argument = pieces.get()
            if piece is None:
                return
            results[number] = digest(piece(argument))

    for number, text in enumerate(modules(scale)):
        pieces.put((2 * number, lambda text: compile_tree(ast.parse(text)), text))
        if number % 4 == 0:
            pieces.put((2 * number + 1, index_documents, texts[:4]))
    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        pieces.put((None, None, None))
        thread.start()
    for thread in threads:
        thread.join()
    return digest(results[number] for number in sorted(results))


result = {"json": work_json, "compile": work_compile, "rows": work_rows,
          "threads": work_threads}[sys.argv[1]](int(sys.argv[2]))
