# SPDX-License-Identifier: GPL-2.0-only
"""Programs of one kind of work each, for bench/python-programs: programs.py NAME SCALE.

json     writes and reads documents
regex    finds words by a pattern, and replaces them
dict     counts words in tables that grow
objects  makes a tree of objects with attributes, and walks it
calls    functions and generators that call each other, with numbers
"""
import json
import re
import sys

WORDS = [f"word{number * 7919 % 1009}" for number in range(1000)]


def work_json(scale):
    total = 0
    for number in range(scale * 100):
        row = {"id": number, "name": f"name {number}", "tags": [str(tag) for tag in range(10)]}
        total += len(json.loads(json.dumps(row))["tags"])
    return total


def work_regex(scale):
    text = " ".join(WORDS)
    total = 0
    for _ in range(scale):
        total += len(re.findall(r"\bw(\w+)[13579]\b", text))
        total += len(re.sub(r"[0-9]+", lambda found: found.group() * 2, text))
    return total


def work_dict(scale):
    total = 0
    for turn in range(scale):
        table = {}
        for word in WORDS:
            key = word + str(turn % 7)
            table[key] = table.get(key, 0) + 1
        total += len(table)
    return total


class Node:
    def __init__(self, depth):
        self.depth = depth
        self.children = [Node(depth - 1) for _ in range(2)] if depth else []

    def count(self):
        return 1 + sum(child.count() for child in self.children)


def work_objects(scale):
    return sum(Node(7).count() for _ in range(scale))


def fibonacci(number):
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)


def squares(number):
    for value in range(number):
        yield value * value * 1.5


def work_calls(scale):
    return sum(fibonacci(12) + sum(squares(200)) for _ in range(scale))


print(globals()["work_" + sys.argv[1]](int(sys.argv[2])))
