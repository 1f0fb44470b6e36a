"""Every fit replaces all fitted attributes in one step, or none."""

import threading

import pytest
from sklearn.base import BaseEstimator

from structboost.runtime.fitted_state import committed, fitted_attributes, unfitted_copy
from tests.helpers.broken_calls import at_calls, press_ctrl_c


class Counter(BaseEstimator):
    """Estimator that sets attributes one after the other, and may fail in between."""

    def __init__(self, size=1):
        self.size = size

    @committed
    def fit(self, X, error=None):
        self.first_ = X
        self._private = X
        if error is not None:
            raise error
        if X == "large":
            self.large_ = True
        self.last_ = self.size
        return self


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt()])
def test_a_fit_that_fails_leaves_all_attributes_as_they_were(error):
    counter = Counter()
    with pytest.raises(type(error)):
        counter.fit("first", error)
    assert vars(counter) == {"size": 1}
    counter.fit("large")
    before = dict(vars(counter))
    with pytest.raises(type(error)):
        counter.fit("second", error)
    assert vars(counter) == before


def test_ctrl_c_at_any_call_of_a_fit_says_that_the_object_is_as_before():
    with at_calls() as count:
        Counter().fit("large")
    assert count[0] > 10
    for call in range(1, count[0]):
        counter = Counter()
        with pytest.raises(KeyboardInterrupt, match="as it was"), at_calls((call,), press_ctrl_c):
            counter.fit("large")
        assert vars(counter) == {"size": 1}


def test_a_second_fit_keeps_nothing_of_the_first_and_returns_its_object():
    counter = Counter().fit("large")
    assert counter.fit("small") is counter
    assert not hasattr(counter, "large_")
    assert (counter.first_, counter._private, counter.last_) == ("small", "small", 1)


def test_attributes_of_others_survive_a_fit():
    counter = Counter()
    counter.note, counter._helper, counter._metadata_request = "a", "b", "c"
    counter.fit("small").fit("large")
    assert (counter.note, counter._helper, counter._metadata_request) == ("a", "b", "c")
    assert set(fitted_attributes(counter)) == {
        "first_", "_private", "last_", "large_", "_names_of_fit"
    }  # fmt: skip


def test_a_model_of_a_file_leaves_nothing_in_the_next_fit():
    loaded = Counter(size=2)
    loaded.first_, loaded.large_, loaded._private, loaded._of_file = "old", True, "old", "old"
    assert vars(unfitted_copy(loaded)) == {"size": 2}
    loaded.fit("small")
    assert not hasattr(loaded, "large_")
    assert not hasattr(loaded, "_of_file")


def test_fits_in_threads_do_not_mix():
    counter = Counter()

    def fit(name):
        for _ in range(200):
            counter.fit(name)
            state = vars(counter)
            assert state["first_"] == state["_private"]
            assert ("large_" in state) == (state["first_"] == "large")

    failures = []

    def watched(name):
        try:
            fit(name)
        except AssertionError as error:
            failures.append(error)

    threads = [threading.Thread(target=watched, args=(name,)) for name in ("large", "small")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
