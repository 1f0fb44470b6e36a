"""An example that is wrong for its task is named by its index, by every task and trainer."""

from functools import partial

import numpy as np
import pytest

from structboost import StructBoost, StructuredSVM
from structboost.contract import Lists, Sums, Validates
from structboost.errors import TaskError
from tests.helpers.refusals import named, refused
from tests.helpers.task_problems import NO_INPUTS, NO_OUTPUTS, task_problems

pytestmark = pytest.mark.filterwarnings("ignore")

PROBLEMS = task_problems()
each_task = pytest.mark.parametrize("name", PROBLEMS)
BOOSTED = partial(StructBoost, C=5.0, max_rounds=2)
TRAINERS = {
    "one_slack": BOOSTED,
    "m_slack": partial(BOOSTED, formulation="m_slack"),
    "svm": partial(StructuredSVM, C=1.0, max_epochs=2),
}
LIKELIHOOD = {"log": partial(BOOSTED, formulation="log")}


def trainers_of(task):
    return TRAINERS | (LIKELIHOOD if isinstance(task, Sums | Lists) else {})


def with_wrong(values, value):
    out = list(values)
    out[37] = value
    return out


@pytest.fixture(scope="module")
def fitted():
    return {
        name: TRAINERS["one_slack"](problem.task).fit(problem.X, problem.Y)
        for name, problem in PROBLEMS.items()
    }


@pytest.mark.slow
@each_task
def test_a_wrong_truth_is_named_in_fit_and_score(name, fitted):
    task, X, Y, wrong = PROBLEMS[name]
    for value in (wrong | NO_OUTPUTS).values():
        bad = with_wrong(Y, value)
        named(["Y[37]"], fitted[name].score, X, bad)
        for make in trainers_of(task).values():
            named(["Y[37]"], make(task).fit, X, bad)


@each_task
def test_a_wrong_truth_is_no_output(name):
    task, X, Y, wrong = PROBLEMS[name]
    if isinstance(task, Validates):
        assert task.is_valid(X[0], Y[0])
        assert not any(task.is_valid(X[0], value) for value in (wrong | NO_OUTPUTS).values())


@each_task
def test_a_wrong_input_is_named_in_fit_and_predict(name, fitted):
    task, X, Y, _ = PROBLEMS[name]
    for value in NO_INPUTS.values():
        bad = with_wrong(X, value)
        trainer = fitted[name]
        calls = [trainer.predict, trainer.scores, partial(trainer.score, Y=Y)]
        calls += [trainer.predict_marginals] if isinstance(task, Sums) else []
        calls += [partial(make(task).fit, Y=Y) for make in TRAINERS.values()]
        for call in calls:
            named(["X[37]"], call, bad)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matching", "chain"])
def test_an_example_keeps_its_index_under_a_choice_of_C(name):
    task, X, Y, wrong = PROBLEMS[name]
    trainer = StructBoost(task, C="auto", max_rounds=2)
    for value in (*wrong.values(), None):
        named(["Y[37]"], trainer.fit, X, with_wrong(Y, value))
    for value in NO_INPUTS.values():
        named(["X[37]"], trainer.fit, with_wrong(X, value), Y)


def test_inputs_of_another_width_than_in_training_are_named(fitted):
    wide = [np.ones((4, 5)) for _ in range(3)]
    refused(r"parts of X\[0\] .* trained on 2 features", fitted["chain"].predict, wide)
    refused(r"X\[1\]\) gave shape \(4, 5\)", fitted["chain"].predict, [np.ones((4, 2)), *wide])


def test_another_box_has_no_joint_feature():
    task, X, _, wrong = PROBLEMS["boxes"]
    for case in ("out of range", "below", "another box"):
        with pytest.raises(TaskError, match="not among"):
            task.joint_feature(X[0], wrong[case])
