"""AdaBoost.MO and .ECC beside their totally corrective counterparts, at several rounds."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from benchmarks.ours.methods import certified_gap, class_scores_of
from benchmarks.runner.datasets import Table
from benchmarks.runner.protocol import cpu_timed
from structboost import (
    AdaBoostECCClassifier,
    AdaBoostMOClassifier,
    CodedTask,
    MultiBoostECCClassifier,
    MultiBoostMOClassifier,
)
from structboost.estimators.coded import THETAS

ROUNDS = (50, 100, 500)
VALIDATION_ROUNDS = 100
FACES = {
    "mo": (AdaBoostMOClassifier, MultiBoostMOClassifier),
    "ecc": (AdaBoostECCClassifier, MultiBoostECCClassifier),
}


class Setting(NamedTuple):
    """A pair of methods."""

    code: str  # "mo" or "ecc"
    weak_learner: str  # "stump" or "lda"
    theta: str  # where the norm of the corrective one is from: "stage_wise" or "held_out"


def compare(setting: Setting, train: Table, test: Table, seed: int) -> dict[str, Any]:
    """Both methods on one split, under the same codes: errors, margins, and the certificate.

    The norm of a corrective model of T rounds is the sum of the stage-wise weights after T rounds,
    or one for all T, chosen from the paper's grid on a quarter of the training rows.
    """
    common = {"weak_learner": setting.weak_learner, "random_state": seed, "exact": True}
    stage_wise_face, corrective_face = (partial(face, **common) for face in FACES[setting.code])
    validated = None
    corrective: dict[str, Any] = {}
    with threadpool_limits(1):
        longest = stage_wise_face(max_rounds=max(ROUNDS))
        fitted, seconds = cpu_timed(longest.fit, train.X, train.y)
        stage_wise: dict[str, Any] = {"seconds": seconds}
        if setting.theta == "held_out":
            validated = held_out_theta(corrective_face, train, seed)
        for rounds in ROUNDS:
            stage = fitted.model_.at_stage(min(rounds, fitted.model_.n_stages) - 1)
            stage_wise[str(rounds)] = facts(fitted, stage, train, test)
            theta = validated or float(stage.weights.sum())
            model = corrective_face(max_rounds=rounds, theta=theta, tol=1e-6)
            model, corrective["seconds"] = cpu_timed(model.fit, train.X, train.y)
            corrective[str(rounds)] = {
                **facts(model, model.model_, train, test),
                "theta": model.theta_,
                "gap": certified_gap(model.history_[-1]),
                **duality(model, train),
            }
    value = corrective[str(max(ROUNDS))]["test_error"]
    return {"stage_wise": stage_wise, "corrective": corrective, "value": value}


def held_out_theta(face: Callable[..., Any], train: Table, seed: int) -> float:
    """Norm of the lowest error on a quarter of the training rows; the smallest of several.

    The paper has five folds; those cost five times as much.
    """
    X, held_X, y, held_y = train_test_split(
        train.X, train.y, test_size=0.25, stratify=train.y, random_state=seed
    )
    errors = []
    for theta in THETAS:
        model = face(max_rounds=VALIDATION_ROUNDS, theta=float(theta), tol=1e-6).fit(X, y)
        errors.append(float(np.mean(model.predict(held_X) != held_y)))
    return float(THETAS[int(np.argmin(errors))])


def facts(estimator: Any, model: Any, train: Table, test: Table) -> dict[str, Any]:
    """Errors, and the smallest margin of the training examples over the l1 norm of the weights."""
    task = estimator.task_
    scores, test_scores = (model.scores(part.X) for part in (train, test))
    by_class, test_by_class = (class_scores_of(task, s) for s in (scores, test_scores))
    norm = max(model.weights.sum(), 1e-300)
    return {
        "train_error": float(np.mean(by_class.argmax(axis=1) != train.y)),
        "test_error": float(np.mean(test_by_class.argmax(axis=1) != test.y)),
        "min_margin": float(_pair_margins(task, train.y, scores).min() / norm),
    }


def duality(estimator: Any, train: Table) -> dict[str, Any]:
    """Whether ``u' rho[h_j] <= r`` for all columns, u normalised, and the gap over them.

    u are the weights of the pairs (an example with a bit of its code, or with a wrong class); row
    j of the matrix has the margins of column j alone.
    """
    member, weights = estimator.model_.members["x"], estimator.model_.weights
    responses = member.learners.responses(train.X).astype(float)
    shape = (len(train.y), estimator.model_.kinds["x"].n_channels)
    columns = np.zeros((len(weights), *shape))
    terms = (member.columns, member.term_learners, member.channels, member.coefficients)
    for column, learner, channel, coefficient in zip(*terms, strict=True):
        columns[column, :, channel] += coefficient * responses[learner]
    matrix = np.stack([_pair_margins(estimator.task_, train.y, one) for one in columns])
    exponents = -weights @ matrix
    u = np.exp(exponents - exponents.max())
    edges = matrix @ (u / u.sum())
    # The dual variable of the norm: what the columns of positive weight have in common.
    r = float(weights @ edges) / max(float(weights.sum()), 1e-300)
    excess = float(edges.max() - r)
    return {"r": r, "largest_excess": excess, "gap_over_columns": float(estimator.theta_ * excess)}


def _pair_margins(task: Any, y: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Margins of all pairs: bits of the code, or wrong classes."""
    if isinstance(task, CodedTask):
        return (task.code[y] * scores).ravel()
    rows = np.arange(len(y))
    others = np.ones(scores.shape, bool)
    others[rows, y] = False
    return (scores[rows, y][:, None] - scores)[others]
