"""Command ``structboost`` with its subcommands and exit codes."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from structboost.errors import MissingExtraError, say
from structboost.progress import Progress

# Purpose of each subcommand, and the module whose add_arguments(subparsers) defines it; the module
# is imported when the subcommand is used.
COMMANDS = {
    "segment": ("segment photographs by a learned CRF", "structboost.segmentation.command"),
    "track": ("track an object through a video", "structboost.tracking.command"),
    "warmup": ("compile what training and prediction need", "structboost.warm_up"),
}
DONE, PARTIAL, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    Returns
    -------
    int
        0 if all was done, 1 if the result is partial (standard error lists what was left out), 2
        for bad input or arguments, 130 after Ctrl-C.  SIGTERM ends the program with 143.
    """
    words = sys.argv[1:] if arguments is None else arguments
    # Users write these options anywhere, and argparse wants them before the subcommand.
    end = [*words, "--"].index("--")
    flags = "-q", "--quiet", "-v", "--verbose"
    words = [*sorted(words[:end], key=lambda word: word not in flags), *words[end:]]
    if arguments is None:  # callers of `main` may want other warnings
        warnings.showwarning = _show_warning
        # Python would end at once, and leave processes behind.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    name = ["structboost", *[word for word in words if word in COMMANDS][:1]]
    try:
        options = _parse(_with_minus(words))  # which imports modules for seconds
        name += filter(None, [getattr(options, "action", None)])
        Progress.is_written_out = options.verbose
        with contextlib.redirect_stderr(io.StringIO() if options.quiet else sys.stderr) as shown:
            is_done = options.run(options)
        if not is_done and isinstance(shown, io.StringIO):
            say(shown.getvalue().rstrip())
        return DONE if is_done else PARTIAL
    except KeyboardInterrupt as stopped:
        code, text = INTERRUPTED, str(stopped) or "interrupted."
    except BrokenPipeError:
        return 128 + signal.SIGPIPE
    # The errors of files and images are ValueErrors.
    except (ValueError, OSError, MissingExtraError) as error:
        code, text = BAD_INPUT, str(error)
    finally:
        Progress.is_written_out = False
    say(f"{' '.join(name)}: {text}")
    return code


def _with_minus(words: Sequence[str]) -> list[str]:
    """Join words that begin like ``-5,`` to the option before them.

    argparse would read ``--box -5,-5,30,30`` as two options.
    """
    joined: list[str] = []
    for word in words:
        if joined and joined[-1].startswith("--") and re.match(r"-[\d.]+,", word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the options, importing only the subcommand in use."""
    parser = argparse.ArgumentParser(
        prog="structboost", description="Structured prediction by boosting."
    )
    parser.add_argument(
        "--version", action="version", version=f"structboost {version('structboost-learn')}"
    )
    add = parser.add_mutually_exclusive_group().add_argument
    add("-q", "--quiet", action="store_true", help="no words unless something fails or is left out")
    add("-v", "--verbose", action="store_true", help="a line for each frame, image or round")
    subparsers = parser.add_subparsers(
        dest="command", required=True, metavar="{" + ",".join(COMMANDS) + "}"
    )
    command = next((word for word in words if not word.startswith("-")), None)
    for name, (purpose, module) in COMMANDS.items():
        if name == command:
            importlib.import_module(module).add_arguments(subparsers)
        else:
            subparsers.add_parser(name, help=purpose, add_help=False)
    return parser.parse_args(words)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line, without its line of code."""
    say(f"structboost: warning: {message}")


if __name__ == "__main__":
    sys.exit(main())
