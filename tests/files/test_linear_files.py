"""Linear models and predict-then-optimise come back from their files as they were."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from structboost import (
    ChainTask,
    MulticlassTask,
    PredictThenOptimize,
    StructBoost,
    StructBoostClassifier,
    StructuredSVM,
    StructuredSVMClassifier,
    load_model,
)
from structboost.decisions import Choose, DecisionInput, GridPath, Knapsack
from structboost.errors import ModelFileError, TaskError
from tests.files.test_files import crafted, put
from tests.helpers.damaged_files.kinds import KINDS

X, Y = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
ROUTES = GridPath(3, 3)


def chains():
    rng = np.random.default_rng(0)
    tags = [rng.integers(0, 2, size=4) for _ in range(12)]
    return [np.eye(2)[own] + 0.4 * rng.normal(size=(4, 2)) for own in tags], tags


def test_a_structured_svm_comes_back_with_its_certificate(tmp_path):
    for task, inputs, outputs in ((MulticlassTask(3), X, Y), (ChainTask(2), *chains())):
        svm = StructuredSVM(task, C=np.float64(2.0), tol=0.01, average=False).fit(inputs, outputs)
        svm.save(tmp_path / "svm")
        loaded = StructuredSVM.load(tmp_path / "svm", task)
        assert (loaded.C, loaded.average) == (2.0, False)
        assert (loaded.history_, loaded.objective_) == (svm.history_, svm.objective_)
        for kind, scores in svm.scores(inputs).rows.items():
            np.testing.assert_array_equal(loaded.scores(inputs).rows[kind], scores)
        # A loaded model can be trained again.
        again = loaded.fit(inputs, outputs)
        assert again.objective_ == pytest.approx(svm.objective_, rel=0.02)


def test_a_linear_classifier_comes_back_with_its_labels(tmp_path):
    pd = pytest.importorskip("pandas")
    names = np.array(["setosa", "versicolor", "virginica"])[Y]
    for rows in (slice(None), slice(0, 100)):
        table = pd.DataFrame(X[rows], columns=list("abcd"))
        model = StructuredSVMClassifier(C=3.0, random_state=0).fit(table, names[rows])
        model.save(tmp_path / "c")
        loaded = StructuredSVMClassifier.load(tmp_path / "c")
        for method in ("decision_function", "predict"):
            np.testing.assert_array_equal(
                getattr(loaded, method)(table), getattr(model, method)(table)
            )
        assert loaded.get_params() == model.get_params()
        assert loaded.feature_names_in_.tolist() == list("abcd")
        assert (loaded.n_iter_, loaded.history_) == (model.n_iter_, model.history_)


def travel(n=40):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    return x, 5 + x @ rng.normal(size=(3, ROUTES.n_items)) + rng.uniform(size=(n, ROUTES.n_items))


@pytest.mark.parametrize(
    ("weak_learner", "start", "form"),
    [
        ("linear", "none", "instance"),
        ("linear", "least_squares", "items"),
        (["linear", "stump"], "least_squares", "both"),
    ],
)
def test_predicted_costs_come_back_exactly(weak_learner, start, form, tmp_path):
    x, costs = travel()
    items = costs[:, :, None] + np.random.default_rng(1).normal(size=(*costs.shape, 2))
    both = [DecisionInput(a, b) for a, b in zip(x, items, strict=True)]
    given = {"instance": x, "items": items, "both": both}[form]
    model = PredictThenOptimize(
        ROUTES, C=1.0, start=start, weak_learner=weak_learner, tol=0.05, max_rounds=10
    ).fit(given, costs)
    model.save(tmp_path / "m")
    loaded = PredictThenOptimize.load(tmp_path / "m", GridPath(3, 3))
    np.testing.assert_array_equal(loaded.predict_costs(given), model.predict_costs(given))
    for name in ("C_", "history_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(model, name)
    with pytest.raises(TaskError, match="12 items, and the problem has 3"):
        PredictThenOptimize.load(tmp_path / "m", Knapsack([1, 1, 1], 2))
    # Loaded, it can be written again.
    loaded.save(tmp_path / "twice")
    assert (tmp_path / "twice").stat().st_size == (tmp_path / "m").stat().st_size


@pytest.mark.slow
def test_boosted_starts_are_not_written(tmp_path):
    x, costs = travel(12)
    model = PredictThenOptimize(ROUTES, C=1.0, start="boosted", tol=0.2).fit(x, costs)
    with pytest.raises(ValueError, match="fit it with start='least_squares', or pickle it"):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_problem_of_the_other_sense_is_refused(tmp_path):
    x, costs = travel(12)
    PredictThenOptimize(Choose(ROUTES.n_items, 2, maximize=True), C=1.0, tol=0.2).fit(
        x, costs
    ).save(tmp_path / "m")
    PredictThenOptimize.load(tmp_path / "m", Choose(ROUTES.n_items, 2, maximize=True))
    with pytest.raises(TaskError, match="predicts values, and the problem has maximize=False"):
        PredictThenOptimize.load(tmp_path / "m", Choose(ROUTES.n_items, 2))


def test_files_of_other_models_are_named(tmp_path):
    svm = StructuredSVM(MulticlassTask(3), tol=0.1)
    with pytest.raises(NotFittedError):
        svm.save(tmp_path / "svm")
    svm.fit(X, Y).save(tmp_path / "svm")
    with pytest.raises(FileNotFoundError):
        StructuredSVM.load(tmp_path / "none", MulticlassTask(3))
    with pytest.raises(TaskError, match="has the kinds"):
        StructuredSVM.load(tmp_path / "svm", MulticlassTask(4))
    with pytest.raises(ModelFileError, match="load it with that class"):
        StructuredSVMClassifier.load(tmp_path / "svm")
    assert load_model(tmp_path / "svm").metadata["trainer"] == "StructuredSVM"
    StructBoostClassifier(objective="hinge", C=5, max_iter=2).fit(X, Y).save(tmp_path / "boosted")
    with pytest.raises(ModelFileError, match="'structboost-model', not a"):
        PredictThenOptimize.load(tmp_path / "boosted", ROUTES)
    for trainer, name in ((StructuredSVM, "boosted"), (StructBoost, "svm")):
        with pytest.raises(ModelFileError, match=rf"not written by {trainer.__name__}\.save"):
            trainer.load(tmp_path / name, MulticlassTask(3))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("svm", put("x/learners/coefficients", np.nan)),
        ("svm", lambda header, arrays: arrays.pop("x/learners/intercept")),
        ("svm", lambda header, arrays: header["kinds"]["x"].update(n_channels=2)),
        ("svm", lambda header, arrays: header["metadata"]["parameters"].update(C=-1)),
        ("svm", lambda header, arrays: header["metadata"]["parameters"].pop("tol")),
        ("decisions", put("preparation/instance_spread", 0.0)),
        ("decisions", put("model", 0)),
        ("decisions", lambda header, arrays: header.update(features="items")),
        ("decisions", lambda header, arrays: header.update(n_items="x")),
        ("decisions", lambda header, arrays: header["parameters"].update(problem=0)),
        ("decisions", lambda header, arrays: arrays.pop("preparation/start")),
    ],
)
def test_crafted_files_are_refused_when_they_are_loaded(kind, change, originals, tmp_path):
    originals.copy(kind, tmp_path)
    crafted(tmp_path / "file", change)
    with pytest.raises(ModelFileError, match="train the model again"):
        KINDS[kind].use(tmp_path)
