"""A fitted face says what it minimised, what it chose and why it ended: in words, everywhere."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from structboost import StructBoostClassifier, StructBoostRanker, StructBoostTagger
from structboost.faces.recipe import Fitted, warn_of_few_rounds
from structboost.training.history import ENDINGS
from tests.helpers.four_faces import DATA, X, Y

pytestmark = pytest.mark.filterwarnings("ignore")

FITS = [
    (face, parameters)
    for face in DATA
    for parameters in (
        {"max_iter": 25},
        {"objective": "hinge", "C": 5.0},
        {"objective": "hinge", "C": 50.0, "max_iter": 2},
        {"objective": "svm", "C": 5.0},
        {"early_stopping": True, "n_iter_no_change": 3},
        {"callbacks": [lambda record, _: record["round"] == 2]},
    )
]


@pytest.mark.slow
@pytest.mark.parametrize(("face", "parameters"), FITS)
def test_a_fit_says_why_it_ended_and_what_it_chose(face, parameters, capsys, reloaded):
    model = face(random_state=0, verbose=1, **parameters).fit(*DATA[face])
    sentence = f"ended because {ENDINGS[model.ending_]}"
    lines = capsys.readouterr().err
    page = model._repr_html_()
    for text in (model.ending_text_, repr(model), page.replace("&#x27;", "'"), lines):
        assert sentence in text
    assert f"{model.minimised_}" in lines
    assert not {"one_slack", "StageWise"} & set(lines.split())
    assert repr(reloaded(model)).split("# ")[1] == repr(model).split("# ")[1]
    if "objective" not in parameters:
        chosen = f"max_features {model.max_features_:.3g}"
        assert chosen in repr(model)
        assert chosen in page
        is_scaled = face is not StructBoostRanker
        assert (model.temperature_ is not None) == ("temperature" in repr(model)) == is_scaled


def test_every_way_to_end_has_its_word():
    X_few, y_few = X[:60], Y[:60]
    words = {
        "gap": {"objective": "hinge", "C": 5.0},
        "max_rounds": {"max_iter": 2},
        "callback": {"callbacks": [lambda record, _: True]},
        "held_out": {"early_stopping": True, "n_iter_no_change": 1},
    }
    for word, parameters in words.items():
        model = StructBoostClassifier(random_state=0, **parameters).fit(X_few, y_few)
        assert model.ending_ == word


@pytest.mark.parametrize("face", [f for f in DATA if f is not StructBoostRanker])
def test_the_history_has_the_loss_of_the_rows_that_rounds_left_out(face):
    model = face(max_iter=45, random_state=0).fit(*DATA[face])
    found = [entry["held_out_loss"] for entry in model.history_]
    looked = [i + 1 for i, loss in enumerate(found) if loss is not None]
    assert looked == [20, 40]
    assert all(0 < loss < 2 for loss in found if loss is not None)


@pytest.mark.slow
@pytest.mark.parametrize("face", DATA)
@pytest.mark.parametrize("parameters", [{}, {"objective": "hinge", "C": 20.0}])
def test_the_history_has_the_loss_of_the_part_that_was_held_out(face, parameters):
    model = face(
        early_stopping=True,
        n_iter_no_change=3,
        random_state=0,
        validation_fraction=0.3,
        **parameters,
    ).fit(*DATA[face])
    found = [entry["held_out_loss"] for entry in model.history_]
    assert found == model.validation_losses_[: len(found)]
    assert len(found) >= model.n_iter_
    if parameters:  # the model and its certificate are those of the best round
        losses = model.validation_losses_
        assert model.n_iter_ == len(found) == np.argmin(losses) + 1 >= len(losses) - 3
        assert model.objective_ == model.history_[-1]["primal"]


def fit_of_falling_losses(losses, ending="max_rounds"):
    """A fit whose history has these held-out losses, a round every 20."""
    history = [
        {"round": n, "held_out_loss": losses[n // 20 - 1] if n % 20 == 0 else None}
        for n in range(1, 20 * len(losses) + 1)
    ]
    return Fitted(None, history, 0.0, 1.0, ending)


@pytest.mark.filterwarnings("error")
def test_the_default_number_of_rounds_warns_where_the_held_out_loss_still_falls():
    falling = 0.5 * 0.98 ** np.arange(10)
    with pytest.warns(ConvergenceWarning, match=r"after 200 rounds.*10 %.*such as max_iter=400"):
        warn_of_few_rounds(fit_of_falling_losses(falling))
    # A number that was asked for, a loss that rises, or that fell long ago or by little.
    assert not StructBoostClassifier(max_iter=200)._recipe().is_default_end
    for losses in (
        falling[::-1],
        np.append(falling, falling[-1]),
        np.full(10, 0.5),
        0.5 * 0.995 ** np.arange(10),
    ):
        warn_of_few_rounds(fit_of_falling_losses(losses))
    warn_of_few_rounds(fit_of_falling_losses(falling, "held_out"))


def test_a_default_fit_that_ends_too_early_warns_with_the_remedy(monkeypatch):
    monkeypatch.setattr("structboost.faces.stage_wise._MOST_ROUNDS_THAT_END", 200)
    monkeypatch.setattr("structboost.faces.recipe._STILL_FALLING", {100: 0.001, 20: 0.001})
    signs = np.random.default_rng(0).normal(size=(1500, 10))
    product = (signs[:, :3].prod(axis=1) > 0).astype(int)
    model = StructBoostClassifier(max_features=1.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"200 rounds, the default.*max_iter=400") as told:
        model.fit(signs, product)
    assert model.ending_ == "max_rounds"
    assert told[-1].filename == __file__


@pytest.mark.parametrize(
    ("parameters", "learner"),
    [
        ({}, "linear"),
        ({"objective": "hinge", "C": 10.0}, "stump"),
        ({"weak_learner": "stump", "max_iter": 2}, "stump"),
    ],
    ids=str,
)
def test_a_tagger_of_names_calls_its_learners_as_the_parameters_do(parameters, learner):
    X = [[{"word": "a", "size": [1.0, 2.0]}, {"word": "b", "size": [0.0, 1.0]}]] * 6
    tagger = StructBoostTagger(**parameters).fit(X, [["x", "y"]] * 6)
    assert tagger.learner_ == learner
    assert f" over {learner}, " in repr(tagger)
