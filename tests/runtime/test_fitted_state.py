"""Every fit replaces all fitted attributes, and leaves those of others."""

from sklearn.base import BaseEstimator

from structboost.runtime.fitted_state import committed, fitted_attributes, unfitted_copy


class Counter(BaseEstimator):
    """Estimator that sets attributes one after the other."""

    def __init__(self, size=1):
        self.size = size

    @committed
    def fit(self, X):
        self.first_ = X
        self._private = X
        if X == "large":
            self.large_ = True
        self.last_ = self.size
        return self


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
