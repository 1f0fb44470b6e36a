"""MultiBoost^cw and MultiBoost round by round: errors, CPU seconds, objective, memory."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from benchmarks.ours.methods import class_scores_of
from benchmarks.runner.datasets import Dataset, Table
from benchmarks.runner.limits import Report, peak_memory, reset_peak_memory
from structboost import CodedTask, MulticlassTask, StructBoost
from structboost.masters import Exponential, Problem, StageWise
from structboost.masters.exponential import ExponentialMaster
from structboost.tasks.codings import coding_matrix, random_column
from structboost.weak import CodeWord, SharedOverChannels
from structboost.weak.terms import Terms

CHECKPOINTS = (1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 500)
ROUNDS = 500
TRAIN_SHARE = 0.75
ACCURACIES = (1e-3, 1e-4, 1e-6)
MOST_PASSES = 500
SHOWN = ("primal", "bound", "gap", "certified", "columns", "oracle_calls")


class Setting(NamedTuple):
    """One way to train; an AdaBoost, if ``ada`` names one, uses only C, which is infinite."""

    name: str
    solver: str  # "fcd" or "lbfgs"
    tau_max: int
    C: float
    pricing: str = "own"  # "best" is MultiBoost: all classes share the weak learners
    ada: str = ""  # "mo", "mh" or "ecc"


def quantised(X: np.ndarray) -> np.ndarray:
    """256 levels of each feature between its extremes, padded by 0.01, as in the published code."""
    low, high = X.min(axis=0).astype(float) - 0.01, X.max(axis=0).astype(float) + 0.01
    return np.floor((X - low) / ((high - low) / 255) + 0.5).astype(np.uint8)


def parts(data: Dataset, split: int, given_rows: Path | None) -> tuple[Table, Table]:
    """Training and test part: the rows of a file, else 75 % at random.

    Features are quantised over all rows, as in the published code; MNIST is 8 bit as it is.
    """
    is_mnist = data.name == "mnist"
    X = data.X.astype(np.uint8) if is_mnist else quantised(data.X)
    if given_rows is not None:
        key = "mnist1000" if is_mnist else data.name
        with np.load(given_rows) as file:
            train = file[f"{key}_train"][split]
            test = np.atleast_2d(file[f"{key}_test"])[-1 if is_mnist else split]
    else:
        rows = np.random.default_rng(split).permutation(len(X))
        n_train = round(TRAIN_SHARE * len(X))
        train, test = np.sort(rows[:n_train]), np.sort(rows[n_train:])
    return Table(X[train], data.y[train]), Table(X[test], data.y[test])


def trainer(
    setting: Setting, n_classes: int, rounds: int, callbacks: Any = None, seed: int = 1
) -> StructBoost:
    """Not yet fitted; runs all its rounds unless pricing is exhausted."""
    task: Any = MulticlassTask(n_classes)
    plug_ins: dict[str, Any] = {
        "formulation": Exponential(setting.solver, setting.tau_max),
        "pricing": setting.pricing,
    }
    if setting.ada:
        task, plug_ins = _adaboost(setting.ada, n_classes, np.random.RandomState(seed))
    common = {"C": setting.C, "tol": 0.0, "max_rounds": rounds, "columns_per_channel": 1}
    return StructBoost(task, **common, **plug_ins, random_state=seed, callbacks=callbacks)


def _adaboost(
    ada: str, n_classes: int, random_state: np.random.RandomState
) -> tuple[Any, dict[str, Any]]:
    """Task and plug-ins of .MO (error-correcting code), .MH (one bit per class) or .ECC.

    .ECC draws a code in each round.
    """
    if ada == "ecc":
        rule = CodeWord(lambda: random_column(n_classes, random_state))
        return MulticlassTask(n_classes), {"formulation": StageWise("outputs"), "pricing": rule}
    coding = "ecoc" if ada == "mo" else "one_vs_all"
    task = CodedTask(coding_matrix(coding, n_classes, random_state))
    return task, {"formulation": StageWise("bits"), "pricing": SharedOverChannels()}


def warm_up(setting: Setting) -> None:
    X = np.arange(24, dtype=np.uint8).reshape(12, 2)
    model = trainer(setting, 3, 12).fit(X, np.repeat(np.arange(3), 4)).model_
    model.scores(X)


def train_watched(
    report: Report,
    setting: Setting,
    train: Table,
    test: Table,
    n_classes: int,
    rounds: int,
    limit: float,
) -> dict[str, Any]:
    """Errors and CPU seconds at the checkpoints, and what the last round says.

    Training stops after the round in which ``limit`` seconds have passed.
    """
    cpu: list[float] = []

    def watch(record: Mapping[str, Any], fitting: Any) -> bool:
        cpu.append(time.process_time() - began)
        return time.perf_counter() - started > limit

    with threadpool_limits(1):
        warm_up(setting)
        before = reset_peak_memory()
        report({})
        began, started = time.process_time(), time.perf_counter()
        fitted = trainer(setting, n_classes, rounds, [watch]).fit(train.X, train.y)
        peak, in_time = peak_memory(), time.perf_counter() - started <= limit
        history, model = fitted.history_, fitted.model_
        reached = [c for c in (*CHECKPOINTS, len(history)) if c <= len(history)]
        tables = {c: model.at_stage(c - 1) for c in dict.fromkeys(reached)}
        errors, train_errors = (
            {c: _error(fitted.task, table.scores(part.X), part.y) for c, table in tables.items()}
            for part in (test, train)
        )
    last = history[-1]
    own = (setting.C, model.weights, model.scores(train.X), train.y)
    return {
        "errors": errors,
        "train_errors": train_errors,
        "cpu": {c: cpu[c - 1] for c in tables},
        **{key: last[key] for key in SHOWN},
        "rounds": last["round"],
        "seconds": cpu[-1],
        "value": errors[len(history)],
        "objective_recomputed": None if setting.ada else objective(*own),
        "primals": {c: history[c - 1]["primal"] for c in tables if c in CHECKPOINTS},
        "learners": model.n_learners,
        "peak_bytes": peak,
        "table_bytes": before,
        "status": "ok" if in_time or last["round"] == rounds else "time_limit",
    }


def _error(task: Any, scores: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(class_scores_of(task, scores).argmax(axis=1) != y))


def objective(C: float, weights: np.ndarray, scores: np.ndarray, y: np.ndarray) -> float:
    """(2) of MultiBoost^cw pair by pair, the mean pair weight alone where C is infinite."""
    rows = np.arange(len(y))
    pairs = np.exp(scores - scores[rows, y][:, None])
    pairs[rows, y] = 0.0
    mean = float(pairs.sum()) / (len(y) * (scores.shape[1] - 1))
    return mean if np.isinf(C) else float(weights.sum()) + C * mean


def race(report: Report, train: Table, n_classes: int, rounds: int, C: float) -> dict[str, Any]:
    """CPU seconds of both solvers on one master, from nothing and from the round before.

    The columns are those of ``rounds`` rounds of FCD; the round before is the weights without those
    of the last round.
    """
    settings = {solver: Setting(solver, solver, 2, C) for solver in ("fcd", "lbfgs")}
    with threadpool_limits(1):
        for setting in settings.values():
            warm_up(setting)
        model = trainer(settings["fcd"], n_classes, rounds).fit(train.X, train.y).model_
        report({})
        starts = {"cold": np.zeros(len(model.weights)), "warm": model.stages[-2]}
        traces = {
            f"{solver}_{start}": exponential_descent(model, train, n_classes, C, solver, weights)
            for solver in settings
            for start, weights in starts.items()
        }
    optimum = min(trace[-1][1] for trace in traces.values())
    found: dict[str, Any] = {"columns": len(model.weights), "optimum": optimum}
    for name, trace in traces.items():
        found[name] = {f"{a:g}": _reached(trace, optimum * (1 + a)) for a in ACCURACIES}
        found[name]["end"] = trace[-1][1] / optimum - 1.0
    return found


def exponential_descent(
    model: Any, train: Table, n_classes: int, C: float, solver: str, start: np.ndarray
) -> list[tuple[float, float]]:
    """(CPU seconds, objective) of a solver on a model's columns, until it gains nothing more."""
    master = _exponential_master(model, train, n_classes, C, solver)
    master.start_at(start)
    trace: list[tuple[float, float]] = []
    began = time.process_time()

    def note(value: float) -> None:
        trace.append((time.process_time() - began, value))

    if solver == "lbfgs":
        bounds = [(0.0, None)] * len(start)
        options = {"ftol": 1e-13, "gtol": 1e-10, "maxiter": 10_000, "maxfun": 20_000}
        minimize(
            *(master.value_and_gradient, start),
            **{"jac": True, "method": "L-BFGS-B", "bounds": bounds, "options": options},
            callback=lambda intermediate_result: note(intermediate_result.fun),
        )
        return trace
    for _ in range(MOST_PASSES):
        before = master.primal
        master.solve(0.0, np.arange(len(start)))
        note(master.primal)
        if before - master.primal < 1e-10 * master.primal:
            break
    return trace


def _exponential_master(
    model: Any, train: Table, n_classes: int, C: float, solver: str
) -> ExponentialMaster:
    """A master with the columns of a model and without weights."""
    member = model.members["x"]
    task, n = MulticlassTask(n_classes), len(train.y)
    formulation = Exponential(solver, tau_max=2, epsilon=1e-9)
    random = np.random.RandomState(0)
    offsets = {"x": np.arange(n + 1)}
    problem = Problem(task, train.X, train.y, offsets, np.full(n, 1.0 / n), random)
    master = ExponentialMaster(problem, C, formulation)
    master.add_responses("x", member.learners.responses(train.X).astype(np.int8))
    order = np.argsort(member.columns)
    fields = (member.columns, member.term_learners, member.channels)
    terms = Terms(*(of_terms[order] for of_terms in fields), np.ones(len(order)))
    master.add_columns({"x": terms}, len(order))
    return master


def _reached(trace: list[tuple[float, float]], objective_value: float) -> float | None:
    return next((cpu for cpu, value in trace if value <= objective_value), None)


@njit(cache=True)
def _dense_pass(
    positive: np.ndarray, negative: np.ndarray, pairs: np.ndarray, down: float, up: float
) -> float:
    """What the published kernel does for an update: two sums over all pairs, then two scalings."""
    plus = 0.0
    minus = 0.0
    for i in range(len(pairs)):
        if positive[i]:
            plus += pairs[i]
        if negative[i]:
            minus += pairs[i]
    for i in range(len(pairs)):
        if positive[i]:
            pairs[i] *= down
        if negative[i]:
            pairs[i] *= up
    return plus - minus


def nanoseconds_per_pair(n_pairs: int = 62_766, n_classes: int = 10) -> float:
    """CPU time of a dense pass on this machine, to compare processors."""
    rare = 1 / n_classes
    rng = np.random.default_rng(0)
    kinds = rng.choice([-1, 0, 1], size=(200, n_pairs), p=[rare, 1 - 2 / n_classes, rare])
    positive, negative = (kinds > 0).astype(np.int8), (kinds < 0).astype(np.int8)
    pairs = np.ones(n_pairs)
    _dense_pass(positive[0], negative[0], pairs, 0.999, 1.001)
    began = time.process_time()
    for p, q in zip(positive, negative, strict=True):
        _dense_pass(p, q, pairs, 0.999, 1.001)
    return 1e9 * (time.process_time() - began) / (len(positive) * n_pairs)
