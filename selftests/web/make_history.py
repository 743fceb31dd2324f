# SPDX-License-Identifier: GPL-2.0-only
"""
Writes a history of made-up processes, as habd does: a file of pprof a minute.

  server   pid 4001: handle_request allocates 600 MiB a minute, and import_batch three times as much
           in the ten minutes from the 20th on; cache_insert keeps 8 MiB more in each minute
  worker   pid 4002 of user 1000: make_row allocates 240 MiB a minute and keeps 64 MiB; its thread
           worker-io allocates 10 MiB a minute and keeps 1 MiB
  batch    pid 4003: sort_all allocates 1200 MiB a minute, from the 10th to the 15th
  <b>x</b> pids 4004 and 4005, in turn: names that would be elements of a page
  leaker   pid 4006, ended for want of memory in the 45th minute: leak had 48 of its 64 MiB in use
  <b>x</b> pid 4007, crashed a second later
  jq       pids 5001 to 5006, one a minute from the 40th on: parse allocates 60 MiB, 120 and so on;
           and pid 5007 of user 1000 in the 46th, 60 MiB
"""
import gzip
import math
import os
import time
import zlib

MIB = 1 << 20
SAMPLE = 512 << 10  # bytes that a sample stands for
TYPES = ("alloc_objects", "alloc_space", "alloc_samples", "alloc_space_error",
         "alloc_objects_error", "inuse_objects", "inuse_space", "inuse_samples",
         "inuse_space_error", "inuse_objects_error")


def _varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def _field(number, value):
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


class Profile:
    def __init__(self):
        self.strings, self.functions, self.samples = {"": 0}, {}, b""

    def text(self, text):
        return self.strings.setdefault(text, len(self.strings))

    def add(self, process, stack, allocated, in_use=0):
        """process: pid, uid and comm; stack: names, the root first."""
        frames = [self.functions.setdefault(name, len(self.functions) + 1)
                  for name in reversed(stack)]
        values = []
        for size in allocated, in_use:
            samples = math.ceil(size / SAMPLE)
            error = int(math.sqrt(samples) * SAMPLE)
            values += [size // 100, size, samples, error, error // 100]
        sample = _field(1, b"".join(map(_varint, frames)))
        sample += _field(2, b"".join(map(_varint, values)))
        for key, value in zip(("pid", "uid", "comm"), process):
            label = _field(1, self.text(key))
            label += _field(2, self.text(value)) if key == "comm" else _field(3, value)
            sample += _field(3, label)
        sample += _field(3, _field(1, self.text("kind")) + _field(2, self.text("sample")))
        self.samples += _field(2, sample)

    def write(self, path, start, seconds):
        out = b"".join(_field(1, _field(1, self.text(name)) + _field(2, self.text(
            "bytes" if "space" in name else "count"))) for name in TYPES)
        out += self.samples
        out += _field(3, _field(1, 1) + _field(2, 0x1000) + _field(3, 0x9000) +
                      _field(5, self.text("/usr/bin/app")) + _field(6, self.text("ab" * 20)) +
                      _field(7, 1))
        for name, number in self.functions.items():
            line = _field(1, number)
            # The same in each file, as of a real program.
            address = zlib.crc32(name.encode()) % 0x8000
            out += _field(4, _field(1, number) + _field(2, 1) + _field(3, 0x1000 + address) +
                          _field(4, line))
            out += _field(5, _field(1, number) + _field(2, self.text(name)) +
                          _field(3, self.text(name)))
        out += _field(9, start * 10 ** 9) + _field(10, seconds * 10 ** 9)
        out += b"".join(_field(6, text.encode()) for text in self.strings)
        with gzip.open(path, "wb", 1) as file:
            file.write(out)


SERVER = 4001, 0, "server"
WORKER = 4002, 1000, "worker"
WORKER_IO = 4002, 1000, "worker-io"
BATCH = 4003, 0, "batch"


def minute_of(number):
    """The profile of a minute, the first is 0."""
    profile = Profile()
    serve = ["main", "serve"]
    profile.add(SERVER, serve + ["handle_request", "parse_json"], 400 * MIB, 6 * MIB)
    profile.add(SERVER, serve + ["handle_request", "render"], 200 * MIB, 2 * MIB)
    profile.add(SERVER, serve + ["cache_insert"], 8 * MIB, (number + 1) * 8 * MIB)
    if 20 <= number < 30:
        profile.add(SERVER, serve + ["import_batch"], 1800 * MIB)
    profile.add(WORKER, ["main", "run", "make_row"], 240 * MIB, 64 * MIB)
    profile.add(WORKER_IO, ["main", "run", "read_row"], 10 * MIB, MIB)
    if 10 <= number < 15:
        profile.add(BATCH, ["main", "sort_all"], 1200 * MIB, 100 * MIB)
    hostile = 4004 + number % 2, 0, "<b>x</b>"
    profile.add(hostile, ["main", "<script>x()</script>"], 30 * MIB, 3 * MIB)
    if 40 <= number < 46:
        profile.add((4961 + number, 0, "jq"), ["main", "parse"], (number - 39) * 60 * MIB)
    if number == 46:
        profile.add((5007, 1000, "jq"), ["main", "parse"], 60 * MIB)
    return profile


def ended(folder, start):
    """The profiles of processes that were ended."""
    for pid, comm, why, limit in (4006, "leaker", "oom", 64 * MIB), (4007, "_b_x__b_", "SEGV", 0):
        profile = Profile()
        profile.add((pid, 1000, comm), ["main", "leak"], 60 * MIB, 48 * MIB)
        profile.add((pid, 1000, comm), ["main", "keep"], 4 * MIB, 4 * MIB)
        name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(start))
        profile.write(os.path.join(folder, f"end-{name}-{why}-1000-{pid}-{66 * MIB}-{limit}-{comm}"
                                   ".pb.gz"), start, 60)
        start += 1


def narrow(_):
    """
    A profile of 12000 MiB: work has 11760, short 234; 60 calls of loop have 5, half a pixel of a
    flame graph, and dust has 1, a tenth. In use is half of what work has allocated.
    """
    profile = Profile()
    wide, bash = (1, 0, "wide"), (2, 0, "bash")
    profile.add(wide, ["main", "work"], 11760 * MIB, 5880 * MIB)
    profile.add(bash, ["start", "short"], 234 * MIB)
    profile.add(bash, ["start"] + [f"loop{number}" for number in range(60)], 5 * MIB)
    profile.add(bash, ["start", "dust"], MIB)
    return profile


def write(folder, minutes, end=None, first=0, profile_of=minute_of):
    """
    Files of so many minutes, numbered from first, until the last full minute, with what profile_of
    makes. Returns the time of the first.
    """
    end = int(end or time.time()) // 60 * 60
    for number in range(minutes):
        start = end - (minutes - number) * 60
        name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(start))
        name = f"{first + number + 1:010}-{name}-60s.pb.gz"
        profile_of(first + number).write(os.path.join(folder, name), start, 60)
    return end - minutes * 60
