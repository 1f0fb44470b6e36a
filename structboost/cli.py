"""The command line: ``structboost COMMAND``; each command lives beside what it runs."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

# Modules with a function ``add_arguments(subparsers)``; they import what they need when they run.
COMMANDS = ("structboost.tracking.command",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="structboost", description="Structured prediction by boosting.")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        importlib.import_module(name).add_arguments(subparsers)
    options = parser.parse_args(arguments)
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
