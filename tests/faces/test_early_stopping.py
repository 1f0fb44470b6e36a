"""Early stopping of every face: a coarse score does not end it at once, and what it does not read
is refused."""

from functools import partial

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer

from structboost import (
    EarlyStopping,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
)
from structboost.errors import InterruptedFitWarning
from tests.helpers.four_faces import CODED, DATA, X, Y
from tests.helpers.refusals import refused

pytestmark = pytest.mark.filterwarnings("ignore")


def coarse(estimator, X, y):
    """A score that is the same for every model, as an accuracy is for the first ones."""
    estimator.predict(X)
    return 0.5


@pytest.mark.slow
@pytest.mark.parametrize("face", DATA)
@pytest.mark.parametrize("objective", ["default", "hinge"])
def test_a_score_that_does_not_change_does_not_end_training_at_once(face, objective):
    own = {"objective": "hinge", "C": 100.0, "tol": 1e-4} if objective == "hinge" else {}
    parameters = {
        "early_stopping": True, "n_iter_no_change": 3, "validation_fraction": 0.3,
        "random_state": 2, "max_iter": 80, **own,
    }  # fmt: skip
    model = face(scoring=coarse, **parameters).fit(*DATA[face])
    assert set(model.validation_losses_) == {-0.5}
    assert len(model.validation_losses_) > 4
    if objective == "default" and face is not StructBoostRanker:
        # The surrogate is the loss that is watched where no score is given.
        assert model.n_iter_ == face(**parameters).fit(*DATA[face]).n_iter_


@pytest.mark.parametrize("face", [*DATA, *CODED])
def test_what_only_early_stopping_reads_is_refused_or_warned_of_without_it(face):
    data = DATA.get(face, (X, Y))
    with pytest.raises(ValueError, match=r"^validation_fraction is 0.2.*early_stopping=True, too"):
        face(validation_fraction=0.2).fit(*data)
    rounds = {"max_rounds" if face in CODED else "max_iter": 2}
    with pytest.warns(
        UserWarning, match=r"^n_iter_no_change is 5.*early_stopping=True, too"
    ) as told:
        face(n_iter_no_change=5, **rounds).fit(*data)
    assert told[0].filename == __file__


NAMES = np.array(["oak", "ash", "elm"])[Y].tolist()
TREES = {"tree": ["oak", "ash"], "bush": ["elm"]}


@pytest.mark.parametrize(
    ("make", "inputs", "outputs", "new"),
    [
        (partial(StructBoostClassifier, taxonomy=TREES), X, NAMES, "yew"),
        (StructBoostMultiLabelClassifier, X, [[one, "tree"] for one in NAMES], ["yew"]),
        (partial(StructBoostMultiLabelClassifier, hierarchy=TREES), X, [*zip(NAMES)], ["yew"]),
        (StructBoostTagger, X.reshape(len(X), 1, 3), [*zip(NAMES)], ["yew"]),
    ],
)  # fmt: skip
def test_held_out_labels_and_columns_that_training_lacks_are_named(make, inputs, outputs, new):
    def score(model, *_):
        return float(model.early_stopping is False)  # as the user gave it

    fit = partial(make(max_iter=2, scoring=score).fit, inputs, outputs)
    assert fit(eval_set=(inputs[:9], outputs[:9])).validation_losses_ == [-1.0, -1.0]
    refused(r"^eval_set: y has .*yew", fit, eval_set=(inputs[:9], [new, *outputs[1:9]]))
    if inputs is X:
        frame = pandas.DataFrame(X).rename(columns="x{}".format)
        held = frame.rename(columns={"x0": "z"}), outputs
        refused(r"^eval_set: .*X lacks \['x0'\]", make().fit, frame, outputs, eval_set=held)


def test_what_a_fit_with_held_out_examples_of_the_user_does_not_read_is_refused():
    fit = partial(StructBoostClassifier(validation_fraction=0.2).fit, X, Y)
    refused("^validation_fraction is 0.2.*eval_set", fit, eval_set=(X, Y))
    watching = StructBoostClassifier(callbacks=[EarlyStopping(X, Y)])
    refused(r"callbacks has an EarlyStopping.*eval_set=\(X_val", watching.fit, X, Y)
    fit = partial(StructBoostTagger().fit, *DATA[StructBoostTagger], groups=np.arange(30))
    refused("^groups is set", fit, eval_set=DATA[StructBoostTagger])
    refused(r"^eval_set is .* give \(X, y\) of", StructBoostClassifier().fit, X, Y, eval_set=[X])
    ranker = partial(StructBoostRanker().fit, *DATA[StructBoostRanker])
    refused(r"^eval_set is .* give \(X, y, qid\)", ranker, eval_set=(X, Y))
    refused("eval_set: y has one level", ranker, eval_set=(X, 0 * Y, Y))
    refused("^eval_set: y has", StructBoostClassifier().fit, X, 0 * Y, eval_set=(X, 0 * Y + 9))


def test_held_out_examples_of_the_user_weigh_as_the_classes_of_training():
    rare = np.flatnonzero(Y == 0)[:3], np.flatnonzero(Y == 1)
    rows, model = np.concatenate(rare), StructBoostClassifier(max_iter=2, class_weight="balanced")
    weights = len(rows) / (2.0 * np.array([len(of) for of in rare]))
    given = clone(model).set_params(class_weight=dict(enumerate(weights)))
    held = X[Y < 2], Y[Y < 2]
    losses = [of.fit(X[rows], Y[rows], eval_set=held).validation_losses_ for of in (model, given)]
    assert losses[0] == losses[1]


@pytest.mark.slow
def test_ctrl_c_keeps_the_best_round_of_held_out_rows_until_all_rows_are_trained_on():
    rows, labels = load_breast_cancer(return_X_y=True)

    def interrupted(at):
        calls = []

        def press(record, fitted):
            calls.append(record)
            if len(calls) == at:
                raise KeyboardInterrupt

        settings = {"early_stopping": True, "n_iter_no_change": 3, "random_state": 0}
        model = StructBoostClassifier(learning_rate=0.5, callbacks=[press], **settings)
        return model.fit(rows, labels), len(calls)

    whole, n_calls = interrupted(at=0)
    assert whole.ending_ == "held_out"
    n_held_out = n_calls - whole.n_iter_
    first, _ = interrupted(at=n_held_out - 1)
    assert (first.ending_, first.n_iter_) == ("interrupted", whole.n_iter_)
    for at in (n_held_out + 1, n_calls - 1):
        with pytest.warns(InterruptedFitWarning) as told:
            second, _ = interrupted(at)
        assert [str(one.message) for one in told] == [
            "Training on all rows was interrupted; the model is that of the rows that were not "
            "held out."
        ]
        assert (second.ending_, second.n_iter_) == ("interrupted", whole.n_iter_)
        np.testing.assert_array_equal(second.decision_function(rows), first.decision_function(rows))
