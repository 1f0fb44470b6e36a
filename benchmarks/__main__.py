"""Command line: ``python -m benchmarks list``, ``run``, ``all``, ``check`` and ``index``."""

import os
import signal
import sys

from benchmarks.runner.processor import CHILD, measured_alike

if __name__ == "__main__":
    # Python's own handler, also where the shell ignores these signals or lets them kill: an
    # interrupted run ends the process that it measures, and says so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if sys.argv[1:2] == ["run"] and CHILD not in os.environ:
        sys.exit(measured_alike([sys.executable, "-m", "benchmarks", *sys.argv[1:]]))
    from benchmarks.runner.commands import main

    sys.exit(main())
