"""MultiBoost^cw and MultiBoost round by round: errors, CPU seconds, objective, memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from benchmarks.limits import peak_memory, reset_peak_memory
from benchmarks.methods.base import Table

CHECKPOINTS = (1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 500)
ROUNDS = 500
ACCURACIES = (1e-3, 1e-4, 1e-6)


class Setting(NamedTuple):
    """One way to train.

    Parameters
    ----------
    name : str
    solver : {"fcd", "lbfgs"}
    tau_max : int
    C : float
    pricing : {"own", "best"}
        ``best`` is MultiBoost: all classes share the weak learners.
    ada : {"", "mo", "mh", "ecc"}
        An AdaBoost in its place, stage-wise; of the others only C is used, which is infinite.
    """

    name: str
    solver: str
    tau_max: int
    C: float
    pricing: str = "own"
    ada: str = ""


def quantised(X: np.ndarray) -> np.ndarray:
    """256 levels of each feature between its extremes, padded by 0.01: the rule of the published code."""
    low, high = X.min(axis=0).astype(float) - 0.01, X.max(axis=0).astype(float) + 0.01
    return np.floor((X - low) / ((high - low) / 255) + 0.5).astype(np.uint8)


def trainer(setting: Setting, n_classes: int, rounds: int, callbacks: Any = None, seed: int = 1) -> Any:
    """Not yet fitted; runs all its rounds unless pricing is exhausted."""
    from structboost import Exponential, MulticlassTask, StructBoost

    if setting.ada:
        return _ada_trainer(setting, n_classes, rounds, callbacks, seed)
    return StructBoost(
        MulticlassTask(n_classes),
        C=setting.C,
        tol=0.0,
        max_rounds=rounds,
        formulation=Exponential(setting.solver, setting.tau_max),
        pricing=setting.pricing,
        columns_per_channel=1,
        random_state=seed,
        callbacks=callbacks,
    )


def _ada_trainer(setting: Setting, n_classes: int, rounds: int, callbacks: Any, seed: int) -> Any:
    """AdaBoost.MO with an error-correcting code, .MH with a bit a class, .ECC with a code drawn in each round."""
    from structboost import CodedTask, MulticlassTask, StructBoost
    from structboost.codings import coding_matrix, random_column
    from structboost.masters.stage_wise import StageWise
    from structboost.weak.pricing import Code, Tied

    random_state = np.random.RandomState(seed)
    if setting.ada == "ecc":
        task: Any = MulticlassTask(n_classes)
        rule: Any = Code(lambda: random_column(n_classes, random_state))
    else:
        coding = "ecoc" if setting.ada == "mo" else "one_vs_all"
        task, rule = CodedTask(coding_matrix(coding, n_classes, random_state)), Tied()
    return StructBoost(
        task,
        C=setting.C,
        tol=0.0,
        max_rounds=rounds,
        formulation=StageWise("outputs" if setting.ada == "ecc" else "bits"),
        pricing=rule,
        columns_per_channel=1,
        random_state=seed,
        callbacks=callbacks,
    )


def warm_up(setting: Setting) -> None:
    """Compile all kernels on a made table."""
    X = np.arange(24, dtype=np.uint8).reshape(12, 2)
    y = np.repeat(np.arange(3), 4)
    model = trainer(setting, 3, 12).fit(X, y).model_
    model.compile().scores(X)


def train_watched(
    report: Callable[[dict[str, Any]], None], setting: Setting, train: Table, test: Table, n_classes: int, rounds: int
) -> dict[str, Any]:
    """Errors and CPU seconds at the checkpoints, and what the last round says; reported on the way."""
    with threadpool_limits(1):
        warm_up(setting)
        before = reset_peak_memory()
        report({"errors": {}, "cpu": {}})
        watch = _Watch(report, train, test)
        watch.started = time.process_time()
        fitted = trainer(setting, n_classes, rounds, [watch]).fit(train.X, train.y)
        watch.look(fitted.history_[-1], fitted.model_, fitted.task)
    model, last = fitted.model_, fitted.history_[-1]
    used = [c for c in CHECKPOINTS if c <= len(fitted.history_)]
    return {
        **watch.seen,
        "value": watch.seen["errors"][last["round"]],
        "objective_recomputed": None
        if setting.ada
        else objective(setting.C, model.weights, model.scores(train.X), train.y),
        "primals": {c: fitted.history_[c - 1]["primal"] for c in used},
        "learners": model.n_learners,
        "peak_bytes": watch.peak,
        "table_bytes": before,
    }


class _Watch:
    """A callback that measures at the checkpoints, with the clock stopped."""

    def __init__(self, report: Callable[[dict[str, Any]], None], train: Table, test: Table) -> None:
        self.report, self.train, self.test = report, train, test
        self.started = 0.0
        self.peak = 0
        self.seen: dict[str, Any] = {"errors": {}, "train_errors": {}, "cpu": {}}

    def __call__(self, record: dict[str, Any], fitting: Any) -> None:
        """Look at checkpoints only."""
        if record["round"] in CHECKPOINTS:
            self.look(record, fitting._run.current_model(), fitting.task)

    def look(self, record: dict[str, Any], model: Any, task: Any) -> None:
        """Errors, seconds and the certificate of one round."""
        round_ = record["round"]
        if round_ in self.seen["errors"]:
            return
        stopped = time.process_time()
        self.peak = max(self.peak, peak_memory())
        self.seen["cpu"][round_] = stopped - self.started
        table = model.compile()
        for name, part in (("errors", self.test), ("train_errors", self.train)):
            scores = table.scores(part.X)
            by_class = task.class_scores(scores) if hasattr(task, "class_scores") else scores
            self.seen[name][round_] = float(np.mean(by_class.argmax(axis=1) != part.y))
        self.seen |= {key: record[key] for key in ("primal", "bound", "gap", "certified", "columns", "oracle_calls")}
        self.seen |= {"rounds": round_, "seconds": self.seen["cpu"][round_]}
        self.report(self.seen)
        self.started += time.process_time() - stopped


def objective(C: float, weights: np.ndarray, scores: np.ndarray, y: np.ndarray) -> float:
    """(2) of MultiBoost^cw pair by pair, the mean pair weight alone where C is infinite."""
    pairs = np.exp(scores - scores[np.arange(len(y)), y][:, None])
    pairs[np.arange(len(y)), y] = 0.0
    mean = float(pairs.sum()) / (len(y) * (scores.shape[1] - 1))
    return mean if np.isinf(C) else float(weights.sum()) + C * mean


def race(report: Callable[[dict[str, Any]], None], train: Table, n_classes: int, rounds: int, C: float) -> Any:
    """CPU seconds of both solvers on one master, from nothing and from the round before.

    The columns are those of ``rounds`` rounds of FCD; the round before is the weights without those of the last round.
    """
    with threadpool_limits(1):
        for solver in ("fcd", "lbfgs"):
            warm_up(Setting(solver, solver, 2, C))
        model = trainer(Setting("fcd", "fcd", 2, C), n_classes, rounds).fit(train.X, train.y).model_
        report({})
        starts = {"cold": np.zeros(len(model.weights)), "warm": model.stages[-2]}
        traces = {
            f"{solver}_{start}": _descend(model, train, n_classes, C, solver, weights)
            for solver in ("fcd", "lbfgs")
            for start, weights in starts.items()
        }
    optimum = min(trace[-1][1] for trace in traces.values())
    found: dict[str, Any] = {"columns": len(model.weights), "optimum": optimum}
    for name, trace in traces.items():
        found[name] = {
            f"{accuracy:g}": next((cpu for cpu, value in trace if value <= optimum * (1 + accuracy)), None)
            for accuracy in ACCURACIES
        }
        found[name]["end"] = trace[-1][1] / optimum - 1.0
    return found


def _descend(
    model: Any, train: Table, n_classes: int, C: float, solver: str, start: np.ndarray
) -> list[tuple[float, float]]:
    """(CPU seconds, objective) of a solver on the columns of ``model``, until it gains nothing more."""
    from structboost import Exponential, MulticlassTask
    from structboost.masters.exponential import ExponentialMaster

    member = model.members["x"]
    codes = MulticlassTask(n_classes).codes(train.y)
    random = np.random.RandomState(0)
    n = len(train.y)
    formulation = Exponential(solver, tau_max=2, epsilon=1e-9)
    master = ExponentialMaster(codes, "x", np.full(n, 1.0 / n), C, formulation, random)
    master.add_responses("x", member.learners.responses(train.X).astype(np.int8))
    order = np.argsort(member.columns)
    terms = (member.columns[order], member.term_learners[order], member.channels[order], np.ones(len(order)))
    master.add_columns({"x": terms}, len(order))
    master.start_at(start)
    trace: list[tuple[float, float]] = []
    began = time.process_time()
    if solver == "lbfgs":
        minimize(
            master.value_and_gradient, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(start),
            options={"ftol": 1e-13, "gtol": 1e-10, "maxiter": 10_000, "maxfun": 20_000},
            callback=lambda intermediate_result: trace.append((time.process_time() - began, intermediate_result.fun)),
        )  # fmt: skip
        return trace
    for _ in range(500):
        before = master.primal
        master.solve(0.0, np.arange(len(start)))
        trace.append((time.process_time() - began, master.primal))
        if before - master.primal < 1e-10 * master.primal:
            break
    return trace


@njit(cache=True)
def _dense_pass(positive: np.ndarray, negative: np.ndarray, pairs: np.ndarray, down: float, up: float) -> float:
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
    rng = np.random.default_rng(0)
    kinds = rng.choice([-1, 0, 1], size=(200, n_pairs), p=[1 / n_classes, 1 - 2 / n_classes, 1 / n_classes])
    positive, negative = (kinds > 0).astype(np.int8), (kinds < 0).astype(np.int8)
    pairs = np.ones(n_pairs)
    _dense_pass(positive[0], negative[0], pairs, 0.999, 1.001)
    began = time.process_time()
    for p, q in zip(positive, negative, strict=True):
        _dense_pass(p, q, pairs, 0.999, 1.001)
    return 1e9 * (time.process_time() - began) / (len(positive) * n_pairs)
