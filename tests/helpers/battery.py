"""Battery over all faces: ``python -m tests.helpers.battery [face or behaviour ...]``."""

from __future__ import annotations

import sys
import time

from structboost.conformance.behaviours import BEHAVIOURS
from structboost.conformance.check_face import face_report
from tests.helpers.faces import SLOW_FACES, faces


def reports(words=()):
    """Iterate over name and report of the faces, all or those with a word in their name."""
    names = {name for b in BEHAVIOURS for name in (b.kind, b.name)}
    only = names.intersection(words) or None
    words = [word for word in words if word not in names]
    slow = [(name, estimator, None, None, kind) for name, (estimator, kind) in SLOW_FACES.items()]
    for name, estimator, X, y, kind in [*faces(), *slow]:
        if not words or any(word in name for word in words):
            yield name, face_report(estimator, X, y, kind=kind, only=only)


def main(words):
    """Print the reports; the exit code is 1 if there is a fault."""
    n_calls = n_faults = 0
    began = time.process_time()
    for name, report in reports(words):
        report.face = name
        sys.stdout.write(f"{report}\n[{time.process_time() - began:.1f} CPU s so far]\n\n")
        sys.stdout.flush()
        n_calls += report.n_calls
        n_faults += len(report.faults)
    sys.stdout.write(f"{n_calls} calls, {n_faults} faults\n")
    return 1 if n_faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
