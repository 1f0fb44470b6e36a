"""Texts of errors, asked for in one way."""

import pytest


def refused(message, call, *arguments, **named):
    """Check that a call is refused as a wrong value or type, with a message (a pattern)."""
    with pytest.raises((TypeError, ValueError), match=message):
        call(*arguments, **named)
