# SPDX-License-Identifier: GPL-2.0-only
"""wait(): until the collector has read most of the samples in this program's channel, so that no
ring is half full, which would make the sampling interval larger. Without a channel it returns."""
import os
import time

HEAD, TAIL, RING = 8, 64, 256 << 10  # wire/channel.h
places = {}


def find():
    with open('/proc/self/maps', encoding='utf-8') as maps:
        return [int(line.split('-')[0], 16) for line in maps if '/memfd:hab-channel' in line]


def position(memory, offset):
    return int.from_bytes(os.pread(memory, 8, offset), 'little')


def wait():
    here = places.get(os.getpid())
    if not here:
        found = find()
        if not found:
            return
        here = places[os.getpid()] = os.open('/proc/self/mem', os.O_RDONLY), found[0]
    while position(here[0], here[1] + HEAD) - position(here[0], here[1] + TAIL) > RING // 8:
        time.sleep(0.001)
