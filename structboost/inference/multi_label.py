"""Sets of labels of highest score plus loss, and of highest expected F1."""

from __future__ import annotations

import numpy as np

from structboost._typing import FloatArray, IntArray
from structboost.runtime.compiled import compiled


def most_violated_sets(scores: FloatArray, truth: IntArray, loss: str) -> IntArray:
    """Find the sets of highest score plus loss (loss-augmented argmax), row by row.

    A set scores the sum of its labels.  Labels that make no difference are left out.  Exact, in
    ``O(n_labels)``, with ``"f1"`` in ``O(n_labels^2)``: among sets of equally many true and equally
    many other labels, the best has the highest scores of each (Petterson and Caetano, Reverse
    multi-label learning, NIPS 2010).
    """
    if loss == "f1":
        labels = np.empty(scores.shape, np.int64)
        most_violated_f1(np.ascontiguousarray(scores, np.float64), truth, labels)
        return labels
    if loss == "hamming":
        return np.asarray(scores + (1 - 2 * truth) / scores.shape[1] > 0, np.int64)
    # Either the best set, or the truth with the label turned that costs least.
    best = (scores > 0).astype(np.int64)
    right = np.flatnonzero((best == truth).all(axis=1))
    costs = np.abs(scores[right])
    cheapest = np.argmin(costs, axis=1)
    turned = costs[np.arange(len(right)), cheapest] < 1.0
    sets, labels = right[turned], cheapest[turned]
    best[sets, labels] = 1 - best[sets, labels]
    return best


@compiled
def most_violated_f1(scores: FloatArray, truth: IntArray, labels: IntArray) -> None:
    """Fill ``labels`` with the sets of highest score plus ``1 - F1``, row by row."""
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
                labels[i, label] = 1 if best_right > 0 else 0
                best_right -= 1
            else:
                labels[i, label] = 1 if best_wrong > 0 else 0
                best_wrong -= 1


@compiled
def best_expected_f1(probabilities: FloatArray, labels: IntArray) -> None:
    """Fill ``labels`` with the sets of the largest expected F1 of independent labels, row by row.

    Two empty sets have F1 1.  Of equally good sets it is the larger one, but the empty set before
    all others.  Exact, in ``O(n_labels^2)``: the best set of each size has the most probable
    labels, and the expectation over the number of true labels beside them follows from that of the
    size above (Ye, Chai, Lee and Chieu, Optimizing F-measures, ICML 2012, Algorithm 1).
    """
    n = probabilities.shape[1]
    right = np.empty((n + 1, n + 1))
    others = np.empty(2 * n + 2)
    for i in range(len(probabilities)):
        order = np.argsort(-probabilities[i], kind="mergesort")
        # right[k, a]: probability that a of the first k labels are true.
        for k in range(n + 1):
            p = probabilities[i, order[k - 1]] if k > 0 else 0.0
            for a in range(k + 1):
                of_false = right[k - 1, a] * (1.0 - p) if a < k else 0.0
                of_true = right[k - 1, a - 1] * p if a > 0 else 0.0
                right[k, a] = of_false + of_true if k > 0 else 1.0
        # others[s]: mean of 1 / (s + true labels that are not among the first k).
        for s in range(1, 2 * n + 2):
            others[s] = 1.0 / s
        best, size = right[n, 0], 0
        for k in range(n, 0, -1):
            value = 0.0
            for a in range(1, k + 1):
                value += 2.0 * a * right[k, a] * others[k + a]
            if value > best:
                best, size = value, k
            p = probabilities[i, order[k - 1]]
            for s in range(1, n + k + 1):
                others[s] = p * others[s + 1] + (1.0 - p) * others[s]
        for k in range(n):
            labels[i, order[k]] = 1 if k < size else 0
