# SPDX-License-Identifier: GPL-2.0-only
"""check_stacks.py SAID FOLDED [RIGHT PLACES DEEP]

The Python frames of each stack whose innermost one is a place that the program has said are a stack
that it has said, or the innermost frames of one that has more than there is room for. Nothing of the C library that calls the program is within them.

Prints how many were right, and the first that were not. Fails if fewer than RIGHT stacks (60) are,
or of fewer than PLACES places (15), or if fewer than DEEP (1) were too deep.
"""
import re
import sys

FRAME = re.compile(r'[^;]+ \([^;()]+\)$')
CUT = '[callers not recorded]'

with open(sys.argv[1], encoding='utf-8') as said:
    stacks = set(said.read().split('\n'))
ends = {stack.split(';')[-1] for stack in stacks}
least = [int(number) for number in sys.argv[3:]] or [60, 15, 1]
right, deep, wrong, places = 0, 0, [], set()


def is_right(all_frames, frames):
    global deep
    if ';'.join(frames) in stacks:
        return True
    deep += 1
    # The first is the program's name.
    return all_frames[1] == CUT and frames == all_frames[-len(frames):] and any(
        stack.endswith(';' + ';'.join(frames)) for stack in stacks)


with open(sys.argv[2], encoding='utf-8') as folded:
    for line in folded:
        all_frames = line.rstrip('\n').rsplit(' ', 1)[0].split(';')
        frames = [frame for frame in all_frames if FRAME.match(frame)]
        # The program's own bookkeeping, and the modules that it has loaded.
        if not frames or frames[-1] not in ends:
            continue
        # What is in C below the innermost function.
        while not FRAME.match(all_frames[-1]):
            del all_frames[-1]
        if is_right(all_frames, frames):
            right += 1
            places.add(frames[-1])
        else:
            wrong.append(';'.join(all_frames))
print(right, 'stacks of', len(places), 'places are right,', deep, 'too deep,', len(wrong), 'wrong')
for stack in wrong[:5]:
    print('wrong:', stack)
sys.exit(bool(wrong) or any(got < wanted for got, wanted in zip([right, len(places), deep], least)))
