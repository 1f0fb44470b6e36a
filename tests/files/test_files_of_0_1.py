"""Files that version 0.1 wrote still load, and predict what they predicted then."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from structboost import BinnedTable, MulticlassTask, StructBoost, StructBoostClassifier
from structboost.segmentation.segmenter import Segmenter
from structboost.segmentation.synthetic_images import make_synthetic_images

FOLDER = Path(__file__).parent / "files_of_0_1"
ANSWERS = json.loads((FOLDER / "answers.json").read_text())


def table():
    rng = np.random.default_rng(0)
    X = rng.integers(-8, 9, size=(60, 3)) / 8.0
    return X, ((X[:, 0] > 0) + (X[:, 1] > X[:, 2])).astype(int)


@pytest.mark.parametrize("name", ["stump", "tree", "perceptron", "piecewise"])
def test_models_of_0_1_predict_as_before(name):
    X, _ = table()
    trainer = StructBoost.load(FOLDER / f"{name}.model", MulticlassTask(3))
    assert [int(label) for label in trainer.predict(X)] == ANSWERS[name]


def test_a_classifier_predicts_as_before():
    X, _ = table()
    found = StructBoostClassifier.load(FOLDER / "classifier.model").predict(X)
    assert found.tolist() == ANSWERS["classifier"]


def test_checkpoint_of_0_1_is_resumed(tmp_path):
    X, y = table()
    path = shutil.copy(FOLDER / "run.checkpoint", tmp_path / "run")
    trainer = StructBoost(
        MulticlassTask(3), C=20.0, tol=1e-3, max_rounds=10, engine="serial", checkpoint=path
    ).fit(X, y)
    assert trainer.history_[3]["seconds"] < trainer.history_[4]["seconds"]
    assert trainer.objective_ == pytest.approx(ANSWERS["run.checkpoint"], rel=1e-9)


@pytest.mark.parametrize("name", ["scribbles", "objects"])
def test_segmenters_segment_as_before(name):
    made = make_synthetic_images(4)
    scribbles = made.scribbles[3] if name == "scribbles" else None
    mask = Segmenter.load(FOLDER / f"{name}.segmenter").predict(made.images[3], scribbles)
    assert abs(int(mask.sum()) - ANSWERS[f"{name}.segmenter"]) < 0.02 * mask.size


def test_a_binned_table_opens():
    X, _ = table()
    assert BinnedTable.open(FOLDER / "table").shape == X.shape
