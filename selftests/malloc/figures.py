# SPDX-License-Identifier: GPL-2.0-only
"""Compares what people read with the truth: figures.py TRUTH COLUMN NAME...

The text is on standard input. Of its lines that have a NAME as a word, COLUMN of the estimates with
an interval ("7.56 MiB  4.25 to 12.6 MiB") has to have the truth within: 0 is the first, -1 the last
in bytes.

The intervals are those of 95 %. Each is made as wide as 5.33 standard errors, beyond which a right
figure is once in ten million times, by 5.33 / 1.96; three digits allow 0.5 % more.
TRUTH has the lines of malloc_figures, "NAME ALLOCATED OBJECTS IN-USE", or those of malloc_target,
"site NAME FIRST END ALLOCATED IN-USE". The NAME "total" is the sum of all.
"""
import re
import sys

UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "k": 1e3, "M": 1e6}
UNIT = r" ?(KiB|MiB|GiB|B|k|M)?\b"
FIGURE = (r"([\d.]+)" + UNIT + r"(?:[^\d]*95 %:)?\s+([\d.]+)" + UNIT + r" to ([\d.]+)" + UNIT)
WIDER = 5.33 / 1.96
ROUNDING = 0.005


def read_truth(path, column):
    truth = {}
    with open(path, encoding="utf-8") as file:
        for words in map(str.split, file):
            if words[:1] == ["site"]:
                truth[words[1]] = float(words[4:][column])
            elif len(words) == 4:
                truth[words[0]] = float(words[1:][column])
    truth["total"] = sum(truth.values())
    return truth


def is_in(line, column, truth):
    figures = re.findall(FIGURE, line)
    if column < 0:
        figures = [figure for figure in figures if figure[5].endswith("B")]
    value, unit, low, low_unit, high, ends = figures[column]
    value = float(value) * UNITS[unit]
    low = float(low) * UNITS[low_unit or ends]
    high = float(high) * UNITS[ends]
    low = (value - (value - low) * WIDER) * (1 - ROUNDING)
    # Above the value it is an interval of the logarithm.
    high = (value * (high / value)**WIDER if value else high * WIDER) * (1 + ROUNDING)
    print("in" if low <= truth <= high else "OUT", truth, "is", line.strip())
    return low <= truth <= high


def main():
    column, names = int(sys.argv[2]), set(sys.argv[3:])
    truth = read_truth(sys.argv[1], column)
    good = True
    for line in sys.stdin:
        found = names & set(re.findall(r"\w+", line))
        if found:
            name = found.pop()
            names.remove(name)
            good &= is_in(line, column, truth[name])
    sys.exit(f"not found: {names}" if names else not good)


main()
