"""Early stopping of every face: a coarse score does not end it at once, and what it does not read
is refused."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from structboost import (
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
)
from structboost.errors import InterruptedFitWarning
from tests.helpers.four_faces import CODED

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(0)
N = 400
X = RNG.normal(size=(N, 4))
RARE = ((X[:, 0] + X[:, 1] > 0.7) & (RNG.random(N) < 0.8)).astype(int)
THREE = RARE + 2 * (X[:, 2] > 1.5) * (1 - RARE)
DATA = {
    StructBoostClassifier: (X, RARE),
    StructBoostRanker: (X, RARE, np.repeat(np.arange(20), 20)),
    StructBoostTagger: (np.split(X, 100), np.split(RARE, 100)),
    StructBoostMultiLabelClassifier: (X, np.column_stack((RARE, THREE == 2)).astype(int)),
}


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
        "random_state": 0, "max_iter": 80, **own,
    }  # fmt: skip
    model = face(scoring=coarse, **parameters).fit(*DATA[face])
    assert set(model.validation_losses_) == {-0.5}
    assert len(model.validation_losses_) > 4
    if objective == "default" and face is not StructBoostRanker:
        # The surrogate is the loss that is watched where no score is given.
        assert model.n_iter_ == face(**parameters).fit(*DATA[face]).n_iter_


@pytest.mark.parametrize("face", [*DATA, *CODED])
def test_what_only_early_stopping_reads_is_refused_or_warned_of_without_it(face):
    data = DATA.get(face, (X, THREE))
    with pytest.raises(ValueError, match=r"^validation_fraction is 0.2.*early_stopping=True, too"):
        face(validation_fraction=0.2).fit(*data)
    rounds = {"max_rounds" if face in CODED else "max_iter": 2}
    with pytest.warns(
        UserWarning, match=r"^n_iter_no_change is 5.*early_stopping=True, too"
    ) as told:
        face(n_iter_no_change=5, **rounds).fit(*data)
    assert told[0].filename == __file__


@pytest.mark.slow
def test_ctrl_c_keeps_the_best_round_of_held_out_rows_until_all_rows_are_trained_on():
    rows, labels = load_breast_cancer(return_X_y=True)

    def interrupted(at):
        calls = []

        def press(record, fitted):
            calls.append(record)
            if len(calls) == at:
                raise KeyboardInterrupt

        settings = {"early_stopping": True, "n_iter_no_change": 5, "random_state": 0}
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
