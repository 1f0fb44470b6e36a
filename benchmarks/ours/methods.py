"""Our learners as the tables train them: hinge loss, structured SVM, stage-wise boosting."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.runner.protocol import Method, Trial, cpu_timed, grid
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
from structboost.learners import TreeFamily
from structboost.objectives import OneSlack

MAX_ROUNDS = 200
LARGEST_C = 1000.0
DEPTH = 3
STAGES = (25, 50, 100, 200, 300, 500)
# 200 rounds in the paper.
SVM_STAGES = (10, 25, 50, 100, 150, 200)


def certified_gap(last):
    """Gap of a record of the history; None where it is not proved for the whole family."""
    return last["gap"] if last["certified"] else None


def class_scores_of(task, scores):
    """Scores of the classes, from those of bits or nodes where the task has a code."""
    return task.class_scores(scores) if hasattr(task, "class_scores") else scores


def powers(low, high):
    """Six values of C between two powers of ten."""
    return grid(C=[float(C) for C in np.logspace(low, high, 6)])


@dataclass
class Hinge(Method):
    """StructBoost; C is chosen by one warm-started path, then whether to spread the weights."""

    name: str
    gap: float  # relative, as asked for
    fit_share: float = 0.5  # of the gap; the rest is for spreading the weights
    spreads: bool = True  # False where formulations are timed against each other
    settings: dict[str, Any] = field(default_factory=dict)  # further ones of StructBoost
    candidates: list[Any] = field(default_factory=lambda: powers(1, 3))
    usual = {}  # settings of all learners of the class
    warm_params = {"C": 10.0}

    def problem(self, train):
        """Task, inputs and outputs."""
        raise NotImplementedError

    def trainer(self, task, C, spread=0.0):
        """Not yet fitted."""
        settings = {"max_rounds": MAX_ROUNDS, **self.usual, **self.settings}
        tol = self.fit_share * self.gap if self.spreads else self.gap
        return StructBoost(task, C=C, tol=tol, spread=spread, random_state=0, **settings)

    def trials(self, train, validation, candidates, objective):
        """Each C, warm started from the one before; then the best of them with spread weights."""
        task, X, Y = self.problem(train)
        Cs = [params["C"] for params in candidates]
        trials = []
        for C, one in zip(Cs, self.trainer(task, Cs[0]).path(X, Y, Cs), strict=True):
            value = objective.measure(validation.y, self.output(one, validation.X))
            trials.append(Trial({"C": C}, value, self.facts(one)))
        if self.spreads:
            best = max(trials, key=lambda trial: objective.sign * trial.value)
            params = {**best.params, "spread": self.gap}
            trials.append(self.trial(train, validation, params, objective))
        return trials

    def fit(self, train, params):
        task, X, Y = self.problem(train)
        return self.trainer(task, params["C"], params.get("spread", 0.0)).fit(X, Y)

    def facts(self, model):
        last = model.history_[-1]
        return {"rounds": last["round"], "gap": certified_gap(last)}

    def tuning_facts(self, trials):
        """The gap at C = 1000."""
        gaps = [t.facts["gap"] for t in trials if t.facts and t.params["C"] == LARGEST_C]
        return {"gap_at_1000": gaps[0] if gaps else None}


class Ranking(Hinge):
    """Maximises the AUC (section 3.2), pricing over all distinct thresholds.

    Few columns per round of the one channel are few to choose from, and to spread over.
    """

    usual = {"exact": True, "columns_per_channel": 20}
    n_made = 2

    def problem(self, train):
        return RankingTask(), [train.X], [train.y]

    def output(self, model, X):
        return model.model_.scores(X)[:, 0]


def ranking(name, **settings):
    """A ranker fitted to the gap itself, to be timed."""
    return Ranking(name, 0.01, spreads=False, settings=settings)


ONE_SLACK = ranking("structboost_1slack")
M_SLACK = ranking("structboost_mslack", formulation="m_slack")
# Algorithm 2 as the paper prints it.
PRINTED = ranking("structboost_printed", formulation=OneSlack(stabilize=False))
# The ranker of the table: a fit takes well under a second, and the more columns it has, the more
# there is to spread the weights over.
TIGHT = Ranking("structboost_1slack", 0.01, fit_share=0.1)


@dataclass
class Multiclass(Hinge):
    """Class-specific stumps (section 3.3); with a taxonomy, its codes and loss (3.4 and 4.3)."""

    taxonomy: Any = None

    def problem(self, train):
        tree = self.taxonomy
        task = TaxonomyTask(tree) if tree else MulticlassTask(int(train.y.max()) + 1)
        return task, train.X, train.y

    def warm_up(self):
        """Compile without the taxonomy: the made table has other classes."""
        Hinge.warm_up(replace(self, taxonomy=None))

    def output(self, model, X):
        return class_scores_of(model.task, model.model_.scores(X)).argmax(axis=1)


def stumps(gap):
    """The paper's main method."""
    return Multiclass("structboost_1slack", gap)


# Trees of two levels, certified: their certificate is over the trees on 32 bins.
PAIR_TREES = {"weak_learner": "pair_tree", "exact": False}
PAIR_RANKING = Ranking("structboost_pair_trees", 0.02, settings=PAIR_TREES)


def pair_trees(gap, **own):
    """Class-specific trees of two levels."""
    return Multiclass("structboost_pair_trees", gap, settings=PAIR_TREES, **own)


def perceptrons(gap, max_rounds=MAX_ROUNDS):
    """StructBoost-per of the paper: perceptrons (31), by a search that proves nothing."""
    own = {"weak_learner": "perceptron", "max_rounds": max_rounds, "columns_per_channel": 1}
    return Multiclass("structboost_perceptrons", gap, spreads=False, settings=own)


def timed_fit(method, train, test, C):
    """Facts of a fit in a process of its own."""
    model, seconds = cpu_timed(method.fit, train, {"C": C})
    value = roc_auc_score(test.y, method.output(model, test.X))
    return {**method.facts(model), "seconds": seconds, "value": value}


class SSVM(Method):
    """`StructuredSVM` on features standardised on the training part: the linear baseline.

    The grid is wider than the paper's 10..1000, whose ends are the best values on half of the sets.
    """

    name = "ssvm"
    candidates = powers(0, 5)
    warm_params = {"C": 10.0}

    def fit(self, train, params):
        task = MulticlassTask(int(train.y.max()) + 1)
        machine = StructuredSVM(task, C=params["C"], random_state=0)
        return make_pipeline(StandardScaler(), machine).fit(train.X, train.y)

    def output(self, model, X):
        return np.asarray(model.predict(X))

    def facts(self, model):
        last = model[-1].history_[-1]
        return {"gap": last["gap"]}


@dataclass
class StageWise(Method):
    """Boosting that sets each weight once: the candidates are numbers of rounds of one run."""

    name: str
    classifier: Callable[..., Any]  # takes max_rounds
    stages: tuple[int, ...] = STAGES
    warm_params = {"rounds": 2}

    @property
    def candidates(self):
        return grid(rounds=self.stages)

    def fit(self, train, params):
        """Train for as many rounds as the parameters say, or until pricing is exhausted."""
        return self.classifier(max_rounds=params["rounds"], random_state=0).fit(train.X, train.y)

    def trials(self, train, validation, candidates, objective):
        fitted = self.fit(train, max(candidates, key=lambda params: params["rounds"]))
        trials = []
        for params in candidates:
            stage = fitted.model_.at_stage(min(params["rounds"], fitted.model_.n_stages) - 1)
            scores = class_scores_of(fitted.task_, stage.scores(validation.X))
            labels = fitted.classes_[scores.argmax(axis=1)]
            trials.append(Trial(params, objective.measure(validation.y, labels)))
        return trials


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
