"""The command ``structboost``: a subcommand for each thing it does."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from collections.abc import Sequence

# What it is for, and the module whose add_arguments(subparsers) defines it; imported when it is asked for.
COMMANDS = {
    "segment": ("segment photographs by a learned CRF", "structboost.segmentation.command"),
    "track": ("track an object through a video", "structboost.tracking.command"),
}
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; its exit code, 2 if the arguments are wrong."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="structboost", description="Structured prediction by boosting.")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="{" + ",".join(COMMANDS) + "}")
    asked = given[0] if given else None
    for name, (purpose, module) in COMMANDS.items():
        if name == asked:
            importlib.import_module(module).add_arguments(subparsers)
        else:
            subparsers.add_parser(name, help=purpose, add_help=False)
    options = parser.parse_args(given)
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted.\n")
        return INTERRUPTED
    except BrokenPipeError:
        return 128 + signal.SIGPIPE


if __name__ == "__main__":
    sys.exit(main())
