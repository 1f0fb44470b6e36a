"""``structboost warmup``: after it nothing is compiled, and Ctrl-C ends it."""

import signal
import warnings
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from numba.core import event
from sklearn.base import clone

from structboost import StructBoostClassifier, warm_up
from structboost.cli import main
from structboost.errors import InterruptedFitWarning, say
from structboost.progress import Progress
from tests.battery.examples_of_tables import Classes
from tests.battery.examples_of_tasks import Examples, TaskExamples, first, read_only
from tests.battery.table_of_faces import FACES, trainers
from tests.helpers.task_problems import task_problems


def fits():
    """Iterate over name, estimator, kind and examples of all faces and of more of their forms."""
    hinge = partial(StructBoostClassifier, "hinge")
    more = {
        "linear functions and stumps": hinge(C=1, weak_learner=["linear", "stump"], max_iter=5),
        "categories": StructBoostClassifier(categorical_features=[0], max_iter=5),
        "a coarse path": hinge(C=100, tol=0.01, spread=0.02, max_iter=30),
    }
    faces = FACES | {name: (estimator, Classes()) for name, estimator in more.items()}
    for name, (estimator, kind, *_) in faces.items():
        yield name, clone(estimator), kind, kind.draw(np.random.default_rng(0))
    problems = task_problems()
    del problems["boxes"]  # They are those of the tracker, which has code of its own.
    for name, trainer, X, Y in trainers(problems):
        yield name, trainer, TaskExamples(X, Y), Examples(X, Y)


def forms(X):
    """Iterate over inputs in the types that users have, and over few of them."""
    yield from (X, first(X, 2))
    if isinstance(X, np.ndarray):
        yield from (X.astype(np.float32), X[:1].astype(np.float32), read_only(X), read_only(X[:1]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_nothing_is_compiled_after_it(capsys):
    assert main(["warmup"]) == 0
    n_steps = len(warm_up.steps())
    assert f"compiled for {n_steps}/{n_steps}" in capsys.readouterr().err
    compiled = {}
    for name, estimator, kind, examples in fits():
        with event.install_recorder("numba:compile") as recorded:
            estimator.fit(examples.X, examples.y, **examples.more)
            for method in {"predict", "predict_proba", "transform"} & set(dir(estimator)):
                for rows in forms(examples.X):
                    kind.ask(getattr(estimator, method), rows)
            if hasattr(estimator, "contributions"):
                with suppress(TypeError):  # some weak learners have none
                    estimator.contributions(examples.X, examples.X)
        if recorded.buffer:
            compiled[name] = {
                new.data["dispatcher"].py_func.__qualname__ for _, new in recorded.buffer
            }
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


def test_a_quiet_command_shows_errors_alone(monkeypatch, capsys):
    monkeypatch.setattr(
        warm_up, "steps", lambda: {"a": partial(warnings.warn, "odd", stacklevel=1)}
    )
    assert main(["warmup", "--jobs", "1", "-q"]) == 0
    assert not capsys.readouterr().err
    assert main(["warmup", "--jobs", "1", "-v"]) == 0
    assert "compiled for 0/1  0 s\ncompiled for 1/1" in capsys.readouterr().err
    assert not Progress.is_written_out
    monkeypatch.setattr(warm_up, "run", lambda _: say("left out: a"))
    assert main(["warmup", "-q"]) == 1
    assert capsys.readouterr().err == "left out: a\n"
    assert main(["-q", "track", "none.mp4", "--box", "1,1,9,9", "--json", "-"]) == 2
    assert capsys.readouterr().err.startswith("structboost track: none.mp4")
    assert main(["track", "-q", "--box", "1,1,9,9", "--json", "-", "--", "-v"]) == 2
    assert capsys.readouterr().err.startswith("structboost track: -v does not exist")
