"""Files keep what was chosen on held-out data, and scorers may look at the estimator."""

import numpy as np
import pytest

from structboost import StructBoostClassifier, StructBoostTagger

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
Y = (X[:, 0] + 0.3 * RNG.normal(size=120) > 0).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"objective": "hinge", "max_iter": 20, "tol": 0.1},
        {"objective": "svm"},
        {"weak_learner": "linear"},
        {"early_stopping": True},
        {"objective": "hinge", "early_stopping": True, "max_iter": 30},
    ],
    ids=str,
)
def test_loaded_model_has_its_choice_and_the_reason_of_its_end(parameters, tmp_path):
    model = StructBoostClassifier(random_state=0, **parameters).fit(X, Y)
    model.save(tmp_path / "model")
    loaded = StructBoostClassifier.load(tmp_path / "model")
    names = (
        "C_", "C_path_", "C_path_end_", "validation_losses_", "max_features_", "learning_rate_",
        "temperature_", "ending_", "n_iter_", "minimised_", "learner_",
    )  # fmt: skip
    for name in names:
        assert getattr(loaded, name, None) == getattr(model, name, None), name
    assert model.ending_
    assert repr(loaded).partition("#")[2] == repr(model).partition("#")[2]


def test_linear_fits_store_their_passes_and_the_reason_of_their_end():
    for parameters in ({"objective": "svm"}, {"weak_learner": "linear"}):
        model = StructBoostClassifier(C=10.0, **parameters).fit(X, Y)
        assert model.n_iter_ == len(model.history_)
        assert model.ending_ == "gap"


@pytest.mark.slow
def test_a_scorer_may_print_the_estimator():
    shown = []

    def scorer(estimator, X, y):
        shown.append(repr(estimator))
        return estimator.score(X, y)

    StructBoostClassifier(objective="hinge", max_iter=5, scoring=scorer).fit(X, Y)
    tags = [np.array(["a", "b"])[Y[i : i + 6]].tolist() for i in range(0, 120, 6)]
    sequences = [X[i : i + 6] for i in range(0, 120, 6)]
    StructBoostTagger(objective="svm", scoring=scorer).fit(sequences, tags)
    assert all("objective=" in text for text in shown)
