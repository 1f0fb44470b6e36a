"""Damaged and crafted variants of every kind of file.

``python -m tests.helpers.damaged_files 12000`` makes so many, in processes that may crash, and
prints what came of them.
"""

from __future__ import annotations

import collections
import json
import subprocess
import sys
import tempfile

import numpy as np

from tests.helpers.damaged_files.all_kinds import KINDS, SLOW
from tests.helpers.damaged_files.outcomes import Originals, outcome


def _run(name, first, last):
    with tempfile.TemporaryDirectory() as folder:
        originals = Originals(folder)
        for seed in range(first, last):
            sys.stdout.write(json.dumps([seed, *outcome(originals, name, seed)]) + "\n")
            sys.stdout.flush()


def main(n):
    counts = {name: collections.Counter() for name in KINDS}
    bad = []
    for name in KINDS:
        # The slow ones get 40 percent of what the others get.
        share = int(np.ceil(n / (len(KINDS) - 0.6 * len(SLOW)) * (0.4 if name in SLOW else 1.0)))
        first = 0
        while first < share:
            command = [
                sys.executable,
                "-m",
                "tests.helpers.damaged_files",
                "--run",
                name,
                str(first),
                str(share),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            for line in done.stdout.splitlines():
                seed, result, how = json.loads(line)
                counts[name][result.split(":")[0]] += 1
                if result[0].isupper():
                    bad.append((name, seed, how, result))
                first = seed + 1
            if done.returncode:
                bad.append((name, first, "", f"CRASH {done.returncode} {done.stderr[-300:]}"))
                counts[name]["CRASH"] += 1
                first += 1
        print(name, dict(counts[name]), flush=True)  # noqa: T201
    print("all", dict(sum(counts.values(), collections.Counter())))  # noqa: T201
    for entry in bad[:60]:
        print(entry)  # noqa: T201
    return int(bool(bad))


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        _run(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        sys.exit(main(int(sys.argv[1])))
