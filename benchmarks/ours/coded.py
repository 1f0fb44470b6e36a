"""AdaBoost.MO and .ECC beside their totally corrective counterparts, at several rounds."""

from functools import partial

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.ours.methods import certified_gap, class_scores_of
from benchmarks.runner.protocol import cpu_timed
from structboost import (
    AdaBoostECCClassifier,
    AdaBoostMOClassifier,
    MultiBoostECCClassifier,
    MultiBoostMOClassifier,
)
from structboost.faces.coded import THETAS
from structboost.tasks import CodedTask

ROUNDS = (50, 100, 500)
VALIDATION_ROUNDS = 100
FACES = {
    "mo": (AdaBoostMOClassifier, MultiBoostMOClassifier),
    "ecc": (AdaBoostECCClassifier, MultiBoostECCClassifier),
}
HELD_OUT = "held_out"


def compare(code, weak_learner, theta, train, test, seed):
    """Both methods on one split, under the same codes: errors and margins.

    The norm of a corrective model of T rounds is the sum of the stage-wise weights after T rounds,
    or one for all T, chosen from the paper's grid on a quarter of the training rows.
    """
    common = {"weak_learner": weak_learner, "random_state": seed, "exact": True}
    stage_wise_face, corrective_face = (partial(face, **common) for face in FACES[code])
    validated = None
    corrective = {}
    longest = stage_wise_face(max_rounds=max(ROUNDS))
    fitted, seconds = cpu_timed(longest.fit, train.X, train.y)
    stage_wise = {"seconds": seconds}
    if theta == HELD_OUT:
        validated = held_out_theta(corrective_face, train, seed)
    for rounds in ROUNDS:
        stage = fitted.model_.at_stage(min(rounds, fitted.model_.n_stages) - 1)
        stage_wise[str(rounds)] = _facts(fitted, stage, train, test)
        norm = validated or float(stage.weights.sum())
        model = corrective_face(max_rounds=rounds, theta=norm, tol=1e-6)
        model, corrective["seconds"] = cpu_timed(model.fit, train.X, train.y)
        corrective[str(rounds)] = {
            **_facts(model, model.model_, train, test),
            **{"theta": model.theta_, "gap": certified_gap(model.history_[-1])},
        }
    value = corrective[str(max(ROUNDS))]["test_error"]
    return {"stage_wise": stage_wise, "corrective": corrective, "value": value}


def held_out_theta(face, train, seed):
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


def _facts(estimator, model, train, test):
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


def _pair_margins(task, y, scores):
    """Margins of all pairs: bits of the code, or wrong classes."""
    if isinstance(task, CodedTask):
        return (task.code[y] * scores).ravel()
    rows = np.arange(len(y))
    others = np.ones(scores.shape, bool)
    others[rows, y] = False
    return (scores[rows, y][:, None] - scores)[others]
