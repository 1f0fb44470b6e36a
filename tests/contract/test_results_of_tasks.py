"""What a task returns is checked, and the error names method and example."""

import decimal
import fractions
from functools import partial

import numpy as np
import pytest
from numpy.random import default_rng

from structboost import StructBoost, StructuredSVM, check_task
from structboost.contract.parts import PartKind
from structboost.contract.task import Task
from structboost.errors import TaskError
from structboost.linear.linear_trainer import LinearTrainer
from tests.contract.test_lying_tasks import SplitLoss, Sums, Tags
from tests.helpers.refusals import named, refused

WRONG = 37
pytestmark = pytest.mark.filterwarnings("ignore")


BOOSTED = partial(StructBoost, C=5.0, max_rounds=3)
LINEAR = partial(LinearTrainer, C=1.0, tol=0.1, max_epochs=3)
TRAINERS = {
    "one_slack": BOOSTED,
    "m_slack": partial(BOOSTED, formulation="m_slack"),
    "svm": partial(StructuredSVM, max_epochs=3),
    "linear": LINEAR,
}
LIKELIHOODS = {
    "log": partial(BOOSTED, formulation="log"),
    "likelihood": partial(LINEAR, loss="log_loss"),
}


def scaled(factor):
    def of(result):
        if isinstance(result, tuple):
            return (*result[:2], result[2] * factor)
        return result * factor if isinstance(result, float) else np.asarray(result) * factor

    return of


# Results that no method may return.
BAD = {
    "None": lambda result: None,
    "a generator": lambda result: (value for value in [1]),
    "text": lambda result: "abc",
    "bytes": lambda result: b"ab",
    "a complex number": lambda result: 1j,
    "NaN": scaled(np.nan),
    "an object": lambda result: object(),
    "objects": lambda result: np.array([object()] * 3, dtype=object),
    "a dict": lambda result: {"zzz": 1},
    "a set": lambda result: {1, 2},
    "a class": lambda result: int,
    "nothing": lambda result: np.zeros(0),
    "a big number": lambda result: 10**400,
    "many axes": lambda result: np.zeros((2, 2, 2)),
}
TOO_LARGE = {"1e300": scaled(1e300), "infinite": scaled(np.inf)}
METHODS = {
    "parts": (Sums, BAD, TRAINERS | LIKELIHOODS),
    "joint_feature": (Sums, BAD | TOO_LARGE, TRAINERS | LIKELIHOODS),
    "loss": (Tags, BAD, TRAINERS),
    "loss_scores": (SplitLoss, BAD | TOO_LARGE, TRAINERS),
    "argmax": (Tags, BAD, TRAINERS),
    "log_sum": (Sums, BAD | TOO_LARGE, LIKELIHOODS),
    "marginals": (Sums, BAD | TOO_LARGE, LIKELIHOODS),
}
each_trainer = pytest.mark.parametrize("make", TRAINERS.values(), ids=TRAINERS)


@pytest.fixture(scope="module")
def examples():
    rng = default_rng(0)
    X = [rng.normal(size=(4, 2)) for _ in range(40)]
    return X, [(x[:, 0] > 0).astype(int) + (x[:, 1] > 0.5) for x in X]


def broken(base, method, result_of, x, y):
    """A task one method of which returns something else for one example."""

    def other(self, *arguments):
        result = getattr(super(task, self), method)(*arguments)
        is_example = np.array_equal(arguments[0], y if method == "loss" else x)
        return result_of(result) if is_example else result

    task = type("Broken", (base,), {method: other})
    return task()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_bad_result_is_named_in_fit_and_by_check_task(method, examples):
    X, Y = examples
    base, results, trainers = METHODS[method]
    for result_of in results.values():
        task = broken(base, method, result_of, X[WRONG], Y[WRONG])
        for make in trainers.values():
            # Several examples may have the truth for which the loss is wrong.
            name = "Y[" if method == "loss" else f"[{WRONG}]"
            named((method, name), make(task).fit, X, Y)
        if method != "argmax":
            named((method, "["), check_task, task, X[34:], Y[34:])


LATER = {
    "predict": (Tags, TRAINERS["one_slack"], ("parts", "argmax")),
    "score": (Tags, TRAINERS["one_slack"], ("loss",)),
    "predict_marginals": (Sums, LIKELIHOODS["log"], ("marginals", "log_sum")),
}


@pytest.mark.parametrize("call", LATER)
def test_a_bad_result_is_named_after_training(call, examples):
    X, Y = examples
    base, make, methods = LATER[call]
    trainer = make(base()).fit(X, Y)
    for method in methods:
        for name, result_of in METHODS[method][1].items():
            if name not in ("nothing", "many axes") or method != "argmax":
                trainer.task = broken(base, method, result_of, X[WRONG], Y[WRONG])
                name = "Y[" if method == "loss" else f"[{WRONG}]"
                arguments = (X, Y) if call == "score" else (X,)
                named((method, name), getattr(trainer, call), *arguments)


class WithoutReturn(Tags):
    def argmax(self, x, scores, y=None):
        scores.argmax(axis=1)


class TakesNone(WithoutReturn):
    """Joint feature and loss take None as if it were an output."""

    def joint_feature(self, x, y):
        return super().joint_feature(x, [0] * len(x) if y is None else y)

    def loss(self, y, y_pred):
        return 1.0 if y_pred is None else super().loss(y, y_pred)


@each_trainer
def test_an_argmax_without_return_is_named_even_where_other_methods_take_None(make, examples):
    for task in (WithoutReturn(), TakesNone()):
        refused(r"argmax returned None for X\[\d+\].*with return", make(task).fit, *examples)
    trainer = make(Tags()).fit(*examples)
    trainer.task = WithoutReturn()
    refused(r"argmax returned None for X\[0\].*with return", trainer.predict, examples[0])


class MayBeAbsent(Task):
    """Choice of a candidate, or None."""

    kinds = {"x": PartKind()}

    def parts(self, x):
        return x

    def joint_feature(self, x, y):
        return ([], [], []) if y is None else ([y], [0], [1.0])

    def loss(self, y, y_pred):
        return float(y != y_pred)

    def outputs(self, x):
        return [None, *range(len(x))]


def test_None_may_be_an_output(examples):
    X, _ = examples
    Y = [int(x[:, 0].argmax()) if x[:, 0].max() > 1 else None for x in X]
    trainer = StructBoost(MayBeAbsent(), C=20.0, max_rounds=20).fit(X, Y)
    assert None in trainer.predict(X)


@pytest.mark.parametrize(
    "of", [bool, np.bool_, np.float16, np.float32, np.array, decimal.Decimal, fractions.Fraction]
)
@each_trainer
def test_a_loss_may_be_a_number_of_any_type(make, of):
    class Signs(Tags):
        def loss(self, y, y_pred):
            return of(super().loss(y, y_pred))

    rng = default_rng(0)
    X = [rng.normal(size=(1, 2)) for _ in range(30)]
    Y = [(x[:, 0] > 0).astype(int) for x in X]
    typed, plain = (make(task()).set_params(random_state=0).fit(X, Y) for task in (Signs, Tags))
    assert typed.objective_ == plain.objective_


def fitted_or_refused(trainer, X, Y):
    """The fitted trainer, or None if an error says that features are to be scaled."""
    try:
        return trainer.fit(X, Y)
    except TaskError as error:
        if "scale the feature" not in str(error):
            raise
        return None


@pytest.mark.parametrize("value", [1e300, 1e155, 1e-160, 1e-310])
@pytest.mark.parametrize("make", (TRAINERS | LIKELIHOODS).values(), ids=TRAINERS | LIKELIHOODS)
def test_huge_and_denormal_features_give_finite_scores_or_an_error(make, value, examples):
    X, Y = examples
    for scale in (np.full((4, 2), value), np.where(np.arange(8).reshape(4, 2) == 0, value, 1.0)):
        trainer = fitted_or_refused(make(Sums()), [x * scale for x in X], Y)
        if trainer is None:
            continue
        assert np.isfinite(trainer.scores([x * scale for x in X]).rows["token"]).all()
        assert np.isfinite(trainer.objective_)
