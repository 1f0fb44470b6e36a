"""``structboost warmup``: after it nothing is compiled, and Ctrl-C ends it."""

import signal
import warnings

import numpy as np
import pytest
from numba.core import event
from sklearn.datasets import load_iris

from structboost import (
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
    warm_up,
)
from structboost.cli import main
from structboost.errors import InterruptedFitWarning


@pytest.mark.slow
def test_nothing_is_compiled_after_it(capsys):
    assert main(["warmup"]) == 0
    n_steps = len(warm_up.steps())
    assert f"compiled for {n_steps}/{n_steps}" in capsys.readouterr().err
    X, y = load_iris(return_X_y=True)
    with event.install_recorder("numba:compile") as recorded:
        StructBoostClassifier().fit(X, y).predict(X)
        StructBoostClassifier(categorical_features=[0]).fit(X // 1, y).predict(X // 1)
        StructBoostClassifier(objective="hinge", C=100, tol=0.01, spread=0.02, max_iter=30).fit(
            X, y
        ).predict(X)
        StructBoostClassifier(objective="hinge", C=1, weak_learner=["linear", "stump"]).fit(
            X, y
        ).predict(X)
        StructBoostClassifier(monotonic_cst=[1, 0, 0, -1]).fit(X, y > 0)
        many = np.random.default_rng(1).normal(size=(800, 2))
        StructBoostClassifier(objective="hinge", C=100, max_iter=3).fit(
            many, many[:, 0] > many[:, 1]
        )
        StructBoostRanker(objective="hinge", C=10, max_iter=10).fit(X, y).predict(X)
        StructBoostRanker(max_iter=10).fit(X, y).predict(X)
        StructBoostTagger(max_iter=5).fit([X[:9], X[50:]], [y[:9], y[50:]]).predict([X])
        StructBoostMultiLabelClassifier(loss="f1", max_iter=5).fit(X, X > 3).predict(X)
    compiled = {new.data["dispatcher"].py_func.__qualname__ for _, new in recorded.buffer}
    assert not compiled


def ctrl_c():
    signal.raise_signal(signal.SIGINT)


def fit_that_is_interrupted():
    warnings.warn("Training was interrupted", InterruptedFitWarning, stacklevel=1)


@pytest.mark.parametrize("step", [ctrl_c, fit_that_is_interrupted])
def test_ctrl_c_ends_it(step, monkeypatch, capsys):
    taken = []
    monkeypatch.setattr(
        warm_up,
        "steps",
        lambda: {"a": lambda: taken.append("a"), "b": step, "c": lambda: taken.append("c")},
    )
    assert main(["warmup", "--jobs", "1"]) == 130
    assert taken == ["a"]
    assert "structboost warmup: interrupted; code compiled by now stays in the cache.\n" in (
        capsys.readouterr().err
    )
