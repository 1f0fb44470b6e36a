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
    counter, others = Counter(), {"note": "a", "_helper": "b", "_metadata_request": "c"}
    vars(counter).update(others)
    counter.fit("small").fit("large")
    assert vars(counter).items() >= others.items()
    assert set(fitted_attributes(counter)) == {
        "first_", "_private", "last_", "large_", "_names_of_fit"
    }  # fmt: skip


def test_a_model_of_a_file_leaves_nothing_in_the_next_fit():
    loaded = Counter(size=2)
    vars(loaded).update(dict.fromkeys(["first_", "large_", "_private", "_of_file"], "old"))
    assert vars(unfitted_copy(loaded)) == {"size": 2}
    assert not {"large_", "_of_file"} & vars(loaded.fit("small")).keys()
