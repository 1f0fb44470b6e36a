"""A function in a process of its own: killed at a time limit, or watched for its memory."""

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from benchmarks.runner.processor import ending

STARTUP_SECONDS = 300.0


class Ending(NamedTuple):
    """How a limited run ended."""

    result: dict[str, Any]  # what was returned, or the last report of a run out of time
    seconds: float  # from the first report to the end
    in_time: bool


def run_limited(limit: float, function: Callable[..., dict[str, Any]], *arguments: Any) -> Ending:
    """Call ``function(report, *arguments)`` in a new process and kill it after ``limit`` seconds.

    The clock starts with the first ``report(dict)``: imports and compilation do not count.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(sender, function, arguments), daemon=True)
    process.start()
    sender.close()
    try:
        return _listen(receiver, limit)
    except EOFError:
        process.join()
        raise RuntimeError(ending("The measured process", process.exitcode or 1)) from None
    finally:
        process.kill()
        process.join()
        receiver.close()


def limited(
    limit: float, function: Callable[..., dict[str, Any]], *arguments: Any
) -> dict[str, Any]:
    """The result of :func:`run_limited`, with how it ended."""
    end = run_limited(limit, function, *arguments)
    return {**end.result, "status": "ok" if end.in_time else "time_limit"}


def _call(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Body of the process."""
    result = function(lambda report: sender.send((False, report)), *arguments)
    sender.send((True, result))


def _listen(receiver: Connection, limit: float) -> Ending:
    """Take reports until the last one or the limit."""
    started = None
    deadline = time.perf_counter() + STARTUP_SECONDS
    last: dict[str, Any] = {}
    while receiver.poll(max(0.0, deadline - time.perf_counter())):
        is_result, content = receiver.recv()
        now = time.perf_counter()
        if started is None:
            started, deadline = now, now + limit
        if is_result:
            return Ending(content, now - started, True)
        last = content
    if started is None:
        raise RuntimeError(f"The measured process had not started after {STARTUP_SECONDS:.0f} s.")
    return Ending(last, time.perf_counter() - started, False)


def reset_peak_memory() -> int:
    """Resident bytes now; :func:`peak_memory` looks from here on (Linux)."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return _status("VmRSS")


def peak_memory() -> int:
    """Most resident bytes since :func:`reset_peak_memory`."""
    return _status("VmHWM")


def _status(field: str) -> int:
    """A field of /proc/self/status, in bytes."""
    with open("/proc/self/status") as file:
        (line,) = [line for line in file if line.startswith(field + ":")]
    return 1024 * int(line.split()[1])
