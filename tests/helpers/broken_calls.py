"""Errors and Ctrl-C at chosen calls inside a fit."""

import inspect
import signal
import sys
import threading
from contextlib import contextmanager

# Module that puts things in order after an error; none arises in it.
_SPARED = "structboost.runtime.interrupts"


class BreakError(RuntimeError):
    """Error that arises at a chosen call."""


def break_here():
    """Raise BreakError."""
    raise BreakError("this call was broken")


def press_ctrl_c():
    """Send the signal of Ctrl-C to this process."""
    signal.raise_signal(signal.SIGINT)


@contextmanager
def at_calls(calls=(), action=break_here):
    """Count the calls of functions of this package in this thread, and act at some of them.

    ``calls`` are the indices of these, ascending.  The list that the block gets holds the number so
    far.
    """
    count, pending = [0], list(calls)

    def profile(frame, event, _):
        name = frame.f_globals.get("__name__", "")
        # Python drops what arises while it clears a generator away.
        is_spared = name.startswith(_SPARED) or frame.f_code.co_flags & inspect.CO_GENERATOR
        if event != "call" or not name.startswith("structboost.") or is_spared:
            return
        count[0] += 1
        if pending and count[0] > pending[0]:
            pending.pop(0)
            if not pending:
                sys.setprofile(None)  # the rest of the fit goes at its own pace
            action()
            if pending:
                sys.setprofile(profile)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(before)


def hears_ctrl_c():
    """Whether Ctrl-C reaches this thread and no handler of the user takes it."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
