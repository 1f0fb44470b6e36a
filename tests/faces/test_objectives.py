"""The objective of the four faces: one parameter names it, and nothing else changes it."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from structboost import (
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
)
from structboost.objectives import (
    ConditionalLikelihood,
    Exponential,
    Hinge,
    OneSlack,
    Pairwise,
    values,
)
from tests.helpers.four_faces import DATA, X, Y
from tests.helpers.refusals import refused

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore::structboost.errors.ConstantPredictionWarning",
    "ignore::structboost.errors.EmptyModelWarning",
)


OBJECTIVES = {
    StructBoostClassifier: ["log_loss", "hinge", "svm", "exponential", "l1_log_loss"],
    StructBoostRanker: ["pairwise", "hinge", "svm"],
    StructBoostTagger: ["log_loss", "hinge", "svm", "l1_log_loss"],
    StructBoostMultiLabelClassifier: ["log_loss", "hinge", "svm", "l1_log_loss"],
}
EACH = [(face, objective) for face, names in OBJECTIVES.items() for objective in names]
IDS = [f"{face.__name__[11:]}-{objective}" for face, objective in EACH]
each_objective = pytest.mark.parametrize(("face", "objective"), EACH, ids=IDS)

# Another value than the default of each parameter that only some objectives read.
OTHERS = {
    "learning_rate": 0.3, "max_depth": 2, "min_samples_leaf": 3, "l2_regularization": 1.0,
    "max_features": 0.5, "C": 7.0, "tol": 0.1, "formulation": "m_slack",
    "exact": True, "pricing": "best", "columns_per_channel": 2, "spread": 0.2, "engine": "serial",
    "checkpoint": "run.npz", "early_stopping": True, "validation_fraction": 0.2,
    "n_iter_no_change": 3, "callbacks": [lambda *_: False],
}  # fmt: skip
LOOP = {
    "engine", "early_stopping", "validation_fraction", "n_iter_no_change", "callbacks",
}  # fmt: skip
STEPS = {"learning_rate", "max_depth", "min_samples_leaf", "l2_regularization", "max_features"}
MASTERS = {"C", "tol", "exact", "pricing", "columns_per_channel"}
READ = {
    "log_loss": STEPS | LOOP | {"checkpoint"},
    "pairwise": STEPS | LOOP | {"checkpoint"},
    "hinge": MASTERS | LOOP | {"formulation", "spread", "checkpoint"},
    "svm": {"C", "tol"},
    "exponential": MASTERS | LOOP | {"checkpoint"},
    "l1_log_loss": MASTERS | LOOP,
}


def quick(face, objective, **parameters):
    """A face of few rounds; its C is given where it is read."""
    own = {"C": 5.0} if "C" in READ[objective] else {}
    return face(objective=objective, **own | {"max_iter": 3, "random_state": 0} | parameters)


@each_objective
def test_a_parameter_that_is_not_read_is_refused_with_a_remedy(face, objective):
    for name in OTHERS.keys() - READ[objective]:
        model = face(objective=objective, **{name: OTHERS[name]})
        message = str(refused(f"^{name} is ", model.fit, *DATA[face]))
        assert f"objective={objective!r} does not read" in message
        assert "leave it out, or write objective='" in message
        written = message.split("or write objective='")[1].split("'", maxsplit=1)[0]
        assert name in READ[written]
        assert written in OBJECTIVES[face]


@pytest.mark.slow
@each_objective
def test_parameters_do_not_change_the_objective(face, objective, reloaded):
    names = READ[objective] - {"checkpoint"}
    model = quick(face, objective, **{name: OTHERS[name] for name in names}).fit(*DATA[face])
    assert model._summary().startswith(f"minimised {objective} over ")
    has_bound = model.history_[-1]["bound"] is not None
    assert has_bound == (objective not in ("log_loss", "pairwise"))
    loaded = reloaded(model)
    assert (loaded.objective, loaded._summary()) == (objective, model._summary())


def test_taxonomies_predict_the_class_of_least_expected_cost(reloaded):
    # Two classes of one branch share a probability of 0.6, and the class beside them has 0.4.
    y = np.random.default_rng(0).choice(3, p=[0.3, 0.3, 0.4], size=1500)
    x = np.arange(1500)[:, None] % 2.0
    settings = {"max_iter": 60, "taxonomy": {"a": [0, 1], 2: None}}
    fitted = StructBoostClassifier(**settings).fit(x, y)
    for model in (fitted, reloaded(fitted)):
        assert model._summary().startswith("minimised log_loss over tree")
        probabilities = model.predict_proba(x)
        assert (probabilities.argmax(axis=1) == 2).all()
        costs = np.array([[0, 1, 2], [1, 0, 2], [2, 2, 0]])
        expected = (probabilities @ costs).argmin(axis=1)
        assert (expected < 2).all()
        assert_array_equal(model.predict(x), expected)
        assert_array_equal(list(model.staged_predict(x))[-1], expected)
    assert not hasattr(StructBoostClassifier("hinge", **settings), "predict_proba")


def test_a_formulation_may_be_the_objective(reloaded):
    for formulation in (ConditionalLikelihood(), Exponential(tau_max=3), OneSlack(ridge=0)):
        model = StructBoostClassifier(formulation, C=20.0, max_iter=3)
        model.fit(X, Y)
        name = type(formulation).__name__
        assert f"minimised {name}(" in repr(model)
        loaded = reloaded(model)
        assert loaded._summary() == model._summary()
        assert_array_equal(loaded.predict(X), model.predict(X))
        for name in ("learning_rate", "max_depth", "formulation"):
            refused(
                f"^{name} is .*a Formulation as the objective",
                clone(model).set_params(**{name: OTHERS[name]}).fit,
                X,
                Y,
            )


@each_objective
def test_an_objective_with_parameters_is_the_fit_of_flat_ones(face, objective, reloaded):
    names = (
        ("max_depth", "min_samples_leaf")
        if values.OBJECTIVES[objective].is_stage_wise
        else ("C", "tol")
    )
    own = {name: OTHERS[name] for name in names}
    flat = face(objective=objective, max_iter=3, random_state=0, **own).fit(*DATA[face])
    value = values.OBJECTIVES[objective](**own)
    model, shown = face(objective=value, max_iter=3, random_state=0), repr(value)
    model.fit(*DATA[face])
    assert model.objective is value
    assert repr(value) == shown
    assert (model.minimised_, model.objective_) == (objective, flat.objective_)
    found = face(objective=objective)
    found.set_params(**{f"objective__{name}": of for name, of in own.items()})
    assert repr(found.objective) == shown
    loaded = reloaded(model)
    assert {name: getattr(loaded, name) for name in own} == own
    refused(
        f"{names[0]} is given twice, as 3 and in",
        face(objective=value, **{names[0]: 3}).fit,
        *DATA[face],
    )


def test_an_objective_has_no_parameters_of_another_nor_of_another_face():
    refused("max_depth", Hinge, max_depth=3)
    refused("objective is Pairwise", StructBoostClassifier(Pairwise()).fit, X, Y)
    for grid in ({"C": [5.0]}, {"objective__C": [5.0]}, {"objective": [Hinge(C=5.0, tol=0.1)]}):
        search = GridSearchCV(StructBoostClassifier("hinge", max_iter=3), grid, cv=2)
        assert search.fit(X, Y).best_estimator_.C_ == 5.0


def test_only_the_hinge_reads_the_loss_of_a_ranker():
    for loss in ("map", "ndcg", "capped_recall@3"):
        refused(
            f"loss is {loss!r}.*objective='hinge', loss={loss!r}",
            StructBoostRanker(loss=loss).fit,
            X,
            Y > 0,
        )
        for objective in ("hinge", "svm"):
            quick(StructBoostRanker, objective, loss=loss).fit(X, Y > 0)


@pytest.mark.parametrize("face", DATA)
def test_weak_learners_change_parameters_but_not_the_objective(face):
    objective = OBJECTIVES[face][0]
    for name in STEPS - {"learning_rate"}:
        message = f"{name} is .*objective={objective!r} with weak_learner='stump' does not read"
        refused(message, face(weak_learner="stump", **{name: OTHERS[name]}).fit, *DATA[face])
    model = face(weak_learner="stump", learning_rate=0.3, max_iter=3).fit(*DATA[face])
    assert model._summary().startswith(f"minimised {objective} over stump")
    assert model.history_[0]["columns"] == sum(k.n_channels for k in model.model_.kinds.values())
    refused(
        "weak_learner is 'stump', and objective='svm' fits one",
        face(objective="svm", weak_learner="stump").fit,
        *DATA[face],
    )


@pytest.mark.slow
@pytest.mark.parametrize("face", DATA)
@pytest.mark.parametrize("name", sorted(STEPS))
def test_each_parameter_of_trees_and_steps_changes_the_model(face, name):
    objective = OBJECTIVES[face][0]
    # Sixty rows hardly ask for deep trees.
    own = {name: {"min_samples_leaf": 10, "max_depth": 1}.get(name, OTHERS[name])}
    other, same = (quick(face, objective, **own).fit(*DATA[face]) for _ in range(2))
    assert default_of(face).objective_ != other.objective_ == same.objective_


@cache
def default_of(face):
    return quick(face, OBJECTIVES[face][0]).fit(*DATA[face])
