"""StructBoost with stumps, in its three formulations: where the benchmarks train our models."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from benchmarks.imports import imported_sources
from benchmarks.methods.base import Method, Table, Trial, uninterrupted

MAX_ROUNDS = 200
# A fit of the path over C stops here, at the gap it has; the fit at the chosen C does not.
PATH_SECONDS = 60.0
LARGEST_C = 1000.0
NAMES = {
    ("one_slack", True): "structboost_1slack",
    ("m_slack", True): "structboost_mslack",
    ("one_slack", False): "structboost_printed",
}


class StructBoostMethod(Method):
    """Common to ranking and classification: C by one warm-started path over the grid.

    Parameters
    ----------
    formulation : {"one_slack", "m_slack"}
    stabilize : bool
        False: Algorithm 2 as printed.
    spreads : bool
        Whether the fit goes to half of the gap that is asked for and then spreads the weights within it; False where
        formulations are timed against each other.
    """

    packages = ("numba", "scipy")
    candidates = [{"C": float(C)} for C in np.logspace(1, 3, 6)]
    gap: float
    exact: ClassVar[bool]
    columns_per_channel: ClassVar[int] = 5
    task_module: ClassVar[str]

    def __init__(self, formulation: str = "one_slack", *, stabilize: bool = True, spreads: bool = True) -> None:
        self.formulation = formulation
        self.spreads = spreads
        self.stabilize = stabilize
        self.name = NAMES[formulation, stabilize]

    def problem(self, train: Table) -> tuple[Any, Any, Any]:
        """Task, inputs and outputs."""
        raise NotImplementedError

    def trainer(self, task: Any, C: float, callbacks: Any = None) -> Any:
        """Not yet fitted."""
        from structboost import StructBoost

        return StructBoost(
            task,
            C=C,
            tol=0.5 * self.gap if self.spreads else self.gap,
            spread=self.gap if self.spreads else 0.0,
            max_rounds=MAX_ROUNDS,
            weak_learner="stump",
            formulation=self.formulation,
            stabilize=self.stabilize,
            exact=self.exact,
            columns_per_channel=self.columns_per_channel,
            random_state=0,
            callbacks=callbacks,
        )

    def trials(self, train: Table, validation: Table, candidates: list[dict[str, Any]], objective: Any) -> list[Trial]:
        """Each C, warm started from the one before."""
        task, X, Y = self.problem(train)
        Cs = [params["C"] for params in candidates]
        trained = list(map(uninterrupted, self.trainer(task, Cs[0], callbacks=[_out_of_time]).path(X, Y, Cs)))
        trials = []
        for C, one in zip(Cs, trained, strict=True):
            value = objective.measure(validation.y, self.output(one, validation.X))
            trials.append(Trial({"C": C}, value, self.facts(one)))
        return trials

    def fit(self, train: Table, params: dict[str, Any], callbacks: Any = None) -> Any:
        """Trained from scratch."""
        task, X, Y = self.problem(train)
        return uninterrupted(self.trainer(task, params["C"], callbacks).fit(X, Y))

    def facts(self, model: Any) -> dict[str, Any]:
        """The certificate and the counts of the last round."""
        last = model.history_[-1]
        shown = ("gap", "certified", "primal", "bound", "cuts", "columns", "oracle_calls")
        return {"rounds": last["round"], **{name: last[name] for name in shown}}

    def tuning_facts(self, trials: list[Trial]) -> dict[str, Any]:
        """Rounds and gaps along the path, the gap at C = 1000 by name."""
        path = [{"C": t.params["C"], "gap": t.facts["gap"], "rounds": t.facts["rounds"]} for t in trials]
        return {"path": path, "gap_at_1000": next((p["gap"] for p in path if p["C"] == LARGEST_C), None)}

    def sources(self) -> list[Path]:
        """This file and what it uses of the package."""
        return [*super().sources(), *imported_sources("structboost.boosting", self.task_module)]


class Ranking(StructBoostMethod):
    """Maximises the AUC (section 3.2), pricing over all distinct thresholds."""

    gap = 0.01
    exact = True
    # One channel: a few columns a round are few to choose from, and to spread weight over.
    columns_per_channel = 20
    task_module = "structboost.tasks.ranking"

    def problem(self, train: Table) -> tuple[Any, Any, Any]:
        """One query that holds all rows."""
        from structboost.tasks import RankingTask

        return RankingTask(), [train.X], [train.y]

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        """Scores."""
        return model.model_.scores(X)[:, 0]

    def warm_up(self) -> None:
        """Compile all kernels on a made table."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, 3)).astype(np.float32)
        model = self.fit(Table(X, (X[:, 0] + rng.normal(size=40) > 0).astype(np.int64)), {"C": 10.0})
        self.output(model, X)


class Multiclass(StructBoostMethod):
    """Class-specific stumps (section 3.3); predicts by its compiled tables.

    Parameters
    ----------
    gap : float
        Relative gap to which C is chosen and the model fitted.
    """

    exact = False
    task_module = "structboost.tasks.multiclass"

    def __init__(self, gap: float) -> None:
        super().__init__()
        self.gap = gap

    def problem(self, train: Table) -> tuple[Any, Any, Any]:
        """One example a row."""
        from structboost.tasks import MulticlassTask

        return MulticlassTask(int(train.y.max()) + 1), train.X, train.y

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        """Labels."""
        if not hasattr(model, "compiled_for_benchmark"):
            model.compiled_for_benchmark = model.model_.compile()
        return model.compiled_for_benchmark.scores(X).argmax(axis=1)

    def warm_up(self) -> None:
        """Compile all kernels on a made table."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 3)).astype(np.float32)
        model = self.fit(Table(X, np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5])), {"C": 10.0})
        self.output(model, X)


def _out_of_time(last: dict[str, Any], trainer: Any) -> bool:
    """Callback that ends a fit of the path."""
    return last["seconds"] > PATH_SECONDS


def fit_reporting(
    report: Callable[[dict[str, Any]], None], method: Ranking, train: Table, test: Table, C: float
) -> dict[str, Any]:
    """Fit in a process of its own, with a report after each round (see `limits`)."""
    shown = ("round", "gap", "certified")

    def progress(last: dict[str, Any], trainer: Any) -> None:
        report(dict(zip(("rounds", "gap", "certified"), (last[name] for name in shown), strict=True)))

    with threadpool_limits(1):
        method.warm_up()
        report({})
        started = time.perf_counter()
        model = method.fit(train, {"C": C}, callbacks=[progress])
        seconds = time.perf_counter() - started
    return {**method.facts(model), "seconds": seconds, "value": roc_auc_score(test.y, method.output(model, test.X))}


def train_rounds(train: Table, n_rounds: int) -> list[dict[str, Any]]:
    """History of ``n_rounds`` rounds, one column for each class in each, on a multi-class table."""
    from structboost import StructBoost
    from structboost.tasks import MulticlassTask

    task = MulticlassTask(int(train.y.max()) + 1)
    trainer = StructBoost(task, C=LARGEST_C, tol=1e-9, max_rounds=n_rounds, columns_per_channel=1)
    return trainer.fit(train.X, train.y).history_


def ensemble_of_stumps(stumps: dict[str, np.ndarray], n_features: int) -> Any:
    """An ensemble of given stumps: arrays feature, threshold, left, right and channel."""
    from structboost.ensemble import Ensemble, KindEnsemble
    from structboost.task import PartKind
    from structboost.weak.stump import StumpTable

    numbers = np.arange(len(stumps["feature"]))
    member = KindEnsemble(
        family="stump",
        learners=StumpTable(*(stumps[name] for name in ("feature", "threshold", "left", "right"))),
        columns=numbers,
        term_learners=numbers,
        channels=stumps["channel"],
        coefficients=np.ones(len(numbers)),
        n_features=n_features,
    )
    weights = np.ones(len(numbers))
    kinds = {"x": PartKind(n_channels=int(stumps["channel"].max()) + 1)}
    return Ensemble(kinds, {"x": member}, weights, weights[None])
