"""Tests that check_task samples too many outputs, with a warning."""

import itertools

import pytest

from structboost import check_task
from structboost.errors import SampledOutputsWarning
from tests.helpers.listed_outputs import Choose, candidates


class Endless(Choose):
    """Task that lists its outputs without end, and counts them."""

    def __init__(self, listed):
        self.listed = listed

    def outputs(self, x):
        for k in itertools.count():
            self.listed.append(k)
            yield k % len(x)

    def __reduce__(self):
        return (Choose, ())


@pytest.mark.filterwarnings("error")
def test_at_most_max_outputs_are_listed():
    listed = []

    X, Y = candidates(3)
    text = r"For 3 of 3 examples, the first of which is X\[0\], .* max_outputs"
    with pytest.warns(SampledOutputsWarning, match=text) as told:
        check_task(Endless(listed), X, Y, max_outputs=7)
    assert [one.filename for one in told] == [__file__]
    assert listed == [*range(8)] * 3
    with pytest.warns(SampledOutputsWarning, match="For 3 of 3 examples"):
        check_task(Choose(), X, Y, outputs=[itertools.repeat(0)] * 3, max_outputs=7)
    check_task(Choose(), X, Y, max_outputs=max(map(len, X)))
    with pytest.raises(ValueError, match="max_outputs is 0"):
        check_task(Choose(), X, Y, max_outputs=0)
