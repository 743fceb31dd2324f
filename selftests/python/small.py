# SPDX-License-Identifier: GPL-2.0-only
"""Small objects in known numbers. small.py COUNT: then "function bytes" of each; what kept() made
is in use at the end."""
import itertools
import os
import sys

import reader

held = []
PART = 10000


def parts(count):
    """Their first and their end; between them the reader is waited for."""
    for first in range(0, count, PART):
        yield first, min(first + PART, count)
        reader.wait()


def short_lived(count):
    for first, end in parts(count):
        for _ in itertools.repeat(None, end - first):
            bytes(100)


def kept(count):
    made = [None] * count
    held.append(made)
    for first, end in parts(count):
        for index in range(first, end):
            made[index] = bytes(100)


def numbers(count):
    made = [None] * count
    for first, end in parts(count):
        for index in range(first, end):
            made[index] = complex(index, 1)


def growing(count):
    for first, end in parts(count):
        for _ in itertools.repeat(None, end - first):
            items = []
            for _ in itertools.repeat(None, 50):
                items.append(None)


def grown():
    """Of the array of such a list: bytes of each size that it has."""
    items, sizes, empty = [], set(), sys.getsizeof([])
    for _ in range(50):
        items.append(None)
        sizes.add(sys.getsizeof(items) - empty)
    return sum(sizes)


def main(count):
    short_lived(count)
    kept(count)
    numbers(count)
    growing(count // 20)
    # An index is an object, too, and is not kept.
    array, index = count * 8, (count - 257) * sys.getsizeof(1000)
    print('short_lived', count * sys.getsizeof(bytes(100)))
    print('kept', count * sys.getsizeof(bytes(100)) + array + index)
    print('kept_in_use', count * sys.getsizeof(bytes(100)) + array)
    print('numbers', count * sys.getsizeof(1j) + array + index)
    print('growing', count // 20 * grown())


main(int(sys.argv[1]))
sys.stdout.flush()
# The interpreter frees nothing then.
os._exit(0)
