"""Behaviours of weights, probabilities and values that are equal, odd or spoilt."""

import inspect
from copy import deepcopy
from dataclasses import replace
from functools import partial

import numpy as np
import pandas
import polars

from tests.battery.checked_face import behaviour, same, unequal
from tests.battery.examples_of_tasks import BAD


@behaviour("names of outputs")
def names_of_outputs(face):
    """Labels keep the names that they were given."""
    model = face.model()
    for name, y, wanted in face.kind.named_outputs(face.examples.y):
        model = face.fit(face.fresh(), replace(face.examples, y=y))
        classes = getattr(model, "classes_", None)
        if classes is None or list(classes) != wanted:
            yield f"{name}: classes_ is {classes}, not {wanted}"


@behaviour("sample weights")
def sample_weights(face):
    """Weights of one change nothing, others do, and bad ones are refused."""
    n = len(face.examples.y)

    def responses(weights):
        model = face.fit(face.fresh(), face.examples, sample_weight=weights)
        return face.responses(model, face.examples.X)

    for ones in (
        np.ones(n),
        [1] * n,
        pandas.Series([1] * n, dtype="Int64"),
        polars.Series([1] * n),
    ):
        if difference := unequal(face.expected, responses(ones)):
            yield f"weights of one as {type(ones)} give other results of {difference}"
    if not unequal(face.expected, responses(np.geomspace(1e-3, 1e3, n))):
        yield "weights from 0.001 to 1000 change nothing"
    for name, weights in (
        ("negative", -np.ones(n)),
        ("NaN", np.full(n, np.nan)),
        ("too short", np.ones(n - 1)),
        ("all zero", np.zeros(n)),
        ("words", ["heavy"] * n),
        ("a string", "balanced"),
        ("a dict", {0: 1.0}),
        ("a generator", (1.0 for _ in range(n))),
        ("two columns", np.ones((n, 2))),
        ("complex", np.ones(n) * 1j),
        ("dates", np.full(n, "2020", "M8[Y]")),
        ("masked", np.ma.MaskedArray(np.ones(n), mask=np.arange(n) == 3)),
    ):
        fault = face.refusal(["sample_weight"], partial(responses, weights))
        if fault:
            yield f"{name}: {fault}"


@behaviour("held-out examples of the user")
def held_out_examples_of_the_user(face):
    """A face that stops early takes examples as y has them, and refuses bad ones by their name."""
    examples, model = face.examples, face.fresh()
    if ("eval_set" in inspect.signature(model.fit).parameters) != face.has("early_stopping"):
        yield "it takes eval_set or early_stopping alone"
    if not face.has("early_stopping"):
        return

    def fit(held, y=examples.y):
        eval_set = held.X, held.y, *held.more.values()
        return face.fit(model, replace(examples, y=y), eval_set=eval_set)

    if model.get_params().get("C") == 1.0:  # one linear function, with nothing to choose
        yield from filter(None, [face.refusal(["eval_set"], fit, examples)])
        return
    some = examples.take(len(examples.y) // 2)
    first, second = (deepcopy(fit(some)) for _ in range(2))
    if unequal(face.responses(first, examples.X), face.responses(second, examples.X)):
        yield "a second fit gives other results"
    losses = getattr(first, "validation_losses_", None)
    if losses:
        n, alone = first.n_iter_, face.model().history_
        if [of["primal"] for of in first.history_] != [of["primal"] for of in alone[:n]]:
            yield "it trains on held-out examples"
        if losses[n - 1] != min(losses):
            yield f"round {n} is not the best of {losses}"
    elif not hasattr(first, "C_path_"):
        yield "nothing tells the held-out loss"
    for name, y, wanted in face.kind.named_outputs(examples.y):
        if list(fit(replace(examples, y=y), y).classes_) != wanted:
            yield f"{name}: classes_ is not {wanted}"
    for values, is_refused in (("spoilt", True), ("odd", False)):
        for argument in ("X", "y"):
            kinds = getattr(face.kind, f"{values}_{'inputs' if argument == 'X' else 'outputs'}")
            for what, value in kinds(getattr(examples, argument)):
                held = replace(examples, **{argument: value})
                fault = face.refusal(["eval_set"], fit, held)
                if fault and (is_refused or not fault.startswith("was not refused")):
                    yield f"{argument} of eval_set, {what}: {fault}"


@behaviour("class weights")
def class_weights(face):
    """Weights of classes change the model, and bad ones are refused."""
    heavy = {"ash": 50.0, "birch": 1.0, "cedar": 1.0}
    model = face.fit(face.fresh(class_weight=heavy), face.examples)
    if not unequal(face.expected, face.responses(model, face.examples.X)):
        yield "a class of weight 50 changes nothing"
    face.fit(face.fresh(class_weight="balanced"), face.examples)
    for value in (3, {"oak": 1.0}, {"birch": 0, "cedar": 0}, dict.fromkeys(heavy, 0)):
        model = face.fresh(class_weight=value)
        fault = face.refusal(["class_weight"], partial(face.fit, model, face.examples))
        if fault:
            yield f"{value!r}: {fault}"


@behaviour("probabilities")
def probabilities(face):
    """Probabilities are between 0 and 1, and sum to 1."""
    model = face.model()
    p = np.asarray(face.call(model.predict_proba, face.examples.X))
    if not ((p >= 0) & (p <= 1)).all() or not np.allclose(p.sum(axis=1), 1.0):
        yield "predict_proba returns rows that do not sum to 1"
    if not np.allclose(np.exp(face.call(model.predict_log_proba, face.examples.X)), p):
        yield "predict_log_proba returns other probabilities"
    best = np.asarray(model.classes_)[p.argmax(axis=1)]
    if not same(best, face.call(model.predict, face.examples.X)):
        yield "predict is not the class of the largest probability"


def _of_values(name, values, argument, method):
    """Add the behaviour that a method takes or refuses each value of a kind of face.

    ``values`` is a method of :class:`tests.battery.examples_of_tasks.Kind` that iterates over the
    values, which replace the ``argument``, X or y.  Spoilt ones are refused with the index of the
    example.  Others have the results of the examples, or are refused by the name of the argument.
    """

    @behaviour(name)
    def faults(face):
        is_score = method == "score"
        names = [face.output_name] if argument == "y" else [face.input_name]
        names += face.input_names if method == "predict" else ()
        names += face.kind.words_of_outputs if is_score else ()
        model = None if method == "fit" else face.model()

        def results(value):
            examples = replace(face.examples, **{argument: value})
            if is_score:
                return {"score": model.score(examples.X, examples.y, **examples.more)}
            fitted = model or face.fit(face.fresh(), examples)
            # A model of values that are not refused predicts the good examples.
            is_fit = method == "fit" and values != "twins_of_inputs"
            return face.responses(fitted, face.examples.X if is_fit else examples.X)

        def fault(value):
            if values.startswith("spoilt"):
                call = partial(results, value)
                return face.refusal(names, call) or face.refusal([str(BAD)], call)
            return face.equal_or_refused(names, partial(results, value), expected)

        examples = getattr(face.examples, argument)
        expected = results(examples) if is_score else None
        for what, value in getattr(face.kind, values)(examples):
            if message := fault(value):
                yield f"{what}: {message}"


for _arguments in (
    ("twins of inputs in predict", "twins_of_inputs", "X", "predict"),
    ("twins of inputs in fit", "twins_of_inputs", "X", "fit"),
    ("twins of outputs", "twins_of_outputs", "y", "fit"),
    ("odd inputs in predict", "odd_inputs", "X", "predict"),
    ("odd inputs in fit", "odd_inputs", "X", "fit"),
    ("odd outputs in fit", "odd_outputs", "y", "fit"),
    ("bad input in fit", "spoilt_inputs", "X", "fit"),
    ("bad input in predict", "spoilt_inputs", "X", "predict"),
    ("bad output in fit", "spoilt_outputs", "y", "fit"),
    ("bad output in score", "odd_outputs", "y", "score"),
):
    _of_values(*_arguments)
