"""Masked entries are missing values, or are refused, wherever an array may stand."""

import numpy as np
import pytest

from structboost import (
    BinaryTask,
    ChainTask,
    MultiLabelTask,
    PredictThenOptimize,
    StructBoost,
    StructBoostClassifier,
    StructuredSVM,
    StructuredSVMClassifier,
)
from structboost.decisions import Choose, DecisionInput
from structboost.inference import viterbi
from structboost.segmentation import Segmenter
from tests.helpers.refusals import refused

N = 24


def _table():
    return np.random.default_rng(0).normal(size=(N, 3))


def _masked(x):
    return np.ma.masked_array(x, x > 1)


def _missing(x):
    return np.where(x > 1, np.nan, x)


@pytest.mark.parametrize(
    "model",
    [
        StructBoostClassifier(max_iter=2, random_state=0),
        StructuredSVMClassifier(max_epochs=5, random_state=0),
        StructBoost(BinaryTask(), C=5.0, max_rounds=3),
    ],
)
def test_list_of_masked_rows_is_a_table_with_missing_values(model):
    X = _table()
    y = np.where(X[:, 0] > 0, 1, -1)
    expected = model.fit(_missing(X), y).predict(_missing(X))
    rows = [_masked(x) for x in X]
    assert np.array_equal(model.predict(rows), expected)
    assert np.array_equal(model.fit(rows, y).predict(_missing(X)), expected)


@pytest.mark.parametrize("as_inputs", [list, lambda X: [DecisionInput(x) for x in X]])
def test_masked_features_of_decisions_are_missing(as_inputs):
    X = _table()
    costs = X + 3
    model = PredictThenOptimize(Choose(3, 1), C=5.0, max_rounds=5, random_state=0)
    expected = model.fit(_missing(X), costs).predict_costs(_missing(X))
    inputs = as_inputs([_masked(x) for x in X])
    assert np.array_equal(model.fit(inputs, costs).predict_costs(inputs), expected)


@pytest.mark.parametrize("trainer", [StructBoost, StructuredSVM])
def test_trainers_refuse_masked_parts_and_labels(trainer):
    X = [_table()[:5] for _ in range(6)]
    Y = [(x[:, 0] > 0).astype(int) for x in X]
    hidden = [np.ma.masked_array(y, y > 0) for y in Y]
    for task, inputs, outputs, named in (
        (ChainTask(2), [_masked(x) for x in X], Y, r"X\[0\].*NaN"),
        (ChainTask(2), X, hidden, r"Y\[0\]"),
        (ChainTask(2, vectors=True), [(x, _masked(x)) for x in X], Y, r"X\[0\].*'vector'"),
        (MultiLabelTask(5), [x[0] for x in X], hidden, r"Y\[0\]"),
    ):
        refused(named, trainer(task, C=5.0).fit, inputs, outputs)


def test_search_names_a_masked_entry():
    scores = np.ma.masked_array(np.zeros((3, 2)), [[0, 0], [0, 1], [0, 0]])
    refused(r"emissions\[1, 1\] is masked", viterbi, scores, np.zeros((2, 2)))


def test_segmenter_refuses_masked_pixels_and_masks_that_are_none():
    images = [np.zeros((9, 9, 3), np.uint8)] * 2
    masks = [np.eye(9, dtype=np.uint8)] * 2
    hidden = np.eye(9, dtype=bool)
    refused(
        r"masks\[0\] has masked entries; .*255",
        Segmenter().fit,
        images,
        [np.ma.masked_array(mask, hidden) for mask in masks],
    )
    refused(
        r"images\[0\] has masked entries",
        Segmenter().fit,
        [np.ma.masked_array(image, image == 0) for image in images],
        masks,
    )
    refused("masks is None", Segmenter().fit, images, None)
