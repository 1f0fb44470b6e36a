"""Our methods as the tables train them: hinge loss, structured SVM, stage-wise boosting."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.runner.datasets import Table
from benchmarks.runner.limits import Report
from benchmarks.runner.protocol import Method, Objective, Params, Trial, cpu_timed, grid
from structboost import (
    AdaBoostECCClassifier,
    AdaBoostMHClassifier,
    MultiBoostCWClassifier,
    MulticlassTask,
    RankingTask,
    StructBoost,
    StructuredSVM,
    TaxonomyTask,
)
from structboost.selection import Fold
from structboost.weak import TreeFamily
from structboost.weak.union import UNION

MAX_ROUNDS = 200
# Rounds whose test error or objective is kept.
CHECKPOINTS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200)
LARGEST_C = 1000.0
# Trees have no bound to stop by.
DEPTH, TREE_ROUNDS = 3, 100
STAGES = (25, 50, 100, 200, 300, 500)
# 200 rounds in the paper.
SVM_STAGES = (10, 25, 50, 100, 150, 200)


def uninterrupted(trainer: Any) -> Any:
    """The trainer; after Ctrl-C, when it keeps what it has and returns, KeyboardInterrupt."""
    if trainer.interrupted_:
        raise KeyboardInterrupt
    return trainer


def certified_gap(last: Mapping[str, Any]) -> float | None:
    """Gap of a record of the history; None where it is not proved for the whole family."""
    return last["gap"] if last["certified"] else None


def class_scores_of(task: Any, scores: np.ndarray) -> np.ndarray:
    """Scores of the classes, from those of bits or nodes where the task has a code."""
    return task.class_scores(scores) if hasattr(task, "class_scores") else scores


def powers(low: float, high: float) -> list[Params]:
    """Six values of C between two powers of ten."""
    return grid(C=[float(C) for C in np.logspace(low, high, 6)])


@dataclass
class Hinge(Method):
    """StructBoost; C is chosen by one warm-started path, then whether to spread the weights.

    A fit of the path stops after ``path_seconds`` at the gap it has; that at the chosen C does not.
    """

    name: str
    gap: float  # relative, as asked for
    fit_share: float = 0.5  # of the gap; the rest is for spreading the weights
    spreads: bool = True  # False where formulations are timed against each other
    settings: dict[str, Any] = field(default_factory=dict)  # further ones of StructBoost
    path_seconds: float = 60.0
    candidates: list[Params] = field(default_factory=lambda: powers(1, 3))
    packages = ("numba", "scipy")
    usual = {}  # settings of all methods of the class
    warm_params = {"C": 10.0}

    def problem(self, train: Table) -> tuple[Any, Any, Any]:
        raise NotImplementedError

    def trainer(self, task: Any, C: float | str, callbacks: Any = None, spread: float = 0.0) -> Any:
        """Not yet fitted."""
        settings = {"max_rounds": MAX_ROUNDS, **self.usual, **self.settings}
        tol = self.fit_share * self.gap if self.spreads else self.gap
        common = {"tol": tol, "spread": spread, "callbacks": callbacks, "random_state": 0}
        return StructBoost(task, C=C, **common, **settings)

    def trials(
        self, train: Table, validation: Table, candidates: list[Params], objective: Objective
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


class Ranking(Hinge):
    """Maximises the AUC (section 3.2), pricing over all distinct thresholds.

    Few columns per round of the one channel are few to choose from, and to spread over.
    """

    usual = {"exact": True, "columns_per_channel": 20}
    n_made = 2

    def problem(self, train: Table) -> tuple[Any, Any, Any]:
        return RankingTask(), [train.X], [train.y]

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        return model.model_.scores(X)[:, 0]


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
_DEEP = {"weak_learner": partial(TreeFamily, depth=DEPTH), "columns_per_channel": 1}
TREES = ranking("structboost_trees", **_DEEP, max_rounds=TREE_ROUNDS)
# One column per round and a small gap, as in the paper's runs of figure 3.
SINGLE_COLUMNS = {
    name: ranking(name, gap=0.001, formulation=name, columns_per_channel=1)
    for name in ("one_slack", "m_slack")
}


@dataclass
class Multiclass(Hinge):
    """Class-specific stumps (section 3.3); with a taxonomy, its codes and loss (3.4 and 4.3)."""

    taxonomy: Any = None

    def problem(self, train: Table) -> tuple[Any, Any, Any]:
        tree = self.taxonomy
        task = TaxonomyTask(tree) if tree else MulticlassTask(int(train.y.max()) + 1)
        return task, train.X, train.y

    def warm_up(self) -> None:
        """The made table has other classes than the taxonomy."""
        Hinge.warm_up(replace(self, taxonomy=None))

    def output(self, model: Any, X: np.ndarray) -> np.ndarray:
        return class_scores_of(model.task, model.model_.scores(X)).argmax(axis=1)


def stumps(gap: float) -> Multiclass:
    """The paper's main method."""
    return Multiclass("structboost_1slack", gap)


def single(name: str, gap: float, family: str) -> Multiclass:
    """One family, fitted to the gap itself."""
    return Multiclass(name, gap, spreads=False, settings={"weak_learner": family})


class OwnChoice(Hinge):
    """C as the library chooses it, for a union or for one of its families, by the validation part.

    Its coarse fits take the place of the candidates.
    """

    def trials(
        self, train: Table, validation: Table, candidates: list[Params], objective: Objective
    ) -> list[Trial]:
        task, X, Y = self.problem(train)
        folds = [Fold(X, Y, None, *self.problem(validation)[1:])]
        trainer = uninterrupted(self.trainer(task, "auto").fit(X, Y, folds=folds))
        value = objective.measure(validation.y, self.output(trainer, validation.X))
        (model,) = trainer.model_.members.values()
        return [Trial({"C": trainer.C_, "weak_learner": model.family.split(UNION)}, value)]

    def fit(self, train: Table, params: Params, callbacks: Any = None) -> Any:
        learners = params.get("weak_learner", self.settings["weak_learner"])
        own = replace(self, settings={**self.settings, "weak_learner": learners})
        return Hinge.fit(own, train, params, callbacks)

    def tuning_facts(self, trials: list[Trial]) -> dict[str, Any]:
        """None: the fits of the path have none."""
        return {}


class RankingOfOwnChoice(OwnChoice, Ranking):
    """A ranker."""


class MulticlassOfOwnChoice(OwnChoice, Multiclass):
    """A classifier."""


def union(name: str, gap: float, *members: str) -> MulticlassOfOwnChoice:
    """A union of families, or the best of them alone, fitted to the gap itself."""
    own = {"weak_learner": list(members)}
    return MulticlassOfOwnChoice(name, gap, spreads=False, settings=own)


def ranking_union(name: str, *members: str) -> RankingOfOwnChoice:
    """The same of rankers."""
    own = {"weak_learner": list(members)}
    return RankingOfOwnChoice(name, 0.01, spreads=False, settings=own)


class HingeTrees(Multiclass):
    """Hinge loss over trees, shared by a ridge; all settings are fitted on their own.

    Beside other families, trees alone are candidates too, as the library tries each family of a
    union alone.
    """

    trials = Method.trials

    def fit(self, train: Table, params: Params, callbacks: Any = None) -> Any:
        trees = partial(TreeFamily, depth=params.get("depth", DEPTH))
        beside = () if params.get("alone") else self.settings["weak_learner"]
        own = replace(self, settings={**self.settings, "weak_learner": [*beside, trees]})
        return Multiclass.fit(own, train, params, callbacks)


def hinge_trees(name: str, *beside: str) -> HingeTrees:
    """Trees, and the families ``beside`` them; no gap is proved, so the rounds end the fit."""
    own = {"weak_learner": beside, "columns_per_channel": 1}
    alone = {"alone": (True, False)} if beside else {}
    grown = grid(**alone, depth=(3, 5), C=(30.0, 300.0, 3000.0))
    return HingeTrees(name, 0.01, spreads=False, settings=own, candidates=grown)


def perceptrons(gap: float, max_rounds: int = MAX_ROUNDS) -> Multiclass:
    """StructBoost-per of the paper: perceptrons (31), found by a search that proves nothing."""
    own = {"weak_learner": "perceptron", "max_rounds": max_rounds, "columns_per_channel": 1}
    fixed: dict[str, Any] = {"spreads": False, "settings": own, "path_seconds": 600.0}
    return Multiclass("structboost_perceptrons", gap, **fixed)


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
        model, seconds = cpu_timed(method.fit, train, {"C": C}, callbacks=[progress])
    if model.history_[-1]["round"] not in CHECKPOINTS:
        keep(model.history_[-1])
    value = roc_auc_score(test.y, method.output(model, test.X))
    return {**method.facts(model), "seconds": seconds, "value": value, "by_round": by_round}


class Fitted(NamedTuple):
    """Scaler and machine."""

    scaler: StandardScaler
    machine: Any

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.machine.predict(self.scaler.transform(X)))


class SSVM(Method):
    """`StructuredSVM` on features standardised on the training part: the linear baseline.

    The grid is wider than the paper's 10..1000, whose ends are the best values on half of the sets.
    """

    name = "ssvm"
    packages = ("numba",)
    candidates = powers(0, 5)
    warm_params = {"C": 10.0}

    def problem(self, X: np.ndarray, y: np.ndarray) -> tuple[Any, Any, Any]:
        return MulticlassTask(int(y.max()) + 1), X, y

    def fit(self, train: Table, params: Params) -> Fitted:
        scaler = StandardScaler().fit(train.X)
        task, X, Y = self.problem(scaler.transform(train.X), train.y)
        machine = StructuredSVM(task, C=params["C"], random_state=0)
        return Fitted(scaler, uninterrupted(machine.fit(X, Y)))

    def facts(self, model: Fitted) -> dict[str, Any]:
        last = model.machine.history_[-1]
        return {"rounds": last["round"], "gap": last["gap"], "certified": last["certified"]}


class LinearRanking(SSVM):
    """The same machine, trained for the AUC."""

    n_made = 2

    def problem(self, X: np.ndarray, y: np.ndarray) -> tuple[Any, Any, Any]:
        return RankingTask(), [X], [y]

    def output(self, model: Fitted, X: np.ndarray) -> np.ndarray:
        return np.asarray(model.machine.scores([model.scaler.transform(X)]).rows["x"][:, 0])


@dataclass
class StageWise(Method):
    """Boosting that sets each weight once: the candidates are numbers of rounds of one run."""

    name: str
    classifier: Callable[..., Any]  # takes max_rounds
    stages: tuple[int, ...] = STAGES
    packages = ("numba", "scipy", "sklearn")
    warm_params = {"rounds": 2}

    @property
    def candidates(self) -> list[Params]:
        return grid(rounds=self.stages)

    def fit(self, train: Table, params: Params) -> Any:
        """As many rounds as the parameters say, fewer where pricing is exhausted."""
        return self.classifier(max_rounds=params["rounds"], random_state=0).fit(train.X, train.y)

    def trials(
        self, train: Table, validation: Table, candidates: list[Params], objective: Objective
    ) -> list[Trial]:
        fitted = self.fit(train, max(candidates, key=lambda params: params["rounds"]))
        trials = []
        for params in candidates:
            stage = fitted.model_.at_stage(min(params["rounds"], fitted.model_.n_stages) - 1)
            scores = class_scores_of(fitted.task_, stage.scores(validation.X))
            labels = fitted.classes_[scores.argmax(axis=1)]
            trials.append(Trial(params, objective.measure(validation.y, labels)))
        return trials

    def facts(self, model: Any) -> dict[str, Any]:
        return {"rounds": model.n_iter_}


# MultiBoost^cw with the exponential loss, whose weights are set once.
_CW = partial(MultiBoostCWClassifier, C=float("inf"), tau_max=1, tol=0.0)
CW_TREES = StageWise(
    "multiboost_cw_trees", partial(_CW, weak_learner=partial(TreeFamily, depth=DEPTH))
)
ADA_ECC = StageWise("adaboost_ecc", AdaBoostECCClassifier)
ADA_MH = StageWise("adaboost_mh", AdaBoostMHClassifier)
ADA_ECC_SVM = StageWise(
    "adaboost_ecc_svm", partial(AdaBoostECCClassifier, weak_learner="svm"), SVM_STAGES
)


def cw_perceptrons(max_rounds: int = 200) -> StageWise:
    """MultiBoost^cw over perceptrons (31)."""
    rounds = tuple(max_rounds * k // 6 for k in range(1, 7))
    own = partial(_CW, weak_learner="perceptron")
    return StageWise("multiboost_cw_perceptrons", own, rounds)
