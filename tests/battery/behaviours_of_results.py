"""Behaviours of errors, scores, records and cost."""

import inspect
import time
import tracemalloc
from functools import partial

import numpy as np
from sklearn.model_selection import cross_val_score

from tests.battery.checked_face import behaviour, shortened
from tests.battery.examples_of_tasks import first

# So much more memory and time one prediction may take after training on more examples.
_TIMES, _MORE_MEMORY, _MORE_SECONDS = 8, 1.5, 3.0


def _fit_with(face, name, value):
    return face.fit(face.fresh(**{name: value}), face.examples)


@behaviour("bad parameters")
def bad_parameters(face):
    """A value that no parameter can have is refused by its name."""
    for name in face.estimator.get_params(deep=False):
        for value in (object(), float("nan"), "no such word", b"bytes", {"no": "word"}, -(2**70)):
            if name in face.kind.free_parameters and isinstance(value, str):
                continue
            fault = face.refusal([name], partial(_fit_with, face, name, value))
            if fault:
                yield f"{name}={shortened(value)}: {fault}"


@behaviour("score")
def score(face):
    """The score is the documented measure and finite, with weights, too."""
    model = face.model()
    X, y, more = face.examples.X, face.examples.y, face.examples.more
    value = face.call(model.score, X, y, **more)
    if not isinstance(value, float) or not np.isfinite(value):
        yield f"score is {value!r}, no finite float"
    measure = face.kind.measure(y, face.expected, more)
    if measure is not None and not np.isclose(value, measure):
        yield f"score is {value}, but what it should measure is {measure}"
    if "sample_weight" not in inspect.signature(model.score).parameters:
        return
    weighted = face.call(model.score, X, y, **more, sample_weight=np.ones(len(y)))
    if not np.isclose(value, weighted):
        yield f"score is {value}, but {weighted} with weights of one"
    weights = np.geomspace(1e-3, 1e3, len(y))
    if face.call(model.score, X, y, **more, sample_weight=weights) == value not in (0.0, 1.0):
        yield f"score is {value} with weights from 0.001 to 1000, too"
    for name, weights in (("negative", -np.ones(len(y))), ("too short", np.ones(len(y) - 1))):
        fault = face.refusal(
            ["sample_weight"], partial(model.score, X, y, **more, sample_weight=weights)
        )
        if fault:
            yield f"weights that are {name}: {fault}"


@behaviour("cross-validation")
def cross_validation(face):
    """scikit-learn's searches and scorers take the face."""
    X, y = face.examples.X, face.examples.y
    for scoring in (None, *face.kind.scorers):
        values = face.call(
            cross_val_score, face.fresh(), X, y, cv=2, scoring=scoring, error_score="raise"
        )
        if not np.isfinite(values).all():
            yield f"scoring={scoring!r} gives {values}"


@behaviour("bounds and records")
def honest_bounds(face):
    """The bound is below the primal, the gap is theirs, and certified means at most tol."""
    model = face.model()
    records = getattr(model, "history_", ())
    for i, record in enumerate(records):
        primal, bound, gap = (record.get(name) for name in ("primal", "bound", "gap"))
        if primal is not None and not np.isfinite(primal):
            yield f"record {i}: primal is {primal}"
        if bound is None or primal is None:
            continue
        slack = 1e-6 * max(1.0, abs(primal))
        if bound > primal + slack:
            yield f"record {i}: bound {bound} is above the primal {primal}"
        if (
            gap is not None
            and abs(gap - max(0.0, primal - bound) / max(abs(primal), 1e-300)) > 1e-4
        ):
            yield f"record {i}: gap {gap} is not that of primal {primal} and bound {bound}"
    if records and getattr(model, "objective_", None) is not None:
        primals = [record["primal"] for record in records if record.get("primal") is not None]
        if primals and not np.isclose(model.objective_, primals).any():
            yield f"objective_ {model.objective_} is no primal of the records"


@behaviour("one prediction")
def cost_of_one_prediction(face):
    """Predicting one example takes no longer after training on more of them."""
    many = face.kind.draw(np.random.default_rng(1), _TIMES)
    if many is None:
        return
    small, large = face.model(), face.fit(face.fresh(), many)
    one = first(face.examples.X, 1)
    cost = [_cost(face, model, one) for model in (small, large)]
    if cost[1][0] > _MORE_SECONDS * cost[0][0] + 0.002:
        yield f"one prediction takes {cost[1][0]:.4f} s, not {cost[0][0]:.4f} s"
    if cost[1][1] > _MORE_MEMORY * cost[0][1] + 50_000:
        yield f"one prediction takes {cost[1][1]} bytes, not {cost[0][1]}"


def _cost(face, model, one):
    """Return the seconds and bytes of one prediction."""
    face.respond(model, one)
    seconds = []
    for _ in range(5):
        began = time.thread_time()
        face.respond(model, one)
        seconds.append(time.thread_time() - began)
    tracemalloc.start()
    try:
        face.respond(model, one)
        return min(seconds), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@behaviour("one example is one of many")
def one_of_many(face):
    """An example alone has the responses that it has among others."""
    model = face.model()
    for n in (1, 3):
        # Scores are those of the parts of all examples.
        expected = {name: values for name, values in face.expected.items() if name != "scores"}
        among = {name: first(values, n) for name, values in expected.items()}
        if difference := face.difference(model, first(face.examples.X, n), among):
            yield f"with {n} of the examples alone the model {difference}"
