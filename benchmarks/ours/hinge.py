"""StructBoost with hinge loss, in its three formulations: where the benchmarks train our models."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from benchmarks.peers.method import Method, Params, Trial, made_classes
from benchmarks.runner.datasets import Table
from benchmarks.runner.limits import Report
from benchmarks.runner.protocol import timed
from structboost import MulticlassTask, PartKind, RankingTask, StructBoost, TaxonomyTask, TreeFamily
from structboost.ensemble import Ensemble, KindEnsemble
from structboost.weak.stump import StumpTable

MAX_ROUNDS = 200
# Rounds whose test error or objective is kept.
CHECKPOINTS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200)
LARGEST_C = 1000.0
DEPTH = 3
# Trees have no bound to stop by.
TREE_ROUNDS = 100


def uninterrupted(trainer: Any) -> Any:
    """The trainer; after Ctrl-C, when it keeps what it has and returns, KeyboardInterrupt."""
    if trainer.interrupted_:
        raise KeyboardInterrupt
    return trainer


def certified_gap(last: Mapping[str, Any]) -> float | None:
    """Gap of a record of the history; None where it is not proved for the whole family."""
    return last["gap"] if last["certified"] else None


def grid(low: float, high: float) -> list[dict[str, float]]:
    """Six values of C between two powers of ten."""
    return [{"C": float(C)} for C in np.logspace(low, high, 6)]


@dataclass
class Hinge(Method):
    """Chooses C by one warm-started path over the grid, then whether to spread the weights.

    A fit of the path stops after ``path_seconds`` at the gap it has; that at the chosen C does not.
    """

    name: str
    gap: float  # relative, as asked for
    fit_share: float = 0.5  # of the gap; the rest is for spreading the weights
    spreads: bool = True  # False where formulations are timed against each other
    settings: dict[str, Any] = field(default_factory=dict)  # further ones of StructBoost
    path_seconds: float = 60.0
    candidates: list[dict[str, float]] = field(default_factory=lambda: grid(1, 3))
    packages = ("numba", "scipy")

    def problem(self, train: Table) -> tuple[Any, Any, Any]:
        raise NotImplementedError

    def made(self) -> Table:
        """A small table to compile all kernels on."""
        return made_classes()

    def trainer(self, task: Any, C: float, callbacks: Any = None, spread: float = 0.0) -> Any:
        """Not yet fitted."""
        settings = {"max_rounds": MAX_ROUNDS, **self.settings, "random_state": 0}
        tol = self.fit_share * self.gap if self.spreads else self.gap
        return StructBoost(task, C=C, tol=tol, spread=spread, callbacks=callbacks, **settings)

    def trials(
        self, train: Table, validation: Table, candidates: list[Params], objective: Any
    ) -> list[Trial]:
        """Each C, warm started from the one before; then the best of them with spread weights."""
        task, X, Y = self.problem(train)
        Cs = [params["C"] for params in candidates]
        path = self.trainer(task, Cs[0], callbacks=[self._out_of_time]).path(X, Y, Cs)
        trials = []
        for C, one in zip(Cs, [uninterrupted(one) for one in path], strict=True):
            value = objective.measure(validation.y, self.output(one, validation.X))
            in_time = not self._out_of_time(one.history_[-1], one)
            trials.append(Trial({"C": C}, value, {**self.facts(one), "in_time": in_time}))
        if self.spreads:
            best = max(trials, key=lambda trial: objective.sign * trial.value)
            params = {**best.params, "spread": self.gap}
            trials.append(self.trial(train, validation, params, objective))
        return trials

    def fit(self, train: Table, params: Params, callbacks: Any = None) -> Any:
        task, X, Y = self.problem(train)
        trainer = self.trainer(task, params["C"], callbacks, params.get("spread", 0.0))
        return uninterrupted(trainer.fit(X, Y))

    def _out_of_time(self, last: Mapping[str, Any], trainer: Any) -> bool:
        """Callback that ends a fit of the path."""
        return bool(last["seconds"] > self.path_seconds)

    def staged_outputs(self, model: Any, X: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        n_stages = model.model_.n_stages
        for round_ in sorted({n_stages, *(c for c in CHECKPOINTS if c < n_stages)}):
            stage = SimpleNamespace(model_=model.model_.at_stage(round_ - 1), task=model.task)
            yield round_, self.output(stage, X)

    def facts(self, model: Any) -> dict[str, Any]:
        last = model.history_[-1]
        shown = ("certified", "primal", "bound", "cuts", "columns", "oracle_calls")
        facts = {name: last[name] for name in shown}
        return {"rounds": last["round"], "gap": certified_gap(last), **facts}

    def tuning_facts(self, trials: list[Trial]) -> dict[str, Any]:
        """Rounds and gaps along the path, the gap at C = 1000, and whether time cut it short."""
        of_path = [trial for trial in trials if trial.facts]
        path = [{"C": t.params["C"], **{k: t.facts[k] for k in ("gap", "rounds")}} for t in of_path]
        return {
            "path": path,
            "gap_at_1000": next((p["gap"] for p in path if p["C"] == LARGEST_C), None),
            "tuned_in_time": all(trial.facts["in_time"] for trial in of_path),
        }

    def warm_up(self) -> None:
        train = self.made()
        self.output(self.fit(train, {"C": 10.0}), train.X)


class Ranking(Hinge):
    """Maximises the AUC (section 3.2), pricing over all distinct thresholds."""

    def trainer(self, task: Any, C: float, callbacks: Any = None, spread: float = 0.0) -> Any:
        """Few columns per round of the one channel are few to choose from, and to spread over."""
        made = super().trainer(task, C, callbacks, spread)
        made.exact = True
        made.columns_per_channel = self.settings.get("columns_per_channel", 20)
        return made

    def problem(self, train: Table) -> tuple[Any, Any, Any]:
        return RankingTask(), [train.X], [train.y]

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        return model.model_.scores(X)[:, 0]

    def made(self) -> Table:
        """Two classes."""
        return made_classes(2)


def ranking(name: str, *, gap: float = 0.01, **settings: Any) -> Ranking:
    """A ranker fitted to the gap itself, to be timed or compared round by round."""
    return Ranking(name, gap, spreads=False, settings=settings)


ONE_SLACK = ranking("structboost_1slack")
M_SLACK = ranking("structboost_mslack", formulation="m_slack")
# Algorithm 2 as the paper prints it.
PRINTED = ranking("structboost_printed", stabilize=False)
# The ranker of the table: a fit takes well under a second, and the more columns it has, the more
# there is to spread the weights over.
TIGHT = Ranking("structboost_1slack", 0.01, fit_share=0.1)
# What the comparison with boosted trees costs an additive model of stumps; nothing is certified.
TREES = ranking(
    "structboost_trees",
    weak_learner=partial(TreeFamily, depth=DEPTH),
    max_rounds=TREE_ROUNDS,
    columns_per_channel=1,
)
# One column per round and a small gap, as in the paper's runs of figure 3.
SINGLE_COLUMNS = {
    name: ranking(name, gap=0.001, formulation=name, columns_per_channel=1)
    for name in ("one_slack", "m_slack")
}


class Multiclass(Hinge):
    """Class-specific stumps (section 3.3)."""

    def problem(self, train: Table) -> tuple[Any, Any, Any]:
        return MulticlassTask(int(train.y.max()) + 1), train.X, train.y

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        return class_scores_of(model.task, model.model_.scores(X)).argmax(axis=1)


def stumps(gap: float) -> Multiclass:
    """The paper's main method."""
    return Multiclass("structboost_1slack", gap)


def perceptrons(gap: float, max_rounds: int = MAX_ROUNDS) -> Multiclass:
    """StructBoost-per of the paper: perceptrons (31), found by a search that proves nothing."""
    return Multiclass(
        "structboost_perceptrons",
        gap,
        spreads=False,
        settings={"weak_learner": "perceptron", "max_rounds": max_rounds, "columns_per_channel": 1},
        path_seconds=600.0,
    )


@dataclass
class Tree(Multiclass):
    """Codes with ancestors and tree loss (sections 3.4 and 4.3)."""

    taxonomy: Any = None

    def problem(self, train: Table) -> tuple[Any, Any, Any]:
        return TaxonomyTask(self.taxonomy), train.X, train.y

    def warm_up(self) -> None:
        stumps(self.gap).warm_up()


def fit_reporting(
    report: Report, method: Ranking, train: Table, test: Table, C: float
) -> dict[str, Any]:
    """Fit in a process of its own, with a report after each round (see `limits`)."""
    by_round: dict[str, list[Any]] = {"rounds": [], "seconds": [], "primal": []}

    def keep(last: Mapping[str, Any]) -> None:
        for name, values in by_round.items():
            values.append(last["round" if name == "rounds" else name])

    def progress(last: Mapping[str, Any], trainer: Any) -> None:
        if last["round"] in CHECKPOINTS:
            keep(last)
        facts = {"gap": certified_gap(last), "certified": last["certified"]}
        report({"rounds": last["round"], **facts, "by_round": by_round})

    with threadpool_limits(1):
        method.warm_up()
        report({})
        model, seconds = timed(method.fit, train, {"C": C}, callbacks=[progress])
    if model.history_[-1]["round"] not in CHECKPOINTS:
        keep(model.history_[-1])
    value = roc_auc_score(test.y, method.output(model, test.X))
    return {**method.facts(model), "seconds": seconds, "value": value, "by_round": by_round}


def train_rounds(train: Table, n_rounds: int) -> list[dict[str, Any]]:
    """History of so many rounds on a multi-class table, one column for each class in each."""
    task = MulticlassTask(int(train.y.max()) + 1)
    trainer = StructBoost(task, C=LARGEST_C, tol=1e-9, max_rounds=n_rounds, columns_per_channel=1)
    return trainer.fit(train.X, train.y).history_


def ensemble_of_stumps(stumps: dict[str, np.ndarray], n_features: int) -> Ensemble:
    """An ensemble of given stumps: arrays feature, threshold, left, right and channel."""
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


def task_labels(estimator: Any, model: Any, X: np.ndarray) -> np.ndarray:
    """Column numbers of the best classes by a stage of an estimator's model."""
    return class_scores_of(estimator.task_, model.scores(X)).argmax(axis=1)


def class_scores_of(task: Any, scores: np.ndarray) -> np.ndarray:
    """Scores of the classes, from those of bits or nodes where the task has a code."""
    return task.class_scores(scores) if hasattr(task, "class_scores") else scores
