"""Texts of errors, asked for in one way."""

import pytest


def refused(message, call, *arguments, **named):
    """Check that a call is refused as a wrong value or type, with a message (a pattern).

    Returns the error.
    """
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        call(*arguments, **named)
    return caught.value
