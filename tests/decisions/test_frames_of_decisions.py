"""Data frames of features of decisions, whose columns are matched by name."""

from __future__ import annotations

import numpy as np
import pytest

from structboost import PredictThenOptimize
from structboost.decisions import (
    Choose,
    DecisionInput,
)


def tables(library):
    rng = np.random.default_rng(0)
    columns = dict(zip(("wind", "rain", "load"), rng.normal(size=(3, 60)), strict=True))
    costs = np.column_stack((columns["wind"], -columns["wind"], columns["rain"]))
    return pytest.importorskip(library).DataFrame(columns), costs


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_frames_are_found_by_name_in_any_order(library, tmp_path):
    X, costs = tables(library)
    model = PredictThenOptimize(Choose(3, 1), C=5.0, random_state=0).fit(X, costs)
    assert model.feature_names_in_.tolist() == ["wind", "rain", "load"]
    model.save(tmp_path / "m")
    loaded = PredictThenOptimize.load(tmp_path / "m", Choose(3, 1))
    assert loaded.feature_names_in_.tolist() == ["wind", "rain", "load"]
    other = X[["rain", "load", "wind"]]
    for one in (model, loaded):
        np.testing.assert_array_equal(one.predict_costs(other), model.predict_costs(X))
        with pytest.raises(ValueError, match=r"X lacks \['wind'\] and has \['typo'\]"):
            one.predict(X.rename(**renamed(library)))
        with pytest.warns(UserWarning, match="does not have valid feature names, but"):
            unnamed = one.predict_costs(X.to_numpy())
        np.testing.assert_array_equal(unnamed, model.predict_costs(X))
    with pytest.warns(UserWarning, match="has feature names, but .* without feature names"):
        model.fit(X.to_numpy(), costs).predict(X)
    assert not hasattr(model, "feature_names_in_")


def renamed(library):
    names = {"wind": "typo"}
    return {"columns": names} if library == "pandas" else {"mapping": names}


@pytest.mark.slow
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_frames_in_inputs_are_found_by_name_in_any_order(library):
    pd = pytest.importorskip("pandas")
    frame = pytest.importorskip(library).DataFrame
    rng = np.random.default_rng(0)
    items, place = rng.normal(size=(30, 4, 2)), rng.normal(size=(30, 2))
    values = 5 + items @ [1.0, -2.0] + place @ rng.normal(size=(2, 4))
    model = PredictThenOptimize(Choose(4, 2), C=5.0, random_state=0)

    def inputs(of_instance, of_items):
        return [
            DecisionInput(
                pd.Series(a, index=["x", "y"])[of_instance],
                frame({"size": b[:, 0], "age": b[:, 1]})[of_items],
            )
            for a, b in zip(place, items, strict=True)
        ]

    X = inputs(["x", "y"], ["size", "age"])
    predicted = model.fit(X, values).predict_costs(X)
    assert model.feature_names_in_.tolist() == ["x", "y", "size", "age"]
    other = inputs(["y", "x"], ["age", "size"])
    np.testing.assert_array_equal(model.predict_costs(other), predicted)
    other[7] = DecisionInput(other[7].instance, frame({"size": [1.0] * 4, "old": [1.0] * 4}))
    with pytest.raises(ValueError, match=r"X\[7\].items lacks \['age'\] and has \['old'\]"):
        model.predict(other)
    # A list of frames has features of items.
    frames = [x.items for x in X]
    of_items = PredictThenOptimize(Choose(4, 2), C=5.0, random_state=0).fit(frames, values)
    assert of_items.feature_names_in_.tolist() == ["size", "age"]
    np.testing.assert_array_equal(
        of_items.predict_costs(frames),
        PredictThenOptimize(Choose(4, 2), C=5.0, random_state=0)
        .fit(items, values)
        .predict_costs(items),
    )
