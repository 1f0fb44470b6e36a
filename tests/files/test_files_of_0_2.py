"""Files that version 0.2 wrote still load, say their objective, and predict as they did then."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import structboost
from structboost import (
    ChainTask,
    Ensemble,
    MulticlassTask,
    PredictThenOptimize,
    StructBoost,
    StructuredSVM,
    StructuredSVMClassifier,
)
from structboost.decisions import GridPath
from structboost.errors import ModelFileError
from structboost.faces.objectives import parameters_of_0_2
from tests.files.test_files import crafted, put

FOLDER = Path(__file__).parent / "files_of_0_2"
ANSWERS = json.loads((FOLDER / "answers.json").read_text())
LINEAR_FOLDER = FOLDER / "linear"
LINEAR = json.loads((LINEAR_FOLDER / "answers.json").read_text())


def table():
    rng = np.random.default_rng(0)
    X = rng.integers(-8, 9, size=(60, 3)) / 8.0
    return X, ((X[:, 0] > 0) + (X[:, 1] > X[:, 2])).astype(int)


def dicts(X, y):
    return [
        [
            {"w": "abc"[k], "long": bool(v > 0)}
            for k, v in zip(y[i : i + 6], X[i : i + 6, 2], strict=True)
        ]
        for i in range(0, 60, 6)
    ]


# Class, objective, weak learners, and methods whose answers were kept.
MODELS = {
    "classifier": ("StructBoostClassifier", "log_loss", "auto", ["predict_proba"]),
    "hinge": ("StructBoostClassifier", "hinge", "auto", ["decision_function"]),
    "log": ("StructBoostClassifier", "l1_log_loss", "auto", ["predict_proba"]),
    "taxonomy": ("StructBoostClassifier", "hinge", "auto", ["decision_function"]),
    "ranker": ("StructBoostRanker", "pairwise", "auto", ["predict"]),
    "ndcg": ("StructBoostRanker", "hinge", "auto", ["predict"]),
    "tagger": ("StructBoostTagger", "log_loss", "auto", ["predict", "predict_marginals"]),
    "linear_tagger": ("StructBoostTagger", "svm", "linear", ["predict", "predict_marginals"]),
    "hamming_sets": (
        "StructBoostMultiLabelClassifier", "log_loss", "auto", ["predict", "predict_marginals"],
    ),
    "subset_sets": (
        "StructBoostMultiLabelClassifier", "log_loss", "auto", ["predict", "predict_marginals"],
    ),
    "hamming_sets_with_C": (
        "StructBoostMultiLabelClassifier", "hinge", "auto", ["predict", "decision_function"],
    ),
    "subset_sets_with_C": (
        "StructBoostMultiLabelClassifier", "l1_log_loss", "auto", ["predict", "decision_function"],
    ),
    "hierarchy_sets": (
        "StructBoostMultiLabelClassifier", "hinge", "auto", ["predict", "decision_function"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_0_2_predicts_as_before_and_says_its_objective(name, tmp_path):
    X, y = table()
    face, objective, weak_learner, methods = MODELS[name]
    inputs = X
    if face == "StructBoostTagger":
        inputs = dicts(X, y) if name == "linear_tagger" else [X[i : i + 6] for i in range(0, 60, 6)]
    loaded = getattr(structboost, face).load(FOLDER / f"{name}.model")
    assert (loaded.objective, loaded.weak_learner, loaded.max_iter) == (objective, weak_learner, 5)
    assert objective in repr(loaded)
    loaded.save(tmp_path / "again")
    for model in (loaded, getattr(structboost, face).load(tmp_path / "again")):
        found = [getattr(model, method)(inputs) for method in methods]
        wanted = ANSWERS[name] if len(methods) > 1 else [ANSWERS[name]]
        for own, then in zip(found, wanted, strict=True):
            if isinstance(own, list) and isinstance(own[0][0], dict):
                own = [[list(token.values()) for token in x] for x in own]
                then = [[list(token.values()) for token in x] for x in then]
            if isinstance(own, list) and isinstance(own[0][0], str):
                assert own == then
            else:
                for a, b in zip(own, then, strict=True):
                    assert np.allclose(a, b, atol=1e-8)


def test_files_that_do_not_name_an_objective_are_known_by_their_parameters_and_their_bound():
    def objective(face, has_bound=False, **parameters):
        return parameters_of_0_2(face, parameters, has_bound=has_bound)["objective"]

    sets, tagger = "StructBoostMultiLabelClassifier", "StructBoostTagger"
    # The defaults of sparse tables and of tokens of zeros and ones.
    assert objective(tagger) == objective(sets) == "log_loss"
    assert objective(tagger, True) == objective(sets, True) == "hinge"
    assert objective(sets, True, loss="subset") == "l1_log_loss"
    assert objective(sets, loss="subset") == "log_loss"
    assert objective("StructBoostRanker") == "pairwise"
    assert objective("StructBoostClassifier", True, formulation="exponential") == "exponential"
    of_open = parameters_of_0_2("StructBoostClassifier", {"tol": 0.1, "max_rounds": 7})
    assert of_open == {"max_iter": 7, "objective": "log_loss"}
    assert parameters_of_0_2("AdaBoostMHClassifier", {"max_rounds": 7}) == {"max_rounds": 7}


def test_every_stored_model_of_0_2_is_tried():
    assert {path.stem for path in FOLDER.glob("*.model")} == set(MODELS) == set(ANSWERS)


def active_rows(X):
    tokens = [csr_array((X[i : i + 4] > 0).astype(int)) for i in range(0, 60, 4)]
    return [structboost.learners.active_features(rows, 3) for rows in tokens]


def test_a_structured_svm_of_0_2_is_read_as_an_ensemble(tmp_path):
    X, _ = table()
    for name, task, inputs in (
        ("structured_svm", MulticlassTask(3), X),
        ("active_chain", ChainTask(3), active_rows(X)),
    ):
        svm = StructuredSVM.load(LINEAR_FOLDER / f"{name}.model", task)
        assert isinstance(svm.model_, Ensemble)
        svm.save(tmp_path / "again")
        for model in (svm, StructuredSVM.load(tmp_path / "again", task)):
            predicted = [np.asarray(output).tolist() for output in model.predict(inputs)]
            assert predicted == LINEAR[name]
            assert model.history_[-1]["certified"]
            assert (model.ending_, model.C_) == ("gap", model.C)
        with pytest.raises(ModelFileError, match=r"not written by StructBoost\.save"):
            StructBoost.load(LINEAR_FOLDER / f"{name}.model", task)
    assert svm.w_["token"].shape == (4, 3)


def test_a_linear_classifier_of_0_2_predicts_as_before():
    X, _ = table()
    loaded = StructuredSVMClassifier.load(LINEAR_FOLDER / "svm_classifier.model")
    assert loaded.predict(X).tolist() == LINEAR["svm_classifier"]
    assert loaded.coef_.shape == (3, 3)


@pytest.mark.parametrize("learner", ["linear", "boosted"])
def test_decisions_of_0_2_are_decided_as_before(learner, tmp_path):
    X, _ = table()
    loaded = PredictThenOptimize.load(LINEAR_FOLDER / f"{learner}_decisions.model", GridPath(3, 3))
    loaded.save(tmp_path / "again")
    for model in (loaded, PredictThenOptimize.load(tmp_path / "again", GridPath(3, 3))):
        assert np.asarray(model.predict(X[:10])).tolist() == LINEAR[f"{learner}_decisions"]
    if learner == "linear":
        assert loaded.predict_costs(X[:3]) == pytest.approx(np.array(LINEAR["linear_costs"]))


def test_a_damaged_linear_file_of_0_2_is_refused(tmp_path):
    for change in (
        put("x/weights", np.nan),
        lambda header, arrays: arrays.update({"x/weights": np.zeros((0, 3))}),
        lambda header, arrays: header["kinds"]["x"].update(n_channels=4),
        lambda header, arrays: header["metadata"]["parameters"].update(C=-1),
        lambda header, arrays: header["metadata"]["parameters"].pop("tol"),
    ):
        shutil.copy(LINEAR_FOLDER / "structured_svm.model", tmp_path / "file")
        crafted(tmp_path / "file", change)
        with pytest.raises(ModelFileError, match="train the model again"):
            StructuredSVM.load(tmp_path / "file", MulticlassTask(3))
