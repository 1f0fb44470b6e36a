"""Every choice of a parameter leaves the prediction that is the same for everything.

In all of these the smallest values give one output for all inputs, and the held-out loss stays the
same for several values after the first.
"""

import numpy as np
import pytest
from numpy.random import default_rng

from structboost import (
    MultiBoostECCClassifier,
    PredictThenOptimize,
    StructBoostClassifier,
    StructBoostTagger,
)
from structboost.decisions.problem import DecisionProblem
from structboost.segmentation.crf import CRFSettings, tuned
from structboost.tasks.superpixel_crf import SuperpixelGraph


def rare_words():
    """Sentences of which few have a name, which one of forty words tells."""
    random = default_rng(0)
    X, Y = [], []
    for _ in range(400):
        length = random.integers(4, 9)
        words = [f"w{k}" for k in random.integers(0, 60, length)]
        tags = np.zeros(length, np.int64)
        if random.random() < 0.4:
            k = random.integers(0, length)
            words[k], tags[k] = f"name{random.integers(0, 20)}", 1
        X.append([{"word": word} for word in words])
        Y.append(np.where(tags == 1, "B", "O").tolist())
    return X, Y


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["hinge", "svm"])
def test_taggers_find_rare_tags(objective):
    X, Y = rare_words()
    tagger = StructBoostTagger(objective).fit(X[:300], Y[:300])
    first, (chosen,) = tagger.C_path_[0], [r for r in tagger.C_path_ if r["C"] == tagger.C_]
    assert first["is_constant"]
    assert not chosen["is_constant"]
    assert chosen["loss"] < 0.8 * first["loss"]
    assert tagger.C_path_end_
    truth, tags = np.concatenate(Y[300:]), np.concatenate(tagger.predict(X[300:]))
    hits = np.sum((truth == "B") & (tags == "B"))
    assert hits > 0.7 * np.sum(truth == "B")
    assert hits > 0.7 * np.sum(tags == "B")


class Threshold(DecisionProblem):
    """Take the first item or the second; costs of the second differ from 0 rarely."""

    n_items = 2

    def solve(self, costs):
        return np.array([1.0, 0.0]) if costs[0] <= costs[1] else np.array([0.0, 1.0])


@pytest.mark.slow
def test_the_segmenter_leaves_the_background():
    random = default_rng(0)
    graphs, counts = [], []
    for _ in range(9):
        rows = np.column_stack((random.normal(size=30), np.full(30, 3.0)))
        labels = (rows[:, 0] > 1.2).astype(np.int64)
        potentials = np.stack((np.zeros_like(rows), rows), axis=1)
        graphs.append(SuperpixelGraph(potentials, np.zeros((0, 2), int), np.zeros((0, 1))))
        counts.append(50 * np.eye(2, dtype=np.int64)[labels])
    settings = CRFSettings(learner="ssvm", pairwise=False)
    _, C, scores = tuned(graphs, counts, settings, (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 1.0, 100.0))
    assert C >= 0.01
    assert scores[C] > scores[1e-4] + 0.2


def test_decisions_leave_the_one_that_is_best_on_average():
    X = default_rng(0).normal(size=(120, 3))
    costs = np.column_stack((np.zeros(120), np.where(X[:, 0] > 1, -3.0, 1.0)))
    model = PredictThenOptimize(Threshold(), start="none", random_state=0).fit(X, costs)
    assert len(np.unique(model.predict(X), axis=0)) == 2
    assert "start none: " in model.path_end_
    assert model.score(X, costs) < 0.5


@pytest.mark.slow
def test_a_linear_function_of_nothing_ends_without_a_gap_of_zero():
    random = default_rng(0)
    for _ in range(6):
        X, y = random.integers(0, 2, (60, 1)).astype(float), random.integers(0, 2, 60)
        model = StructBoostClassifier("svm").fit(X, y)
        assert np.isfinite(model.objective_)


@pytest.mark.slow
def test_theta_leaves_one_class():
    X = default_rng(1).normal(size=(300, 3))
    y = (X[:, 0] > 1.2) * 1 + (X[:, 1] > 1.2)
    model = MultiBoostECCClassifier(theta="cv", max_rounds=60, random_state=0).fit(X, y)
    path = model.theta_path_
    assert [record["theta"] for record in path][:2] == [2, 5]
    assert min(path, key=lambda record: record["surrogate"])["theta"] == model.theta_
    (chosen,) = [record for record in path if record["theta"] == model.theta_]
    assert not chosen["is_constant"]
    assert model.theta_path_end_
