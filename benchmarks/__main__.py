"""Command line: ``python -m benchmarks list``, ``run``, ``all``, ``check`` and ``index``."""

import signal
import sys

from benchmarks.runner.commands import main

if __name__ == "__main__":
    # Python's own handler, also where the shell ignores these signals or lets them kill: an
    # interrupted run ends the process that it measures, and says so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
