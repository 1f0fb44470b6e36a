"""A family of given functions: optimum over the pool, prediction, errors."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest

from structboost import MulticlassTask, StructBoost, thin
from structboost.learners import PoolFamily


def waves(X):
    """Responses of six functions."""
    return np.column_stack([np.sin((k + 1) * X[:, k % 2] + k) for k in range(6)])


def one_wave(X, k):
    return waves(X)[:, k]


WAVES = [partial(one_wave, k=k) for k in range(6)]


def table(seed, n=30):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=n) > 0.5).astype(int)


def test_model_predicts_new_rows_and_a_matrix_of_responses_gives_the_same():
    X, y = table(0, 80)
    task = MulticlassTask(2)
    fits = [
        StructBoost(task, C=20.0, weak_learner=partial(PoolFamily, functions=functions)).fit(X, y)
        for functions in (WAVES, waves)
    ]
    new, labels = table(1, 200)
    predictions = [fitted.predict(new) for fitted in fits]
    assert predictions[0] == predictions[1]
    assert np.mean(np.array(predictions[0]) == labels) > 0.8
    assert pickle.loads(pickle.dumps(fits[0])).predict(new) == predictions[0]


def test_file_of_a_model_with_functions_is_refused(tmp_path):
    X, y = table(0)
    family = partial(PoolFamily, functions=waves)
    fitted = StructBoost(MulticlassTask(2), C=20.0, weak_learner=family).fit(X, y)
    with pytest.raises(ValueError, match="pool"):
        fitted.model_.save(tmp_path / "model")


def test_functions_that_respond_in_another_way_when_called_again_are_refused():
    X, rng = table(0)[0], np.random.default_rng(0)
    for index, function in enumerate(
        (lambda X: rng.normal(size=len(X)), lambda X: X[:, 0] - X[:, 0].mean())
    ):
        pool = [*WAVES[: index + 1], function]
        with pytest.raises(ValueError, match=rf"functions\[{index + 1}\]\(X\) is .* row \d+ of X"):
            PoolFamily(X, functions=pool)
        with pytest.raises(ValueError, match="the same response to a row in every call"):
            PoolFamily(X, functions=lambda X, pool=pool: np.column_stack([f(X) for f in pool]))
    with pytest.raises(ValueError, match="30 columns for all rows of X, and 16 for the first 16"):
        PoolFamily(X, functions=lambda X: X @ X.T)
    with pytest.raises(ValueError, match=r"functions\[1\]\(X\) is"):
        thin([WAVES[0], lambda X: rng.normal(size=len(X))], X, np.arange(len(X)) % 2)


def test_last_digits_that_depend_on_the_number_of_rows_are_no_other_response():
    X = table(0)[0]
    PoolFamily(X, functions=[lambda X: X[:, 0] * (1 + 1e-9 * len(X)), lambda X: 0 * X[:, 0]])


def test_error_of_a_function_names_its_index():
    with pytest.raises(ZeroDivisionError) as caught:
        PoolFamily(table(0)[0], functions=[WAVES[0], lambda X: 1 / 0])
    assert caught.value.__notes__ == ["Raised by functions[1](X)."]


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (3, "functions is 3; give a list of callables"),
        ([], "give a list of callables"),
        ([WAVES[0], "sin"], r"functions\[1\] is 'sin'; give a callable"),
        ([lambda X: X[:3, 0]], r"functions\[0\]\(X\) has shape \(3,\) for 30 rows"),
        ([lambda X: np.log(X[:, 0] * 0)], "is not finite"),
        ([WAVES[0], lambda X: 2e10 + X[:, 0]], r"functions\[1\]\(X\) has responses up to"),
        (lambda X: 2e10 + X, r"functions\(X\)\[:, 0\] has responses up to .*; scale"),
        (lambda X: waves(X)[1:], r"functions\(X\) has shape \(29, 6\) for 30 rows"),
    ],
)
def test_functions_that_do_not_fit_are_named(functions, message):
    with np.errstate(divide="ignore"), pytest.raises((TypeError, ValueError), match=message):
        PoolFamily(table(0)[0], functions=functions)
