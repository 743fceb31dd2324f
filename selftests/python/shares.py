# SPDX-License-Identifier: GPL-2.0-only
"""Allocates in known shares, and keeps known bytes. shares.py LOOPS: then "function bytes" of each,
and "kept_by_... bytes" of what it keeps."""
import sys

import reader


def seventy():
    return bytearray(70000)


def thirty():
    return bytearray(30000)


class Keeper:
    def __init__(self):
        self.kept = []

    def three_quarters(self):
        self.kept.append(bytearray(75000))

    def one_quarter(self):
        self.kept.append(bytearray(25000))


def main(loops):
    keeper = Keeper()
    for loop in range(loops):
        seventy()
        thirty()
        if loop % 50 == 0:
            reader.wait()
        if loop % 10 == 0:
            keeper.three_quarters()
            keeper.one_quarter()
    kept = (loops + 9) // 10
    print('seventy', 70000 * loops)
    print('thirty', 30000 * loops)
    print('three_quarters', 75000 * kept)
    print('one_quarter', 25000 * kept)
    return keeper


keeper = main(int(sys.argv[1]))
# They are in use at the end: the interpreter frees nothing then.
sys.stdout.flush()
__import__('os')._exit(0)
