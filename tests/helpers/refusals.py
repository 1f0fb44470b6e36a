"""Texts of errors, asked for in one way."""

import pytest

from structboost.errors import TaskError


def refused(message, call, *arguments, **named):
    """Check that a call is refused as a wrong value or type, with a message (a pattern).

    Returns the error.
    """
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        call(*arguments, **named)
    return caught.value


def named(words, call, *arguments):
    """Check that a call raises a TaskError with these words, in one line."""
    with pytest.raises(TaskError) as caught:
        call(*arguments)
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text
