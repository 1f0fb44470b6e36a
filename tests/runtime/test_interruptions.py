"""Ctrl-C: when it is raised, and what is kept of a fit that it ends."""

import os
import signal
import sys
import threading
import time
import warnings
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.compiler_lock import global_compiler_lock

from structboost import MulticlassTask, StructBoost, StructBoostClassifier, StructuredSVM
from structboost.errors import InterruptedFitWarning
from structboost.faces import stage_wise
from structboost.objectives import Exponential, OneSlack
from structboost.objectives.norm_bounded import NormBounded, NormBoundedHinge
from structboost.runtime.interrupts import deferred_interrupts, raise_if_interrupted, uninterrupted
from structboost.tracking import StructBoostTracker
from tests.helpers.broken_calls import at_calls
from tests.helpers.engine_tasks import PressingTask
from tests.helpers.interruptions import ENDS, interrupted_run, noisy

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="a process cannot be sent Ctrl-C alone there"
)


def press():
    os.kill(os.getpid(), signal.SIGINT)


def wait(seconds):
    """Not in one call: the handler runs between two."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _handler_is_put_back():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


# -- when it is raised ---------------------------------------------------------------------------


def noticed():
    with pytest.raises(KeyboardInterrupt):
        raise_if_interrupted()


def test_ctrl_c_waits_until_all_is_consistent_or_the_end_of_the_block():
    seen = []

    @deferred_interrupts(grace=None)
    def work(is_consistent):
        raise_if_interrupted()
        press()
        seen.append("went on")
        if is_consistent:
            noticed()
            raise_if_interrupted()

    work(True)
    with pytest.raises(KeyboardInterrupt):
        work(False)
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("grace", "presses", "wait"),
    [
        (None, (press, press), wait),
        (None, (press, noticed, press), wait),
        (0.05, (press,), wait),
        (0.05, (press,), lambda seconds: threading.Event().wait(seconds)),
    ],
)
def test_the_second_ctrl_c_and_the_end_of_grace_raise_at_once(grace, presses, wait):
    seen = []

    def work():
        with deferred_interrupts(grace=grace):
            for act in presses:
                act()
            wait(60.0)
            seen.append("finished")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert not seen


@pytest.mark.slow
def test_ctrl_c_is_not_raised_while_numba_compiles_but_soon_after():
    """There it would be raised in a call from LLVM, which ignores it, and would be lost."""
    seen = []

    def work(n_presses):
        with deferred_interrupts(grace=0.01):
            with global_compiler_lock:
                for _ in range(n_presses):
                    press()
                    wait(0.1)
                seen.append("compiled")
            wait(60.0)
            seen.append("finished")

    for n_presses in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            work(n_presses)
    assert seen == ["compiled", "compiled"]


def test_inside_another_block_the_outer_one_counts():
    seen = []

    @deferred_interrupts(grace=None)
    def work():
        with deferred_interrupts(grace=0.0):
            press()
        seen.append("went on")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert seen


def test_other_threads_and_other_handlers_are_left_alone():
    def look():
        with deferred_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))
            raise_if_interrupted()

    seen = []
    with deferred_interrupts(grace=None):
        ours = signal.getsignal(signal.SIGINT)
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert seen == [ours]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        look()
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [ours, signal.SIG_IGN]


# -- what is kept --------------------------------------------------------------------------------

TRAINERS = {
    "one_slack": {"C": 30.0, "spread": 0.2},
    "as printed": {"C": 30.0, "formulation": OneSlack(stabilize=False)},
    "m_slack": {"C": 30.0, "formulation": "m_slack"},
    "trees": {"C": 30.0, "weak_learner": "tree"},
    "fcd": {"C": 1e3, "formulation": Exponential(), "columns_per_channel": 1},
    "lbfgs": {"C": 1e3, "formulation": Exponential("lbfgs"), "columns_per_channel": 1},
    "norm bounded": {"C": 10.0, "formulation": NormBounded()},
    "norm bounded hinge": {"C": 2.0, "formulation": NormBoundedHinge(), "max_rounds": 3},
}


def trainer_of(name):
    return StructBoost(
        MulticlassTask(3), **{"tol": 1e-3, "max_rounds": 5, "random_state": 0} | TRAINERS[name]
    )


@cache
def whole_fit(name):
    X, y = noisy(n_classes=3, n=40)
    trainer = trainer_of(name).fit(X, y)
    with at_calls() as count:
        trainer_of(name).fit(X, y)
    return X, y, trainer, count[0]


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TRAINERS)
@settings(max_examples=12)
@given(st.data())
def test_an_interrupt_at_any_call_leaves_the_last_whole_round_or_nothing(name, data):
    X, y, whole, n_calls = whole_fit(name)
    trainer = trainer_of(name)
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            with at_calls([data.draw(st.integers(0, n_calls - 1))], interrupt):
                trainer.fit(X, y)
        except KeyboardInterrupt:
            # While nothing was trained yet, or what was trained is taken over; after that the model
            # is whole.
            if not hasattr(trainer, "model_"):
                return
    last = len(trainer.history_) - 1
    assert trainer.interrupted_ == (InterruptedFitWarning in [told.category for told in caught])
    expected = whole.model_.at_stage(last)
    np.testing.assert_allclose(trainer.model_.scores(X), expected.scores(X), atol=1e-9)
    assert trainer.objective_ == trainer.history_[-1]["primal"] == whole.history_[last]["primal"]
    assert trainer.model_.n_stages == last + 1
    assert len(trainer.predict(X)) == len(X)


def test_a_path_that_is_interrupted_keeps_the_models_before():
    X, y = noisy(n_classes=3, n=40)
    rounds = []

    def fourth(record, trainer):
        rounds.append(record)
        if len(rounds) == 4:
            raise KeyboardInterrupt

    trainer = StructBoost(MulticlassTask(3), C=1.0, tol=0.0, max_rounds=3, callbacks=[fourth])
    with pytest.warns(InterruptedFitWarning, match="1 round;"):
        path = trainer.path(X, y, [10.0, 20.0, 40.0])
    assert [(len(one.history_), one.interrupted_) for one in path] == [(3, False), (1, True)]


@pytest.mark.parametrize("is_pressed", [True, False])
def test_ctrl_c_while_features_are_tried_says_that_there_is_no_model(is_pressed, monkeypatch):
    X, y = noisy(n_classes=3, n=120)
    model = StructBoostClassifier(max_iter=2).fit(X, y)
    before = dict(vars(model))
    tried = stage_wise.loop_without_model

    def pressed(*args):
        if not is_pressed:
            raise KeyboardInterrupt("of the user")
        press()
        return tried(*args)

    monkeypatch.setattr(stage_wise, "loop_without_model", pressed)
    words = r"fit was interrupted before it had a model; the object is as it was before fit\."
    with pytest.raises(KeyboardInterrupt, match=words if is_pressed else "^of the user$"):
        model.fit(X, y)
    assert vars(model) == before


def test_ctrl_c_in_the_last_fit_with_a_chosen_C_gives_one_warning():
    X, y = noisy(n_classes=3, n=60)

    def interrupt(record, trainer):
        if record["round"] == 2:
            raise KeyboardInterrupt

    settings = {"C": "auto", "tol": 0.1, "max_rounds": 5, "callbacks": [interrupt]}
    trainer = StructBoost(MulticlassTask(3), **settings)
    with pytest.warns(InterruptedFitWarning) as told:
        trainer.fit(X + 3.0 * np.eye(3)[y].repeat(4, axis=1)[:, :10], y)
    assert [str(one.message)[:39] for one in told] == ["Training was interrupted after 2 rounds"]
    assert (trainer.interrupted_, trainer.ending_) == (True, "interrupted")


@pytest.mark.parametrize(("Trainer", "at"), [(StructBoost, 40), (StructuredSVM, 4)])
def test_ctrl_c_ends_a_fit_in_a_model(Trainer, at):
    X, y = noisy(n_classes=3, n=40)
    trainer = Trainer(PressingTask(at), C=300.0, tol=1e-9, random_state=0)
    with pytest.warns(InterruptedFitWarning):
        trainer.fit(X, y)
    assert trainer.task.passes == at
    assert trainer.interrupted_
    assert len(trainer.predict(X)) == len(X)


@pytest.mark.slow
def test_a_tracker_finishes_its_frame(monkeypatch):
    frames = np.random.default_rng(0).integers(0, 255, (3, 48, 64, 3)).astype(np.uint8)
    tracker = StructBoostTracker().init(frames[0], (20.0, 12.0, 20.0, 20.0))
    look = StructBoostTracker._look

    def pressed_meanwhile(*args):
        press()
        return look(*args)

    monkeypatch.setattr(StructBoostTracker, "_look", pressed_meanwhile)
    for frame in frames[1:]:
        with pytest.raises(KeyboardInterrupt):
            tracker.update(frame)
    assert tracker.n_frames == 3


# -- in fresh interpreters: `python -m tests.helpers.interruptions 200` does it at random moments


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "seconds"),
    [
        ("one_slack, threads", 0.6),
        ("one_slack, processes", 0.8),
        ("own task, one argmax for minutes", 0.3),
        ("tracker", 0.5),
    ],
)
def test_ctrl_c_ends_in_a_model_or_in_keyboard_interrupt(case, seconds):
    assert interrupted_run(case, seconds) in ENDS


@pytest.mark.parametrize(
    ("category", "is_partial", "raised"),
    [
        (InterruptedFitWarning, False, KeyboardInterrupt),
        (UserWarning, True, KeyboardInterrupt),
        (UserWarning, False, UserWarning),
    ],
)
def test_interrupted_step_is_no_model_and_another_one_warns_again(category, is_partial, raised):
    class Step:
        interrupted_ = is_partial

        def fit(self):
            warnings.warn("weights are kept", category, stacklevel=2)
            return self

    with warnings.catch_warnings(action="error"), pytest.raises(raised):
        uninterrupted(Step().fit)
