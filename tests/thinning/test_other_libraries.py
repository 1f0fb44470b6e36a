"""Thinning of models of LightGBM, XGBoost and CatBoost, in their own formats."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification

from structboost import thin

LABELS = np.array(["ant", "bee", "cat"])


def table(n_classes, n=360):
    X, y = make_classification(
        n, 6, n_informative=4, n_classes=n_classes, n_clusters_per_class=1, class_sep=0.9,
        flip_y=0.1, random_state=1,
    )  # fmt: skip
    X[::9, 2] = np.nan
    return X, y


def lightgbm(**options):
    module = pytest.importorskip("lightgbm")
    return module.LGBMClassifier(n_estimators=20, n_jobs=1, verbose=-1, **options)


def xgboost(**options):
    module = pytest.importorskip("xgboost")
    return module.XGBClassifier(n_estimators=20, n_jobs=1, **options)


def catboost(**options):
    module = pytest.importorskip("catboost")
    return module.CatBoostClassifier(
        iterations=20, thread_count=1, verbose=0, allow_writing_files=False, **options
    )


MAKERS = {
    "lightgbm": (lightgbm, {}),
    "lightgbm, dart and sigmoid": (lightgbm, {"boosting_type": "dart", "sigmoid": 0.5}),
    "xgboost": (xgboost, {"max_depth": 3}),
    "catboost": (catboost, {"depth": 3}),
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MAKERS)
def test_written_model_predicts_as_the_thinned_one_and_the_old_one_stays(name, n_classes, tmp_path):
    make, options = MAKERS[name]
    X, y = table(n_classes)
    labels = y if name == "xgboost" else LABELS[y]
    model = make(**options).fit(X[:160], labels[:160])
    before = model.predict_proba(X)
    thinned = thin(model, X[160:], labels[160:], n_trees=12)
    assert 0 < thinned.n_trees <= 12
    assert thinned.gap <= 0.01
    assert thinned.model.predict_proba(X) == pytest.approx(thinned.predict_proba(X), abs=1e-6)
    assert (thinned.model.predict(X).ravel() == thinned.predict(X)).all()
    assert (model.predict_proba(X) == before).all()
    whole = thin(model, X[160:], labels[160:], n_trees=1)
    assert whole.model.predict_proba(X) == pytest.approx(whole.predict_proba(X), abs=1e-6)


def test_booster_of_lightgbm_after_early_stopping_goes_through_a_file(tmp_path):
    module = pytest.importorskip("lightgbm")
    X, y = table(3)
    model = lightgbm().set_params(n_estimators=300)
    model.fit(
        X[:160], y[:160], eval_set=[(X[160:], y[160:])],
        callbacks=[module.early_stopping(5, verbose=False)],
    )  # fmt: skip
    thinned = thin(model.booster_, X[160:], y[160:], n_trees=12)
    assert thinned.n_trees_before == 3 * model.best_iteration_
    thinned.model.save_model(tmp_path / "model.txt")
    read = module.Booster(model_file=str(tmp_path / "model.txt"))
    assert read.predict(X) == pytest.approx(thinned.predict_proba(X), abs=1e-9)


def test_booster_of_xgboost_goes_through_a_file(tmp_path):
    module = pytest.importorskip("xgboost")
    X, y = table(3)
    booster = xgboost(max_depth=3).fit(X[:160], y[:160]).get_booster()
    thinned = thin(booster, X[160:], y[160:], n_trees=12)
    thinned.model.save_model(tmp_path / "model.ubj")
    read = module.Booster(model_file=tmp_path / "model.ubj")
    predicted = read.predict(module.DMatrix(X))
    assert predicted == pytest.approx(thinned.predict_proba(X), abs=1e-6)


@pytest.mark.parametrize("classifier", [lightgbm, xgboost, catboost])
def test_classifiers_that_are_not_fitted_are_refused(classifier):
    with pytest.raises(ValueError, match=r"\bfit(ted)?\b"):
        thin(classifier(), [[0.0]] * 20, [0, 1] * 10)


def test_frame_whose_columns_are_in_another_order_is_refused_for_lightgbm():
    pandas = pytest.importorskip("pandas")
    X, y = table(2)
    frame = pandas.DataFrame(X, columns=[f"column {j}" for j in range(6)])
    model = lightgbm().fit(frame[:160], y[:160])
    held = frame[160:]
    assert thin(model, held, y[160:], n_trees=12).n_trees <= 12
    with pytest.raises(ValueError, match="Column 0 of X is 'column_5', and the model was trained"):
        thin(model, held[held.columns[::-1]], y[160:], n_trees=12)
    others = held[[f"column {j}" for j in (0, 2, 1, 3, 4, 5)]]
    with pytest.raises(ValueError, match="Column 1 of X is 'column_2'"):
        thin(model, held, y[160:], n_trees=12, unlabelled=others)


def test_importances_of_a_written_model_of_catboost_are_those_of_its_trees():
    X, y = table(3)
    model = catboost(depth=3).fit(X[:160], y[:160])
    written = thin(model, X[160:], y[160:], n_trees=12).model
    assert written.feature_importances_ == pytest.approx(written.get_feature_importance())
    assert written.feature_importances_.sum() == pytest.approx(100.0)


def test_model_of_catboost_goes_through_a_file(tmp_path):
    module = pytest.importorskip("catboost")
    X, y = table(3)
    thinned = thin(catboost(depth=3).fit(X[:160], y[:160]), X[160:], y[160:], n_trees=8)
    thinned.model.save_model(str(tmp_path / "model.cbm"))
    read = module.CatBoostClassifier().load_model(str(tmp_path / "model.cbm"))
    assert read.predict_proba(X) == pytest.approx(thinned.predict_proba(X), abs=1e-9)


def test_model_of_the_base_class_of_catboost_is_thinned():
    module = pytest.importorskip("catboost")
    X, y = table(3)
    model = module.CatBoost({
        "iterations": 20, "depth": 3, "loss_function": "MultiClass", "verbose": 0,
        "thread_count": 1, "allow_writing_files": False,
    }).fit(X[:160], y[:160])  # fmt: skip
    thinned = thin(model, X[160:], y[160:], n_trees=8)
    written = thinned.model.predict(X, prediction_type="Probability")
    assert type(thinned.model) is module.CatBoost
    assert written == pytest.approx(thinned.predict_proba(X), abs=1e-9)


def test_rows_in_the_format_of_another_library_are_refused_by_name():
    module = pytest.importorskip("xgboost")
    X, y = table(2)
    model = xgboost(max_depth=3).fit(X[:160], y[:160])
    with pytest.raises(TypeError, match="X is a DMatrix of xgboost; give the table"):
        thin(model, module.DMatrix(X[160:]), y[160:])
    with pytest.raises(TypeError, match="unlabelled is a DMatrix"):
        thin(model, X[160:], y[160:], unlabelled=module.DMatrix(X))


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lightgbm, {"objective": "multiclassova"}, "objective"),
        (lightgbm, {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1}, "forest"),
        (lightgbm, {"linear_tree": True}, "linear"),
        (xgboost, {"booster": "dart"}, "booster='dart'"),
        (catboost, {"loss_function": "MultiClassOneVsAll"}, "loss"),
        (catboost, {"grow_policy": "Depthwise"}, "symmetric"),
    ],
)
def test_other_kinds_of_models_are_refused_by_name(make, options, message):
    X, y = table(3)
    model = make(**options).fit(X, y)
    with pytest.raises(ValueError, match=message):
        thin(model, X, y)
