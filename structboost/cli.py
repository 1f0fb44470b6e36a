"""The command ``structboost``: its subcommands, and what their exit codes mean."""

from __future__ import annotations

import argparse
import importlib
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

# Purpose of each subcommand, and the module whose add_arguments(subparsers) defines it; the module
# is imported when the subcommand is used.
COMMANDS = {
    "segment": ("segment photographs by a learned CRF", "structboost.segmentation.command"),
    "track": ("track an object through a video", "structboost.tracking.command"),
    "warmup": ("compile what training and prediction need", "structboost.warm_up.command"),
}
DONE, PARTIAL, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    Returns
    -------
    int
        0 if all was done, 1 if the result is partial (something was left out, and standard error
        says what), 2 for bad input or arguments, 130 after Ctrl-C.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:  # else a caller may want the warnings
        warnings.showwarning = _show_warning
    try:
        options = _parsed(_with_minus(given))
    except KeyboardInterrupt:  # modules are imported for seconds
        _say(argparse.Namespace(command=given[0] if given else None), "interrupted.")
        return INTERRUPTED
    return _exit_code(options)


def _with_minus(given: Sequence[str]) -> list[str]:
    """The words given, those that begin like ``-5,`` joined to the option before them.

    argparse takes ``--box -5,-5,30,30`` for two options.
    """
    words: list[str] = []
    for word in given:
        if words and words[-1].startswith("--") and re.match(r"-[\d.]+,", word):
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words


def _parsed(given: Sequence[str]) -> argparse.Namespace:
    """The options; only the subcommand asked for is imported."""
    parser = argparse.ArgumentParser(
        prog="structboost", description="Structured prediction by boosting."
    )
    parser.add_argument(
        "--version", action="version", version=f"structboost {version('structboost-learn')}"
    )
    subparsers = parser.add_subparsers(
        dest="command", required=True, metavar="{" + ",".join(COMMANDS) + "}"
    )
    asked = given[0] if given else None
    for name, (purpose, module) in COMMANDS.items():
        if name == asked:
            importlib.import_module(module).add_arguments(subparsers)
        else:
            subparsers.add_parser(name, help=purpose, add_help=False)
    return parser.parse_args(given)


def _exit_code(options: argparse.Namespace) -> int:
    """Run ``options.run``, which returns whether all was done; bad input becomes a line."""
    try:
        return DONE if options.run(options) else PARTIAL
    except KeyboardInterrupt as stopped:
        _say(options, str(stopped) or "interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        return 128 + signal.SIGPIPE
    except (ValueError, OSError) as error:  # the errors of files and images are ValueErrors
        _say(options, str(error))
        return BAD_INPUT


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A line, without the line of code that warned."""
    sys.stderr.write(f"structboost: warning: {message}\n")


def _say(options: argparse.Namespace, text: str) -> None:
    name = " ".join(filter(None, (options.command, getattr(options, "action", None))))
    sys.stderr.write(f"structboost {name}: {text}\n")


if __name__ == "__main__":
    sys.exit(main())
