"""Command line: ``python -m benchmarks list``, ``run`` and ``index``."""

import sys

from benchmarks.runner.machine import is_portable, measured_alike

if __name__ == "__main__":
    if sys.argv[1:2] == ["run"] and not is_portable():
        sys.exit(measured_alike([sys.executable, "-m", "benchmarks", *sys.argv[1:]]))
    from benchmarks.runner.commands import main

    sys.exit(main())
