# SPDX-License-Identifier: GPL-2.0-only
"""check_stacks.py SAID FOLDED: the Python frames of each stack whose innermost one is a place that
the program has said are a stack that it has said.

Prints how many were right, and the first that were not. Fails without 60 of 15 places.
"""
import re
import sys

FRAME = re.compile(r'[^;]+ \([^;()]+:\d+\)$')
with open(sys.argv[1], encoding='utf-8') as said:
    stacks = set(said.read().split('\n'))
ends = {stack.split(';')[-1] for stack in stacks}
right, wrong, functions = 0, [], set()
with open(sys.argv[2], encoding='utf-8') as folded:
    for line in folded:
        frames = [frame for frame in line.rstrip('\n').rsplit(' ', 1)[0].split(';')
                  if FRAME.match(frame)]
        # The program's own bookkeeping, and the modules that it has loaded.
        if not frames or frames[-1] not in ends:
            continue
        if ';'.join(frames) in stacks:
            right += 1
            functions.add(frames[-1])
        else:
            wrong.append(';'.join(frames))
print(right, 'stacks of', len(functions), 'places are right,', len(wrong), 'wrong')
for stack in wrong[:5]:
    print('wrong:', stack)
sys.exit(bool(wrong) or right < 60 or len(functions) < 15)
