"""``structboost warmup``: after it nothing is compiled, and Ctrl-C ends it."""

import signal
import warnings
from functools import partial

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
    many = np.random.default_rng(1).normal(size=(800, 2))
    hinge = partial(StructBoostClassifier, "hinge")
    with event.install_recorder("numba:compile") as recorded:
        for model, inputs, outputs in (
            (StructBoostClassifier(), X, y),
            (StructBoostClassifier(categorical_features=[0]), X // 1, y),
            (StructBoostClassifier(monotonic_cst=[1, 0, 0, -1]), X, y > 0),
            (hinge(C=100, tol=0.01, spread=0.02, max_iter=30), X, y),
            (hinge(C=1, weak_learner=["linear", "stump"]), X, y),
            (hinge(C=100, max_iter=3), many, many[:, 0] > many[:, 1]),
            (StructBoostRanker("hinge", C=10, max_iter=10), X, y),
            (StructBoostRanker(max_iter=10), X, y),
            (StructBoostTagger(max_iter=5), [X[:9], X[50:]], [y[:9], y[50:]]),
            (StructBoostMultiLabelClassifier(loss="f1", max_iter=5), X, X > 3),
        ):
            model.fit(inputs, outputs).predict(inputs)
    compiled = {new.data["dispatcher"].py_func.__qualname__ for _, new in recorded.buffer}
    assert not compiled


def ctrl_c():
    signal.raise_signal(signal.SIGINT)


def fit_that_is_interrupted():
    warnings.warn("Training was interrupted", InterruptedFitWarning, stacklevel=1)


@pytest.mark.parametrize("step", [ctrl_c, fit_that_is_interrupted])
def test_ctrl_c_ends_it(step, monkeypatch, capsys):
    taken = []
    steps = {"a": partial(taken.append, "a"), "b": step, "c": partial(taken.append, "c")}
    monkeypatch.setattr(warm_up, "steps", lambda: steps)
    assert main(["warmup", "--jobs", "1"]) == 130
    assert taken == ["a"]
    assert "structboost warmup: interrupted; code compiled by now stays in the cache.\n" in (
        capsys.readouterr().err
    )
