"""Behaviours of refits, Ctrl-C, threads, copies and files."""

import inspect
import io
import os
import pickle
import signal
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from structboost.contract.parts import deeply_equal
from structboost.errors import InterruptedFitWarning
from tests.battery.checked_face import behaviour, same, shortened, unequal
from tests.helpers.broken_calls import BreakError, at_calls, break_here, hears_ctrl_c, press_ctrl_c

# Moments of a fit, as fractions of its calls.
_MOMENTS = (0.0, 0.4, 0.9)
_N_THREADS = 3


def _facts(model):
    """Return the fitted attributes of a model."""
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


def _is_changed(face, model, before):
    """Return what a fit that failed has changed in a model, or an empty string."""
    now = _facts(model)
    if now.keys() != before.keys():
        lost = sorted(before.keys() - now.keys())
        return f"lost {lost}" if lost else f"has new {sorted(now.keys() - before.keys())}"
    changed = [name for name, value in before.items() if now[name] is not value]
    changed = [name for name in changed if not same(now[name], before[name])]
    if changed:
        return f"has other {changed}"
    return face.difference(model)


@behaviour("refused refit")
def refused_refit(face):
    """A fit that is refused leaves the old model whole."""
    trials = {"inputs are None": (None, face.examples.y, {})}
    if face.kind.reads_outputs:
        trials["outputs are None"] = (face.examples.X, None, {})
        trials["outputs are too short"] = (face.examples.X, face.examples.y[:-1], {})
    for name, value in (("C", -1.0), ("tol", -1.0), ("max_rounds", -1), ("max_iter", -1)):
        if face.has(name):
            trials[f"{name} is {value}"] = (face.examples.X, face.examples.y, {name: value})
    for name, (X, y, parameters) in trials.items():
        model = face.model()
        before = _facts(model)
        try:
            face.call(model.set_params(**parameters).fit, X, y, **face.examples.more)
        except Exception:
            model.set_params(**{key: getattr(face.estimator, key) for key in parameters})
            if changed := _is_changed(face, model, before):
                yield f"{name}: after the refused fit it {shortened(changed)}"
        else:
            yield f"{name}: was not refused"


class _Broken(io.StringIO):
    def write(self, text):
        raise BrokenPipeError


@behaviour("no terminal")
def no_terminal(face):
    """A fit that shows its progress ends where there is no standard error."""
    if not face.has("verbose"):
        return
    closed = io.StringIO()
    closed.close()
    for name, stream in {"None": None, "closed": closed, "broken": _Broken()}.items():
        before, sys.stderr = sys.stderr, stream
        try:
            face.fit(face.fresh(verbose=1), face.examples)
        except Exception as error:
            yield f"standard error is {name}: {error!r}"
        finally:
            sys.stderr = before


def _count_of_calls(face, examples):
    with at_calls() as count:
        face.fit(face.fresh(), examples)
    return count[0]


@behaviour("failed refit")
def failed_refit(face):
    """A fit that fails leaves the old model whole, or none."""
    face.model()
    others = face.examples.take(2 * len(face.examples.y) // 3)
    n_calls = _count_of_calls(face, others)
    for moment in _MOMENTS:
        call = int(moment * (n_calls - 1))
        for is_fitted in (True, False):
            model = face.model() if is_fitted else face.fresh()
            before = _facts(model)
            handler = signal.getsignal(signal.SIGINT)
            try:
                with at_calls((call,), break_here):
                    face.fit(model, others)
                continue  # that call was not reached, or its error did not matter
            except BreakError:
                pass
            except Exception as error:
                # A task's error may be the cause of one that names the example.
                cause = error
                while cause is not None and not isinstance(cause, BreakError):
                    cause = cause.__cause__
                if cause is None:
                    yield f"call {call} of {n_calls}: became {type(error).__name__}: {error}"
            if signal.getsignal(signal.SIGINT) is not handler:
                signal.signal(signal.SIGINT, handler)
                yield f"call {call} of {n_calls}: Ctrl-C is not heard any more"
            yield from _left(
                face, model, before if is_fitted else None, f"call {call} of {n_calls}"
            )


def _left(face, model, before, when):
    """Iterate over faults of an object whose fit did not end."""
    if before is not None:
        changed = _is_changed(face, model, before)
    elif (changed := face.difference(model)).startswith("raises NotFittedError"):
        changed = ""
    else:
        changed = f"has a model, which was not there before, and which {changed or 'is whole'}"
    if changed:
        yield f"{when}: after the fit that did not end it {shortened(changed)}"


@behaviour("at any moment")
def interrupts(face):
    """Ctrl-C gives a usable model with a warning, or KeyboardInterrupt and the old model."""
    if not hears_ctrl_c():
        return
    face.model()
    n_calls = _count_of_calls(face, face.examples)
    for n_presses, moments in ((1, _MOMENTS), (3, (0.7,))):
        for moment in moments:
            call = int(moment * (n_calls - 1))
            calls = tuple(call + step for step in range(n_presses))
            model = face.model()
            before = _facts(model)
            when = f"{n_presses} Ctrl-C from call {call} of {n_calls}"
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    with at_calls(calls, press_ctrl_c):
                        model.fit(face.examples.X, face.examples.y, **face.examples.more)
                except KeyboardInterrupt as stopped:
                    yield from _left(face, model, before, when)
                    if call and not str(stopped):  # call 0 comes before all handling
                        yield f"{when}: KeyboardInterrupt does not say what is left"
                    continue
                except Exception as error:
                    yield f"{when}: {type(error).__name__}: {error}"
                    continue
                finally:
                    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
                        signal.signal(signal.SIGINT, signal.default_int_handler)
                        yield f"{when}: Ctrl-C is not heard any more"
            n_told = sum(issubclass(w.category, InterruptedFitWarning) for w in caught)
            is_told = n_told > 0
            if n_told > 1:
                yield f"{when}: {n_told} warnings of it"
            other = face.difference(model)
            if other and (other.startswith("raises") or not is_told):
                yield f"{when}: the model {other}, InterruptedFitWarning: {is_told}"


@behaviour("fit changes no argument")
def fit_changes_no_argument(face):
    """Fit and predict leave their arguments and the parameters unchanged."""
    examples = deepcopy(face.examples)
    model = face.fresh()
    parameters = {n: repr(v) for n, v in model.get_params(deep=False).items()}
    face.responses(face.fit(model, examples), examples.X)
    if not deeply_equal(examples.X, face.examples.X) or not deeply_equal(
        examples.y, face.examples.y
    ):
        yield "fit or predict changed X or y in place"
    after = model.get_params(deep=False)
    changed = [n for n, v in parameters.items() if repr(after[n]) != v]
    if changed:
        yield f"fit changed the parameters {changed}"


@behaviour("fit twice")
def fit_twice(face):
    """A second fit gives the first model again."""
    model = face.fit(face.model(), face.examples)
    if difference := face.difference(model):
        yield f"a second fit {difference}"


@behaviour("threads")
def fits_in_threads(face):
    """Fits and predictions in several threads are those of one."""
    model = face.model()
    X = face.examples.X

    def fitted(_):
        alone = face.fresh().fit(X, face.examples.y, **face.examples.more)
        return face.responses(alone, X), face.responses(model, X)

    with warnings.catch_warnings(), ThreadPoolExecutor(_N_THREADS) as pool:
        warnings.simplefilter("ignore")
        for alone, shared in pool.map(fitted, range(_N_THREADS)):
            if difference := unequal(face.expected, alone):
                yield f"a fit in a thread gives other results of {difference}"
            if difference := unequal(face.expected, shared):
                yield f"a model that several threads use gives other results of {difference}"


@behaviour("copies")
def copies(face):
    """Pickle and deepcopy keep the model, clone the parameters."""
    model = face.model()
    for name, copy in (
        ("pickle", lambda: pickle.loads(pickle.dumps(model))),
        ("deepcopy", lambda: deepcopy(model)),
    ):
        twin = face.call(copy)
        if difference := face.difference(twin):
            yield f"{name} {difference}"
    twin = clone(model)
    try:
        face.respond(twin, face.examples.X)
        yield "clone has a model"
    except NotFittedError:
        pass


def _called(face, model, name):
    result = face.kind.ask(getattr(model, name), face.examples.X)
    return next(result) if inspect.isgenerator(result) else result


@behaviour("predict before fit")
def predict_before_fit(face):
    """Every method that needs a model raises NotFittedError."""
    model = face.fresh()
    trials = {
        name: partial(_called, face, model, name)
        for name in (
            "predict predict_proba decision_function predict_costs predict_marginals transform "
            "scores contributions staged_predict staged_decision_function"
        ).split()
        if hasattr(model, name)
    }
    if hasattr(model, "score"):
        trials["score"] = lambda: model.score(face.examples.X, face.examples.y)
    if hasattr(model, "save"):
        trials["save"] = lambda: model.save(Path(tempfile.gettempdir()) / "never-made.model")
    if "feature_importances_" in dir(model):
        trials["feature_importances_"] = lambda: model.feature_importances_
    for name, call in trials.items():
        try:
            result = face.call(call)
        except NotFittedError:
            continue
        except Exception as error:
            yield f"{name} raises {type(error).__name__}: {shortened(str(error))}"
        else:
            yield f"{name} returns {shortened(result)}"


@behaviour("set_params after fit")
def set_params_after_fit(face):
    """Parameters that are set after a fit do not change its model."""
    for name, value in {
        "C": 7.5, "tol": 0.3, "max_rounds": 1, "max_iter": 1, "max_epochs": 1, "taxonomy": None,
        "class_weight": "balanced", "loss": "other", "objective": "other", "weak_learner": "tree",
        "coding": "other", "codes": "other", "formulation": "other", "hierarchy": [],
        "forbidden": [("N", "O"), ("O", "N")], "n_segments": 1, "passthrough": True, "folds": 3,
        "categorical_features": [0], "outputs": "other", "max_depth": 1,
        "radius": 1, "word": "other", "window": 1, "columns": ["other"], "problem": np.sign,
    }.items():  # fmt: skip
        if not face.has(name):
            continue
        model = face.model().set_params(**{name: value})
        if difference := face.difference(model):
            yield f"{name}={value!r} after fit changes the model: it {difference}"


def _load(face, path):
    """Load a model, and pass the arguments of ``load`` that files do not hold."""
    load = type(face.estimator).load
    more = [getattr(face.estimator, name) for name in [*inspect.signature(load).parameters][1:]]
    return face.call(load, path, *more)


@behaviour("save and load")
def save_and_load(face):
    """A loaded model has the same results, also after it is saved again."""
    model = face.model()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "model", os.path.join(folder, "a model of \u00e4")]
        for path in paths:
            face.call(model.save, path)
            loaded = _load(face, path)
            if difference := face.difference(loaded):
                yield f"the loaded model {difference}"
        face.call(loaded.save, Path(folder) / "again")
        again = _load(face, Path(folder) / "again")
        if difference := face.difference(again):
            yield f"a loaded model that is saved again {difference}"


@behaviour("settings in files")
def settings_in_files(face):
    """A loaded model has the parameters and the attributes of the saved one."""
    model = face.model()
    with tempfile.TemporaryDirectory() as folder:
        face.call(model.save, Path(folder) / "model")
        loaded = _load(face, Path(folder) / "model")
    if repr(loaded) != repr(model):
        yield f"the loaded model has another repr: {repr(loaded)!r}, not {repr(model)!r}"
    if lost := {name for name in _facts(model) if not hasattr(loaded, name)}:
        yield f"the loaded model lacks {sorted(lost)}"
    if difference := face.difference(face.fit(loaded, face.examples)):
        yield f"a loaded model that is fitted again {difference}"
