# SPDX-License-Identifier: GPL-2.0-only
"""Allocates in many ways of calling, and says the stack of each place by the interpreter's own view.

callers.py FILE: writes a line for each stack: frames "function (file:line)", outermost first.

note() is called on the line that allocates, before it: so its caller's stack is that of the sample.
"""
import asyncio
import contextlib
import ctypes
import functools
import operator
import os
import re
import sys
import threading
import zlib

import reader

stacks = set()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


def note():
    frame = sys._getframe(1)
    stack = []
    while frame:
        code = frame.f_code
        name = getattr(code, 'co_qualname', code.co_name)
        file = os.path.basename(code.co_filename)
        stack.append('%s (%s:%d)' % (name, file, frame.f_lineno))
        frame = frame.f_back
    stacks.add(';'.join(reversed(stack)))


def plain(size):
    note(); return bytearray(size)


def in_the_middle(size):
    kept = len('text')
    note(); kept = (bytearray(size),
                    kept)
    return kept


def without_the_lock(size):
    note(); libc.free(libc.malloc(size))


def called_back(size):
    return callback(lambda number: len(plain(size)))(1)


class Base:
    def __init__(self, size):
        note(); self.data = bytearray(size)

    @classmethod
    def make(cls, size):
        return cls(size)

    @staticmethod
    def static(size):
        return plain(size)

    def __getattr__(self, name):
        note(); return bytearray(5000)

    def __lt__(self, other):
        note(); return bool(bytearray(3000))


class Derived(Base):
    def __init__(self, size):
        super().__init__(size)
        self.more = plain(size)


def generate(size):
    for _ in range(3):
        note(); yield bytearray(size)


def delegate(size):
    yield from generate(size)


def recurse(depth, size):
    note(); kept = bytearray(size)
    return kept if not depth else recurse(depth - 1, size)


def recurse_through_c(depth, size):
    note(); kept = bytearray(size)
    return kept if not depth else max(map(lambda d: len(recurse_through_c(d, size)), [depth - 1])) * b'x'


@contextlib.contextmanager
def managed(size):
    note(); kept = bytearray(size)
    yield kept
    note(); kept = bytearray(size)


def raises(size):
    try:
        note(); raise ValueError(bytearray(size))
    except ValueError:
        note(); return bytearray(size)
    finally:
        plain(size)


def deep(depth, size):
    """More functions than a stack has room for."""
    note(); kept = bytearray(size)
    if depth % 16 == 0:
        reader.wait()
    return kept if not depth else deep(depth - 1, size)


async def awaited(size):
    await asyncio.sleep(0)
    note(); return bytearray(size)


async def iterated(size):
    for _ in range(3):
        await asyncio.sleep(0)
        note(); yield bytearray(size)


async def tasks(size):
    await asyncio.gather(*[awaited(size) for _ in range(5)])
    async for _ in iterated(size):
        pass


def decorated(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)
    return wrapper


@decorated
def wrapped(size):
    return plain(size)


def other_kinds(size):
    list(map(plain, [size]))
    sorted([1, 2], key=lambda _: len(plain(size)))
    [plain(size) for _ in range(2)]
    {plain(size) is None for _ in range(2)}
    sum(len(plain(size)) for _ in range(2))
    functools.partial(plain, size)()
    functools.reduce(lambda a, b: plain(size), [1, 2, 3])
    operator.methodcaller('static', size)(Base)
    re.sub('x', lambda match: str(len(plain(size))), 'axb')
    dict(a=plain(size))
    list(filter(lambda _: plain(size), [1]))
    eval('plain(size)')
    max(Base(size), Base(size))
    getattr(Base(size), 'missing')


names = {}
exec(compile('def größe_大小(size):\n    note(); return bytearray(size)\n', '/папка/файл.py', 'exec'), names)
names['note'] = note


def compressing(data):
    for _ in range(3):
        note(); zlib.compress(data, 1)


def once(size):
    plain(size)
    in_the_middle(size)
    without_the_lock(size)
    called_back(size)
    Derived(size)
    Derived.make(size)
    Base.static(size)
    for _ in delegate(size):
        pass
    recurse(10, size)
    recurse_through_c(5, size)
    with managed(size):
        plain(size)
    raises(size)
    wrapped(size)
    names['größe_大小'](size)
    other_kinds(size)


def in_thread(size):
    for _ in range(10):
        once(size)
        reader.wait()


def main():
    data = os.urandom(1 << 20)
    threads = [threading.Thread(target=compressing, args=[data])]
    threads += [threading.Thread(target=in_thread, args=[4000]) for _ in range(2)]
    for thread in threads:
        thread.start()
    deep(700, 4000)
    for size in range(3000, 9000, 200):
        once(size)
        asyncio.run(tasks(size))
        reader.wait()
    for thread in threads:
        thread.join()


def write(path):
    with open(path, 'w', encoding='utf-8') as out:
        out.write('\n'.join(sorted(stacks)) + '\n')


if __name__ == '__main__':
    main()
    write(sys.argv[1])
