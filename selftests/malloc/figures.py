#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Compares what our programs print for people with the exact figures of malloc_figures.

  figures.py TRUTH line FILE      the closing line of habrun
  figures.py TRUTH report FILE    a table of habctl report: each site, each column
  figures.py TRUTH sum FILE       the same, all its rows together: by command, by process
  figures.py TRUTH pprof COLUMN FILE   go tool pprof -top; COLUMN: bytes, objects or in_use
  figures.py TRUTH folded COLUMN FILE  folded stacks
  figures.py TRUTH top FILE       the sites of habctl top
  figures.py TRUTH json FILE      /v1/sites, which the page shows

TRUTH has the lines of malloc_figures: NAME ALLOCATED OBJECTS IN-USE.

An estimate fails if the truth is outside of the interval of 99.99 %: the printed one of 95 %, made
wider in both directions by 3.89 / 1.96. There are some thirty in a run, so one of 300 runs fails by
chance if all is right. Printed numbers have three digits, which allows 0.6 % more. What has no
interval beside it is compared with the table's, whose estimates it has to have.
"""
import json
import re
import sys

WIDER = 3.89 / 1.96
ROUNDING = 0.006
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
         "kB": 2**10, "MB": 2**20, "GB": 2**30, "": 1, "k": 1e3, "M": 1e6, "G": 1e9}
NUMBER = r"([\d.]+)\s?([KMGT]iB|[kMG]B|B|[kMG])?"
BYTES = r"([\d.]+) ([KMGT]iB|B)"
failed = []


def value(number, unit):
    return float(number) * UNITS[unit or ""]


def expect(what, truth, estimate, low, high):
    """The truth is in the interval, made wider."""
    least = (estimate - (estimate - low) * WIDER) * (1 - ROUNDING)
    most = (estimate + (high - estimate) * WIDER) * (1 + ROUNDING)
    good = least <= truth <= most
    print(f"{'ok' if good else 'wrong'}: {what}: {truth:.0f}, estimated as {estimate:.0f} "
          f"({low:.0f} to {high:.0f})")
    if not good:
        failed.append(what)


def equal(what, truth, shown, share=ROUNDING):
    good = abs(shown - truth) <= share * truth
    print(f"{'ok' if good else 'wrong'}: {what}: {shown:.0f}, and not more than {share:.1%} off "
          f"{truth:.0f}")
    if not good:
        failed.append(what)


def read_truth(path):
    with open(path, encoding="utf-8") as file:
        rows = [line.split() for line in file if len(line.split()) == 4]
    return {row[0]: dict(zip(("bytes", "objects", "in_use"), map(int, row[1:]))) for row in rows}


def interval(text):
    """The interval "LOW to HIGH UNIT": both have the unit, if LOW has none of its own."""
    match = re.match(NUMBER + r" to " + NUMBER, text)
    low, low_unit, high, high_unit = match.groups()
    return value(low, low_unit or high_unit), value(high, high_unit)


def read_table(path):
    """Rows of a report: their name, and each column's estimate and interval."""
    rows = {}
    columns = None
    pattern = r"\s*" + NUMBER + r"\s+" + NUMBER + r" to " + NUMBER
    with open(path, encoding="utf-8") as file:
        for line in file:
            if "95 % INTERVAL" in line:
                heads = re.findall(r"BYTES|OBJECTS|IN USE", line)
                columns = [{"BYTES": "bytes", "OBJECTS": "objects", "IN USE": "in_use"}[head]
                           for head in heads]
                continue
            match = columns and re.search(r"%\s+(\S.*)$", line)
            if not match:
                continue
            row, at = {}, 0
            for column in columns:
                cell = re.compile(pattern).match(line, at)
                if not cell:
                    # "0 B" or "-", without an interval.
                    cell = re.compile(r"\s*(?:" + NUMBER + r"|-)").match(line, at)
                    row[column] = (value(*cell.groups()),) * 3 if cell.group(1) else (0, 0, 0)
                else:
                    number, unit = cell.groups()[:2]
                    row[column] = (value(number, unit),
                                   *interval(" to ".join(line[cell.start():cell.end()]
                                             .split(" to ")).strip()
                                             [len(re.match(NUMBER, line[cell.start():].strip())
                                                  .group(0)):].strip()))
                at = cell.end()
            rows[match.group(1).split(" (")[0]] = row
    return rows


def check_line(truth, text):
    total = {key: sum(site[key] for site in truth.values()) for key in ("bytes", "in_use")}
    match = re.search(BYTES + r" allocated, " + BYTES + r" never freed \(95 %: (.*?)\)", text)
    if not match:
        sys.exit(f"no figures in: {text}")
    equal("allocated", total["bytes"], value(*match.group(1, 2)), 0.003)
    expect("never freed", total["in_use"], value(*match.group(3, 4)), *interval(match.group(5)))


def check_rows(truth, rows):
    for name, exact in truth.items():
        for column, (estimate, low, high) in rows[name].items():
            expect(f"{name} {column}", exact[column], estimate, low, high)


def check_sum(truth, rows):
    for column in next(iter(rows.values())):
        parts = [row[column] for row in rows.values()]
        expect(f"all {column}", sum(site[column] for site in truth.values()),
               *map(sum, zip(*parts)))


def check_same(rows, shown, column, share=0.02):
    """Other outputs of the same profile have the table's estimates."""
    for name, row in rows.items():
        if row[column][0]:
            equal(f"{name} {column}", row[column][0], shown.get(name, 0), share)


def main():
    truth = read_truth(sys.argv[1])
    kind, path = sys.argv[2], sys.argv[-1]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if kind == "line":
        check_line(truth, text)
    elif kind == "report":
        check_rows(truth, read_table(path))
    elif kind == "sum":
        check_sum(truth, read_table(path))
    elif kind == "json":
        for site in json.loads(text)["sites"]:
            if site["function"] in truth:
                exact = truth[site["function"]]
                expect(f"{site['function']} bytes", exact["bytes"], site["bytes"],
                       site["bytes_low"], site["bytes_high"])
    else:
        sys.exit(f"figures.py: unknown kind {kind}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
