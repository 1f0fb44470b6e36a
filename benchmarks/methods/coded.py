"""AdaBoost.MO and .ECC and their totally corrective counterparts, at several numbers of rounds."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.methods.base import Table

ROUNDS = (50, 100, 500)


class Setting(NamedTuple):
    """A pair of methods.

    Parameters
    ----------
    code : {"mo", "ecc"}
    weak_learner : {"stump", "lda"}
    theta : {"stage_wise", "cv"}
        Where the l1 norm of the corrective method comes from.
    """

    code: str
    weak_learner: str
    theta: str


def compare(setting: Setting, train: Table, test: Table, seed: int) -> dict[str, Any]:
    """Both methods on one split, under the same codes: errors, margins, and the corrective certificate.

    The norm of a corrective model of T rounds is the sum of the stage-wise weights after T rounds, as in the paper, or
    chosen by cross-validation with T rounds.
    """
    import structboost

    stage_wise_face, corrective_face = {
        "mo": (structboost.AdaBoostMOClassifier, structboost.MultiBoostMOClassifier),
        "ecc": (structboost.AdaBoostECCClassifier, structboost.MultiBoostECCClassifier),
    }[setting.code]
    common = {"weak_learner": setting.weak_learner, "random_state": seed, "exact": True}
    found: dict[str, Any] = {"stage_wise": {}, "corrective": {}}
    with threadpool_limits(1):
        began = time.perf_counter()
        stage_wise = stage_wise_face(max_rounds=max(ROUNDS), **common).fit(train.X, train.y)
        found["stage_wise"]["seconds"] = time.perf_counter() - began
        for rounds in ROUNDS:
            model = stage_wise.model_.at_stage(min(rounds, stage_wise.model_.n_stages) - 1)
            found["stage_wise"][str(rounds)] = facts(stage_wise, model, train, test)
            theta = "cv" if setting.theta == "cv" else float(model.weights.sum())
            began = time.perf_counter()
            corrective = corrective_face(max_rounds=rounds, theta=theta, tol=1e-6, **common).fit(train.X, train.y)
            found["corrective"]["seconds"] = time.perf_counter() - began
            found["corrective"][str(rounds)] = {
                **facts(corrective, corrective.model_, train, test),
                "theta": corrective.theta_,
                "gap": corrective.history_[-1]["gap"],
                **duality(corrective, train),
            }
    found["value"] = found["corrective"][str(max(ROUNDS))]["test_error"]
    return found


def facts(estimator: Any, model: Any, train: Table, test: Table) -> dict[str, Any]:
    """Errors, and the smallest margin of the training examples over the l1 norm of the weights."""
    task = estimator.task_
    scores = {name: model.scores(part.X) for name, part in (("train", train), ("test", test))}
    by_class = {name: task.class_scores(s) if hasattr(task, "class_scores") else s for name, s in scores.items()}
    if hasattr(task, "class_scores"):
        margins = task.code[train.y] * scores["train"]
    else:
        own = by_class["train"][np.arange(len(train.y)), train.y]
        rivals = by_class["train"].copy()
        rivals[np.arange(len(train.y)), train.y] = -np.inf
        margins = own - rivals.max(axis=1)
    return {
        "train_error": float(np.mean(by_class["train"].argmax(axis=1) != train.y)),
        "test_error": float(np.mean(by_class["test"].argmax(axis=1) != test.y)),
        "min_margin": float(margins.min() / max(model.weights.sum(), 1e-300)),
    }


def duality(estimator: Any, train: Table) -> dict[str, Any]:
    """Whether ``u' rho[h_j] <= r`` for all columns of the model, u normalised, and the gap over them."""
    from structboost.masters.pair_margins import PairMargins

    member = estimator.model_.members["x"]
    pairs = "bits" if hasattr(estimator.task_, "class_scores") else "outputs"
    n = len(train.y)
    margins = PairMargins(estimator.task_.codes(train.y), "x", np.full(n, 1.0 / n), pairs)
    margins.add_responses(member.learners.responses(train.X))
    terms = (member.columns, member.term_learners, member.channels, member.coefficients)
    weights = estimator.model_.weights
    margins.add_columns({"x": terms}, len(weights))
    exponents = -weights @ margins.matrix
    u = np.exp(exponents - exponents.max())
    edges = margins.matrix @ (u / u.sum())
    # The dual variable of the norm: what the columns of positive weight have in common.
    r = float(weights @ edges) / max(float(weights.sum()), 1e-300)
    return {
        "r": r,
        "largest_excess": float(edges.max() - r),
        "gap_over_columns": float(estimator.theta_ * (edges.max() - r)),
    }
