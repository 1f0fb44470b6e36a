"""The label set of highest score plus loss, where a set scores the sum of its labels."""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled


def most_violated_subset(scores: FloatArray, truth: IntArray) -> IntArray:
    """Sets of highest score plus 1 where they are not the truth, shape (n_sets, n_labels).

    Either the best set, or the truth with the label turned that costs least.
    """
    best = (scores > 0).astype(np.int64)
    right = np.flatnonzero((best == truth).all(axis=1))
    costs = np.abs(scores[right])
    cheapest = np.argmin(costs, axis=1)
    turned = costs[np.arange(len(right)), cheapest] < 1.0
    rows, labels = right[turned], cheapest[turned]
    best[rows, labels] = 1 - best[rows, labels]
    return best


@compiled
def most_violated_f1(scores: FloatArray, truth: IntArray, found: IntArray) -> None:
    """Sets of highest score plus ``1 - F1``: of each number of right and wrong labels the best.

    Parameters
    ----------
    scores : ndarray, shape (n_sets, n_labels)
    truth : ndarray of int64, shape (n_sets, n_labels)
    found : ndarray of int64, shape (n_sets, n_labels)
        Is filled.
    """
    n_labels = scores.shape[1]
    for i in range(len(scores)):
        order = np.argsort(-scores[i], kind="mergesort")
        n_true = 0
        for label in range(n_labels):
            n_true += truth[i, label]
        best, best_right, best_wrong = -np.inf, 0, 0
        # The best labels of the truth, one more each time; with them the best others.
        right, of_right, at_right = 0, 0.0, 0
        while True:
            wrong, of_wrong, at_wrong = 0, 0.0, 0
            while True:
                size = n_true + right + wrong
                f1 = 2.0 * right / size if size > 0 else 1.0
                value = of_right + of_wrong + 1.0 - f1
                if value > best:
                    best, best_right, best_wrong = value, right, wrong
                while at_wrong < n_labels and truth[i, order[at_wrong]] == 1:
                    at_wrong += 1
                if at_wrong == n_labels:
                    break
                of_wrong += scores[i, order[at_wrong]]
                at_wrong += 1
                wrong += 1
            while at_right < n_labels and truth[i, order[at_right]] == 0:
                at_right += 1
            if at_right == n_labels:
                break
            of_right += scores[i, order[at_right]]
            at_right += 1
            right += 1
        for label in order:
            if truth[i, label] == 1:
                found[i, label] = 1 if best_right > 0 else 0
                best_right -= 1
            else:
                found[i, label] = 1 if best_wrong > 0 else 0
                best_wrong -= 1
