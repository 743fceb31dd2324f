# SPDX-License-Identifier: GPL-2.0-only
"""Libraries that allocate by themselves, or that switch native stacks: libraries.py FILE NAME; the file
is as that of callers.py. Ends with "missing" if the library is not here."""
import importlib
import sys

import callers
from callers import note, plain


def zeros(size):
    note(); return numpy.zeros(size, 'b')


def added(array):
    note(); return array + array


def per_element(value):
    note(); bytearray(4000); return value


def in_place(array):
    array.sort()
    return numpy.concatenate([zeros(5000), array])


def run_numpy():
    array = zeros(9000)
    apply = numpy.vectorize(per_element, otypes='b')
    for _ in range(60):
        added(array)
        in_place(array)
        apply(array[:5])
        numpy.apply_along_axis(lambda row: added(row), 0, array)


def in_greenlet(size):
    plain(size)
    greenlet.getcurrent().parent.switch()
    note(); kept = bytearray(size)
    between(size)
    return kept


def between(size):
    """Goes on with another greenlet, and back."""
    plain(size)
    greenlet.getcurrent().parent.switch()
    plain(size)


def run_greenlet():
    for size in range(3000, 9000, 100):
        all_greenlets = [greenlet.greenlet(in_greenlet) for _ in range(3)]
        while any(not one.dead for one in all_greenlets):
            for one in all_greenlets:
                if not one.dead:
                    one.switch(*([] if one else [size]))
            plain(size)


def served(size):
    for _ in range(3):
        note(); bytearray(size)
        gevent.sleep(0)
        callers.recurse(5, size)


def run_gevent():
    for size in range(3000, 9000, 200):
        gevent.joinall([gevent.spawn(served, size) for _ in range(5)])


name = sys.argv[2]
try:
    globals()[name] = importlib.import_module(name)
except ImportError:
    print('missing')
    sys.exit()
globals()['run_' + name]()
callers.write(sys.argv[1])
