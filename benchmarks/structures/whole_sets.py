"""Sets of labels as wholes: the conditional likelihood of the sets seen, from cross-fitted answers.

A set of labels has a few features: what a classifier of the single labels says of it, what a
classifier of whole sets says of it, and how often it was seen.  Their weights are those of the
largest conditional likelihood.  The probabilities of the sets then give the best decision for each
loss.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_expit, softmax
from sklearn.model_selection import KFold

from structboost import CrossFitted, PartKind, StructBoost, Task
from structboost.contract.listed_outputs import Marginals
from structboost.contract.parts import StackedParts

FOLDS = 5
# Probabilities of whole sets are those of few trees: they do not tell such small ones apart.
LEAST = np.log(1e-3)
COLUMNS = {"labels and sets": (0, 1), "labels, sets and counts": (0, 1, 2)}
C, TOL, MAX_ROUNDS = 1000.0, 0.01, 20


class OneOfThem(Task):
    """Choose one row of a table: outputs are numbers of rows, all tables are of one length."""

    def __init__(self) -> None:
        self.kinds = {"row": PartKind(1)}

    def parts(self, x: Any) -> np.ndarray:
        return np.asarray(x)

    def joint_feature(self, x: Any, y: Any) -> Any:
        return np.array([y]), np.zeros(1, np.int64), np.ones(1)

    def loss(self, y: Any, y_pred: Any) -> float:
        return float(y != y_pred)

    def outputs(self, x: Any) -> range:
        return range(len(x))

    def marginals_batch(self, X: Sequence[Any], scores: StackedParts) -> Marginals:
        """Probabilities of all rows in one pass."""
        by_row = scores.rows["row"].reshape(len(X), -1)
        log_sums = np.logaddexp.reduce(by_row, axis=1)
        return Marginals({"row": np.exp(by_row - log_sums[:, None]).reshape(-1, 1)}, log_sums)


class Candidates(NamedTuple):
    """The sets seen in training, and the number of the true one of each training row."""

    sets: np.ndarray  # (n_sets, n_labels)
    true: np.ndarray  # (n_rows,)

    @classmethod
    def of(cls, Y: np.ndarray) -> "Candidates":
        sets, true = np.unique(Y, axis=0, return_inverse=True)
        return cls(sets, true.ravel())

    def by_labels(self, answers: np.ndarray) -> np.ndarray:
        """Logarithm of the probability of each set, if labels are independent."""
        return answers @ self.sets.T + log_expit(-answers).sum(axis=1, keepdims=True)

    def counts_outside(self) -> np.ndarray:
        """How often each set is in the folds of the other rows, (n_rows, n_sets)."""
        counts = np.tile(np.bincount(self.true), (len(self.true), 1))
        for _, inside in KFold(FOLDS, shuffle=True, random_state=0).split(self.true):
            counts[inside] -= np.bincount(self.true[inside], minlength=len(self.sets))
        return counts


class WholeSets:
    """Probabilities of the sets seen, by two cross-fitted classifiers.

    ``crossed`` and ``answers`` are a fitted ``CrossFitted`` of the labels and its training answers;
    ``classifier`` is trained on whole sets.  Sets that were seen once are one class of it.
    """

    def __init__(self, classifier: Any, crossed: CrossFitted, answers: np.ndarray) -> None:
        self.classifier = classifier
        self.crossed = crossed
        self.answers = answers

    def fit(self, X: np.ndarray, Y: np.ndarray) -> "WholeSets":
        self.candidates = Candidates.of(Y)
        counts = np.bincount(self.candidates.true)
        # Class 0 stands for all sets that were seen once.
        self.class_of = np.where(counts > 1, np.cumsum(counts > 1), 0)
        self.whole = CrossFitted(self.classifier, folds=FOLDS, random_state=0)
        found = self.whole.fit_transform(X, self.class_of[self.candidates.true])
        self.rows = self._features(self.answers, found, self.candidates.counts_outside())
        return self

    def _features(self, answers: np.ndarray, found: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Features of each pair of a row and a set, (n_rows, n_sets, 3)."""
        if found.ndim == 1 or found.shape[1] == 1:  # two classes: log-odds of the second
            odds = found.reshape(-1, 1)
            found = np.hstack((log_expit(-odds), log_expit(odds)))
        shares = np.full((len(answers), self.class_of.max() + 1), LEAST)
        shares[:, self.whole.classes_] = np.logaddexp(found, LEAST)
        by_set = shares[:, self.class_of] - np.log(np.bincount(self.class_of))[self.class_of] * (
            self.class_of == 0
        )
        by_label = self.candidates.by_labels(answers)
        return np.stack((by_label, by_set, np.log(counts + 0.5)), axis=2)

    def features_at(self, X: np.ndarray) -> np.ndarray:
        """Features of new rows."""
        counts = np.tile(np.bincount(self.candidates.true), (len(X), 1))
        return self._features(self.crossed.transform(X), self.whole.transform(X), counts)


def likelihood(rows: np.ndarray, true: np.ndarray) -> StructBoost:
    """Weights of the features of the largest conditional likelihood of the true sets."""
    settings = {"formulation": "log", "weak_learner": "linear", "tol": TOL}
    model = StructBoost(OneOfThem(), C=C, max_rounds=MAX_ROUNDS, **settings)
    return model.fit(list(rows), true.tolist())


def probabilities(model: StructBoost, rows: np.ndarray) -> np.ndarray:
    """Probability of each set, (n_rows, n_sets)."""
    scores = model.model_.scores(rows.reshape(-1, rows.shape[2]))
    return np.asarray(softmax(scores.reshape(len(rows), -1), axis=1))


def decide(metric: str, shares: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """Labels of the least expected loss; for F1 the best of the sets seen."""
    if metric == "hamming":
        return (shares @ sets > 0.5).astype(np.int64)
    if metric == "subset":
        return np.asarray(sets[np.argmax(shares, axis=1)])
    sizes = sets.sum(axis=1)
    both = sizes[:, None] + sizes
    f1 = np.where(both > 0, 2 * (sets @ sets.T) / np.maximum(both, 1), 1.0)
    return np.asarray(sets[np.argmax(shares @ f1, axis=1)])
