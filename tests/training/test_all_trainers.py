"""State and errors of every trainer of tasks: threads, copies, parameters, paths, notices."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

from structboost import (
    BinaryTask,
    ChainTask,
    MatchingTask,
    SpanningTreeTask,
    StructBoost,
    StructuredSVM,
)
from structboost.contract.equality import deeply_equal
from structboost.linear.linear_trainer import LinearTrainer
from structboost.objectives import NormBoundedHinge
from tests.helpers.task_problems import task_problems

PROBLEMS = task_problems(24)
TRAINERS = {
    "one_slack": lambda task: StructBoost(task, C=5.0, tol=0.2, max_rounds=5),
    "m_slack": lambda task: StructBoost(task, C=5.0, tol=0.2, max_rounds=5, formulation="m_slack"),
    "norm_bounded": lambda task: StructBoost(
        task, C=2.0, tol=0.2, max_rounds=5, formulation=NormBoundedHinge()
    ),
    "log": lambda task: StructBoost(task, C=5.0, tol=0.2, max_rounds=5, formulation="log"),
    "svm": lambda task: StructuredSVM(task, C=1.0, tol=0.2, max_epochs=5, random_state=0),
    "linear": lambda task: LinearTrainer(task, C=1.0, tol=0.2, max_epochs=5, random_state=0),
    "likelihood": lambda task: LinearTrainer(
        task, loss="log_loss", C=1.0, tol=0.2, max_epochs=5, random_state=0
    ),
}
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(params=TRAINERS)
def make(request):
    return TRAINERS[request.param]


@pytest.fixture(scope="module")
def chains():
    return PROBLEMS["chain"]


@pytest.mark.slow
def test_fits_in_threads_with_one_task_are_those_one_after_the_other(make, chains):
    task, X, Y, _ = chains
    parts = [(X[k::3], Y[k::3]) for k in range(3)]
    alone = [make(task).fit(*part).predict(X) for part in parts]
    with ThreadPoolExecutor(3) as pool:
        together = [pool.submit(make(task).fit, *part) for part in parts]
        assert deeply_equal([fit.result().predict(X) for fit in together], alone)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matching", "trees", "graph", "segments"])
def test_tasks_are_shared_by_threads(name):
    task, X, Y, _ = PROBLEMS[name]
    make = TRAINERS["one_slack"]
    alone = make(task).fit(X, Y).predict(X)
    with ThreadPoolExecutor(3) as pool:
        fits = [pool.submit(make(task).fit, X, Y) for _ in range(3)]
        for fit in fits:
            assert deeply_equal(fit.result().predict(X), alone)


def test_copies_of_a_fitted_trainer_predict_the_same(make, chains):
    task, X, Y, _ = chains
    trainer = make(task).fit(X, Y)
    for twin in (
        copy.copy(trainer), copy.deepcopy(trainer), pickle.loads(pickle.dumps(trainer))
    ):  # fmt: skip
        assert deeply_equal(twin.predict(X), trainer.predict(X))
        assert twin.history_ == trainer.history_


def test_a_clone_has_the_parameters_and_no_model(make, chains):
    task, X, Y, _ = chains
    trainer = make(task).fit(X, Y)
    twin = clone(trainer)
    assert not hasattr(twin, "model_")
    assert twin.get_params()["C"] == trainer.get_params()["C"]
    assert deeply_equal(twin.fit(X, Y).predict(X), trainer.predict(X))


def test_set_params_changes_the_next_fit_and_not_the_model(make, chains):
    task, X, Y, _ = chains
    trainer = make(task).fit(X, Y)
    before, C = trainer.predict(X), trainer.C_
    trainer.set_params(C=3.0)
    assert deeply_equal(trainer.predict(X), before)
    assert trainer.C_ == C
    assert trainer.fit(X, Y).C_ == 3.0


def test_a_refused_fit_leaves_the_old_model(make, chains):
    task, X, Y, wrong = chains
    trainer = make(task).fit(X, Y)
    before = dict(vars(trainer))
    for y in wrong.values():
        with pytest.raises(ValueError, match=r"Y\[3\]"):
            trainer.fit(X, [*Y[:3], y, *Y[4:]])
        assert dict(vars(trainer)) == before


@pytest.mark.parametrize("make_path", [TRAINERS["one_slack"], TRAINERS["svm"]])
@pytest.mark.parametrize(
    ("Cs", "error", "message"),
    [
        ([], ValueError, "Cs is empty"),
        (3.0, TypeError, "Cs is 3.0"),
        ("123", TypeError, "Cs is '123'"),
        (None, TypeError, "Cs is None"),
        ([1.0, -1.0], ValueError, r"Cs\[\d\] is -1.0"),
        ([1.0, np.nan], ValueError, r"Cs\[\d\] is nan"),
        ([0.0], ValueError, r"Cs\[\d\] is 0.0"),
        ([1.0, "auto"], TypeError, r"Cs\[\d\] is 'auto'"),
        ([1.0, None], TypeError, r"Cs\[\d\] is None"),
        ([True], TypeError, r"Cs\[\d\] is True"),
    ],
)
def test_a_path_refuses_bad_Cs_before_it_trains(make_path, Cs, error, message, chains):
    task, X, Y, _ = chains
    with pytest.raises(error, match=message):
        list(make_path(task).path(X, Y, Cs))


@pytest.mark.parametrize("make_path", [TRAINERS["one_slack"], TRAINERS["svm"]])
def test_a_path_takes_arrays_and_generators(make_path, chains):
    task, X, Y, _ = chains
    for Cs in (np.array([1.0, 2.0]), iter([1.0, 2.0]), (1, 2)):
        assert [trainer.C_ for trainer in make_path(task).path(X, Y, Cs)] == [1.0, 2.0]


def test_every_fit_announces_compilation(make, chains, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "structboost.runtime.fitted_state.announce_compilation", lambda: asked.append(1)
    )
    task, X, Y, _ = chains
    make(task).fit(X, Y)
    assert asked


@pytest.mark.parametrize("task", [MatchingTask, SpanningTreeTask, lambda: ChainTask(2)])
def test_a_repr_says_which_task_a_trainer_has(make, task):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = repr(make(task()))
    assert type(task()).__name__ in text


def test_a_repr_of_a_fitted_trainer_has_the_words_of_a_face(make, chains, tmp_path):
    task, X, Y, _ = chains
    trainer = make(task).fit(X, Y)
    call, words = repr(trainer).split("  # ")
    assert call == repr(make(task))
    assert words.startswith("minimised ")
    assert words.endswith(trainer.ending_text_)
    assert trainer.gap_text_ in words
    if type(trainer) in (StructBoost, StructuredSVM):
        trainer.save(tmp_path / "model")
        assert repr(type(trainer).load(tmp_path / "model", task)).endswith(words)


def test_repr_names_the_limit_of_passes_and_what_an_empty_model_minimised():
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.tile([1, 1, -1], 20)
    with pytest.warns(UserWarning, match="max_epochs"):
        passes = StructuredSVM(BinaryTask(), C=500.0, max_epochs=1).fit(X, y)
    assert re.search(r"gap \d+ %; .*max_epochs of trainers", repr(passes))
    with pytest.warns(UserWarning, match="The model is empty"):
        empty = StructBoost(BinaryTask(), C=1e-6).fit(X, y)
    assert "# minimised one_slack without weak learners; ended because" in repr(empty)
