"""Behaviours of names, and powers that all faces have."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
from scipy import sparse

from tests.battery.checked_face import behaviour, same, unequal
from tests.battery.examples import BAD, optional

_NAMES = ("wind", "rain", "load", "heat")


def _named(face, change=lambda frame: frame):
    """Return the inputs with names of columns, each frame changed."""
    X = face.kind.named(face.examples.X, _NAMES[: np.shape(face.examples.X[0])[-1]])
    return [change(frame) for frame in X] if isinstance(X, list) else change(X)


def _response(face, model, change):
    return face.respond(model, _named(face, change))


@behaviour("columns by name")
def columns_by_name(face):
    """Columns are matched by name, wrong names refused, names kept."""
    frames = _named(face)
    model = face.fit(face.fresh(), replace(face.examples, X=frames))
    expected = face.responses(model, frames)
    of_model = list(getattr(model, "feature_names_in_", ()))
    names = [*_NAMES][: np.shape(face.examples.X[0])[-1]]
    if of_model != names:
        yield f"feature_names_in_ is {of_model} after frames with the columns {names}"
    turned = _named(face, lambda frame: frame[list(frame.columns)[::-1]])
    if difference := face.difference(model, turned, expected):
        yield f"with columns in another order the model {difference}"
    wrong = {
        "unknown column": (lambda frame: frame.rename(columns={"wind": "typo"}), ["typo", "wind"]),
        "missing column": (lambda frame: frame.drop(columns="wind"), ["wind"]),
        "additional column": (lambda frame: frame.assign(typo=1.0), ["typo"]),
    }
    for name, (change, words) in wrong.items():
        fault = face.refusal(words, partial(_response, face, model, change))
        if fault:
            yield f"{name}: {fault}"


@behaviour("names of outputs")
def names_of_outputs(face):
    """Labels keep the names that they were given."""
    model = face.model()
    for name, y, wanted in face.kind.named_outputs(face.examples.y):
        model = face.fit(face.fresh(), replace(face.examples, y=y))
        classes = getattr(model, "classes_", None)
        if classes is None or list(classes) != wanted:
            yield f"{name}: classes_ is {classes}, not {wanted}"


def _table_with(face, change):
    return replace(face.examples, X=change(face.examples.X))


def _missing(X):
    X = X.copy()
    X[::5, 0] = np.nan
    return X


def _with_strings(X, word=""):
    pandas = optional("pandas")
    frame = pandas.DataFrame(X, columns=_NAMES[: X.shape[1]])
    return frame.assign(wind=[word or ("low" if x < 0 else "high") for x in X[:, 0]])


def _fit_of(change):
    """Return how a face refuses inputs that it does not take."""
    return lambda face: face.refusal(
        [face.input_name], lambda: face.fit(face.fresh(), _table_with(face, change))
    )


@behaviour("missing values", _fit_of(_missing))
def missing_values(face):
    """NaN is a missing value, in fit and in predict."""
    examples = _table_with(face, _missing)
    responses = face.responses(face.fit(face.fresh(), examples), examples.X)
    for name, values in responses.items():
        if np.asarray(values).dtype.kind == "f" and not np.isfinite(values).all():
            yield f"{name} returns values that are not finite"


@behaviour("categories", _fit_of(_with_strings))
def categories(face):
    """Columns of strings are categories, and unseen values warn."""
    examples = _table_with(face, _with_strings)
    model = face.fit(face.fresh(), examples)
    face.responses(model, examples.X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        face.method(model)(_with_strings(face.examples.X, "unseen"))
    if not any("wind" in str(warning.message) for warning in caught):
        yield "a column of categories, none of which training had, gives no warning that names it"
    pandas = optional("pandas")
    twin = examples.X.assign(wind=pandas.Categorical(examples.X["wind"]))
    other = face.fit(face.fresh(), replace(examples, X=twin))
    if difference := face.difference(other, twin, face.responses(model, examples.X)):
        yield f"with pandas' categories for strings the model {difference}"


@behaviour("sparse rows", _fit_of(sparse.csr_array))
def sparse_rows(face):
    """Sparse rows give the model of the same dense rows."""
    examples = _table_with(face, sparse.csr_array)
    if difference := face.difference(face.fit(face.fresh(), examples), examples.X):
        yield f"with sparse rows the model {difference}"


@behaviour("sample weights")
def sample_weights(face):
    """Weights of one change nothing, others do, and bad ones are refused."""
    n = len(face.examples.y)

    def responses(weights):
        model = face.fit(face.fresh(), face.examples, sample_weight=weights)
        return face.responses(model, face.examples.X)

    if difference := unequal(face.expected, responses(np.ones(n))):
        yield f"weights of one give other results of {difference}"
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
    ):
        fault = face.refusal(["sample_weight"], partial(responses, weights))
        if fault:
            yield f"{name}: {fault}"


@behaviour("class weights")
def class_weights(face):
    """Weights of classes change the model, and bad ones are refused."""
    heavy = {"ash": 50.0, "birch": 1.0, "cedar": 1.0}
    model = face.fit(face.fresh(class_weight=heavy), face.examples)
    if not unequal(face.expected, face.responses(model, face.examples.X)):
        yield "a class of weight 50 changes nothing"
    face.fit(face.fresh(class_weight="balanced"), face.examples)
    for value in ("heavy", {"ash": -1.0}, {"ash": np.nan}, {"ash": "heavy"}, 3, ["ash"]):
        model = face.fresh(class_weight=value)
        fault = face.refusal(["class_weight"], partial(face.fit, model, face.examples))
        if fault:
            yield f"{value!r}: {fault}"


@behaviour("early stopping")
def early_stopping(face):
    """A fit stops by examples that it held out."""
    model = face.fit(face.fresh(early_stopping=True, n_iter_no_change=2), face.examples)
    if not hasattr(model, "validation_losses_"):
        yield "validation_losses_ is missing after early stopping"


def _monotone(face):
    """Return a model of two outputs whose score falls in the first column."""
    constraints = [-1] + [0] * (face.examples.X.shape[1] - 1)
    examples = replace(face.examples, y=face.kind.two_outputs(face.examples))
    return face.fit(face.fresh(monotonic_cst=constraints), examples)


def _monotone_refused(face):
    return face.refusal(["monotonic_cst"], _monotone, face)


@behaviour("monotone constraints", _monotone_refused)
def monotone_constraints(face):
    """A constraint makes responses monotone in its column."""
    model = _monotone(face)
    grid = np.repeat(face.examples.X[:1], 13, axis=0)
    grid[:, 0] = np.arange(-6, 7)
    scores = face.call(model.decision_function, grid)
    if scores.ndim != 1:
        yield f"scores of two outputs have shape {scores.shape}"
    elif not (np.diff(scores) <= 1e-9).all():
        yield "scores rise where the constraint says that they fall"


@behaviour("probabilities")
def probabilities(face):
    """Probabilities are between 0 and 1, and sum to 1."""
    model = face.model()
    p = np.asarray(face.call(model.predict_proba, face.examples.X))
    if not ((p >= 0) & (p <= 1)).all() or not np.allclose(p.sum(axis=1), 1.0):
        yield "predict_proba returns rows that do not sum to 1"
    best = np.asarray(model.classes_)[p.argmax(axis=1)]
    if not same(best, face.call(model.predict, face.examples.X)):
        yield "predict is not the class of the largest probability"


def _of_values(name, values, argument, method):
    """Add the behaviour that a method takes or refuses each value of a kind of face.

    ``values`` is a method of :class:`tests.battery.examples.Kind` that iterates over the
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
