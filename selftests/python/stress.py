# SPDX-License-Identifier: GPL-2.0-only
"""Programs that are hard on who reads frames. stress.py NAME: ends with "done"."""
import atexit
import collections
import concurrent.futures
import ctypes
import gc
import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
import zlib

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


def small(count, size=2000):
    return len([bytearray(size) for _ in range(count)])


def deep(depth):
    kept = bytearray(1500)
    return len(kept) + (deep(depth - 1) if depth else 0)


def deep_in_c(depth):
    kept = bytearray(1500)
    return len(kept) + (max(map(deep_in_c, [depth - 1])) if depth else 0)


def endless():
    kept = bytearray(1000)
    endless()
    return kept


def recursion():
    """Beyond all limits of depth."""
    def run():
        sys.setrecursionlimit(100000)
        deep(8000)
        deep_in_c(1000)
        sys.setrecursionlimit(1000)
        try:
            endless()
        except RecursionError:
            pass

    threading.stack_size(256 << 20)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def threads():
    """With the lock and without it."""
    data = os.urandom(1 << 20)

    def without():
        for size in range(300):
            libc.free(libc.malloc(50000 + size))

    def short():
        for _ in range(30):
            thread = threading.Thread(target=lambda: bytearray(20000))
            thread.start()
            thread.join()

    work = [without, without, short, lambda: zlib.compress(data, 1),
            lambda: hashlib.sha256(data + b'x').digest(), lambda: small(3000), lambda: small(3000)]
    all_threads = [threading.Thread(target=one) for one in work]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()


def forks():
    """While another thread allocates."""
    stop = []

    def loop():
        while not stop:
            bytearray(3000)

    thread = threading.Thread(target=loop)
    thread.start()
    for _ in range(3):
        child = os.fork()
        if not child:
            small(300)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    with multiprocessing.get_context('fork').Pool(2) as pool:
        pool.map(small, range(50, 60))
    subprocess.run([sys.executable, '-S', '-c', '[bytearray(5000) for _ in range(100)]'], check=True)
    stop.append(True)
    thread.join()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(small, range(50, 60)))


def interpreters():
    """Subinterpreters, at the same time where that is possible."""
    try:
        import _interpreters as module
    except ImportError:
        import _xxsubinterpreters as module
    code = 'def inner(): return [bytearray(5000) for _ in range(100)]\nfor _ in range(20): inner()\n'

    def run():
        interpreter = module.create()
        getattr(module, 'exec', module.__dict__.get('run_string'))(interpreter, code)
        module.destroy(interpreter)

    run()
    if sys.version_info >= (3, 12):
        all_threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in all_threads:
            thread.start()
        for thread in all_threads:
            thread.join()
    small(100)


def code():
    """Functions that die, at addresses that are used again; signals, traces, collections."""
    def handler(number, frame):
        small(3)

    def next_signal():
        # By an interval a handler would begin within the one before on a slow machine, without end.
        if not signal.getitimer(signal.ITIMER_REAL)[0]:
            signal.setitimer(signal.ITIMER_REAL, 0.0005)

    def trace(frame, event, argument):
        bytearray(300)
        return trace

    signal.signal(signal.SIGALRM, handler)
    gc.callbacks.append(lambda phase, information: bytearray(3000))
    for number in range(150):
        next_signal()
        names = {}
        exec('def f%d(n):\n    return bytearray(n + %d)\n' % (number, number), names)
        names['f%d' % number](5000)
        eval('(lambda: bytearray(%d))()' % (4000 + number))
    for number in range(10):
        collections.namedtuple('Tuple%d' % number, 'a b')(1, 2)
    sys.settrace(trace)
    for _ in range(20):
        next_signal()
        small(10)
    sys.settrace(None)
    gc.collect()
    signal.setitimer(signal.ITIMER_REAL, 0)


class AtEnd:
    def __del__(self):
        self.kept = [bytearray(2000) for _ in range(30)]


def shutdown():
    """Threads that go on while the interpreter ends."""
    def with_lock():
        while True:
            kept = [bytearray(500) for _ in range(50)]
            del kept

    def without_lock():
        while True:
            libc.free(libc.malloc(100000))

    for one in (with_lock, with_lock, without_lock, without_lock):
        threading.Thread(target=one, daemon=True).start()
    kept = [AtEnd() for _ in range(10)]
    cycle = AtEnd()
    cycle.itself = cycle
    atexit.register(lambda: small(100))
    weakref.finalize(kept[0], lambda: bytearray(10000))
    time.sleep(0.05)


if __name__ == '__main__':
    globals()[sys.argv[1]]()
    print('done', flush=True)
