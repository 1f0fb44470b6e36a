"""The driver of a choice by held-out data, with measurements that are made up."""

import itertools

import numpy as np
import pytest

from structboost.selection.held_out import HeldExamples, HeldOut
from structboost.selection.path import (
    FACTOR,
    MAX_STEPS,
    Path,
    Trial,
    is_better,
    is_preferred,
    upwards,
)


def made(surrogates, *, constant=(), empty=(), losses=None, scores=None, n_folds=1, ends=None):
    """A fit whose measurements at each step are given."""
    steps = itertools.count()

    def fit(value):
        i = next(steps)
        loss = 1.0 if losses is None else losses[i]
        score = None if scores is None else scores[i]
        row = surrogates[i] if isinstance(surrogates[i], list) else [surrogates[i]] * n_folds
        folds = [HeldOut(loss, own, i in constant, score) for own in row]
        return Trial(folds, {"step": i}, is_empty=i in empty, end=(ends or {}).get(i, ""))

    return fit


def followed(surrogates, **kinds):
    path = Path("C")
    n = len(kinds.get("scores") or surrogates)
    path.follow(upwards(1.0, n), made(surrogates, **kinds))
    return path


def test_upwards_multiplies_by_one_factor():
    values = list(upwards(0.1))
    assert len(values) == MAX_STEPS
    np.testing.assert_allclose(np.diff(np.log(values)), np.log(FACTOR), atol=0.005)


NO_LOSS = "no held-out loss is left"


@pytest.mark.parametrize(
    ("surrogates", "kinds", "best", "n_tried", "why"),
    [
        # Clearly worse a factor of ten beyond the best.
        ([9, 5, 6, 7, 1], {}, 1, 4, "larger than at 3.16"),
        # Worse once and then better again.
        ([9, 5, 6, 4, 5, 6, 1], {}, 3, 6, "larger than at 31.6"),
        # Flat for a factor of a hundred.
        ([9, 5, 5, 5, 5, 5, 1], {}, 1, 6, "was as good as the same"),
        # A rare feature comes in on the flat part.
        ([9, 5, 5, 5, 2, 3, 3, 1], {}, 4, 7, "larger than at 99.9"),
        # What is better by less than a percent is taken, and does not hold the path up.
        ([9, 5, 4.99, 4.98, 4.97, 4.96, 1], {}, 5, 6, "was as good as the same"),
        ([5, 4, 3, 2, 1], {}, 4, 5, "the largest C was tried"),
        # A path does not end at a constant prediction.
        ([5, 6, 7, 8, 8, 8, 3, 4, 4, 1], {"constant": range(6)}, 6, 9, "larger than at"),
        # Nor where it has no loss left, or is no model.
        ([5, 5, 5, 2], {"constant": range(3), "losses": [0] * 4}, 3, 4, NO_LOSS),
        ([1, 1, 1, 1, 5, 6, 7], {"empty": range(4)}, 4, 7, "larger than at"),
        # A constant prediction is taken where nothing is better.
        ([5, 5, 6, 7, 8, 9], {"constant": range(2)}, 0, 5, "larger than at 1"),
        # A trial may end the path.
        ([5, 4, 3, 2], {"ends": {2: "rounds"}, "constant": range(4)}, 2, 3, "rounds"),
        # A score of the user is made large, and the surrogate breaks ties.
        (
            [1, 2, 3, 4, 5], {"scores": [0.1, 0.6, 0.5, 0.4, 0.9]}, 1, 4,
            "the held-out score at C = 31.6 was smaller than at 3.16",
        ),
        ([3, 2, 4], {"scores": [0.5] * 3}, 1, 3, "was tried"),
        # No loss is left by the task's own measure, which is not what is asked for.
        ([1, 1], {"scores": [0.1, 0.2], "losses": [0, 0]}, 1, 2, "was tried"),
        # Worse on each of five folds, and clearly worse in their mean.
        ([[4.0] * 5, [2.0] * 5, [3.0] * 5, [1.0] * 5], {}, 1, 3, "on every fold"),
        # A rise of less than one percent is no reason.
        ([[4.0] * 5, [4.03] * 5, [2.0] * 5, [3.0] * 5, [1.0] * 5], {}, 2, 4, "on every fold"),
        ([[4.0] * 5, [2.0] * 5, [*[3.0] * 4, 1.9], [1.0] * 5], {}, 1, 3, "larger than at"),
        # Hardly worse in the mean, and better on one; so few agree by chance.
        (
            [[4.0] * 5, [2.0] * 5, [*[2.01] * 4, 1.97], [1.9, *[2.5] * 4], [1.0] * 5], {}, 1, 4,
            "larger than at",
        ),
        ([[4.0] * 3, [2.0] * 3, [3.0] * 3, [2.5] * 3, [1.0] * 3], {}, 1, 4, "larger than at"),
    ],
)  # fmt: skip
def test_a_path_ends_where_it_is_worse_or_long_flat(surrogates, kinds, best, n_tried, why):
    path = followed(surrogates, **kinds)
    assert [record["step"] for record in path.records] == list(range(n_tried))
    assert path.best is path.records[best]
    assert path.value == path.records[best]["C"]
    assert why in path.end


def test_path_tries_at_least_as_many_values_as_asked():
    path = Path("C")
    path.follow(upwards(1.0), made([1, 5, 5, 5, 5, 5]), at_least=4)
    assert len(path.records) == 4
    assert path.value == 1.0
    assert "larger than at 1" in path.end


def test_a_path_goes_on_downwards_from_what_is_best():
    path = Path("C")
    at = {1.0: 5.0, 3.0: 6.0, 10.0: 7.0, 0.3: 4.0, 0.1: 4.5, 0.03: 4.6, 0.01: 1.0}

    def fit(value):
        return Trial([HeldOut(1.0, at[value], is_constant=False)])

    path.follow((1.0, 3.0, 10.0, 30.0), fit)
    path.follow((0.3, 0.1, 0.03, 0.01), fit, direction="smallest")
    assert [record["C"] for record in path.records] == [1.0, 3.0, 10.0, 0.3, 0.1, 0.03]
    assert path.value == 0.3


def test_path_keeps_the_records_before_ctrl_c():
    path, told = Path("C"), []
    fit = made([3, 2, 1])

    def broken(value):
        if value > 4:
            raise KeyboardInterrupt
        return fit(value)

    with pytest.raises(KeyboardInterrupt):
        path.follow(upwards(1.0), broken, told.append)
    assert [record["surrogate"] for record in path.records] == [3, 2]
    assert told == path.records
    assert path.value == 3.16


def test_records_are_means_over_folds():
    trial = Trial([HeldOut(1.0, 2.0, True, 0.5), HeldOut(2.0, 4.0, False, 0.7)], {"rounds": 3})
    assert trial.record() == {
        "loss": 1.5, "losses": [1.0, 2.0], "surrogate": 3.0, "surrogates": [2.0, 4.0],
        "is_constant": False, "is_empty": False, "score": pytest.approx(0.6),
        "scores": [0.5, 0.7], "rounds": 3,
    }  # fmt: skip


@pytest.mark.parametrize(("by", "better"), [(0.0, True), (0.05, True), (0.2, False)])
def test_is_better_compares_by_a_relative_margin(by, better):
    own = {"surrogate": 0.9, "is_empty": False}
    other = {"surrogate": 1.0, "is_empty": False}
    assert is_better(own, other, by) == better
    scored = own | {"score": -0.9}, other | {"score": -1.0}
    assert is_better(*scored, by) == better


def measured(surrogates, losses, *, counts=1, constant=False):
    """A trial of one fold with values of its held-out examples, each of several equal rows."""
    surrogates, losses = np.asarray(surrogates, float), np.asarray(losses, float)
    counts = np.full(len(losses), counts)
    examples = HeldExamples(losses, surrogates, counts.astype(float), counts)
    return Trial([HeldOut(losses.mean(), surrogates.mean(), constant, examples=examples)])


# Examples that differ by either sign: 100 of them have a standard error of .02.
VARIED = 0.2 * np.resize([1.0, -1.0], 100)
NONE, SOME = np.zeros(100), np.arange(100) < 20


@pytest.mark.parametrize(
    ("lead", "losses", "preferred"),
    [
        (0.05, SOME, True),  # clearly better
        (0.003, SOME, False),  # within the noise, with the same loss
        (-0.003, NONE, True),  # within the noise, with clearly fewer losses
        (0.003, np.arange(100) < 19, False),  # one example less is no evidence
        (0.05, np.arange(100) < 21, True),  # nor is one more
        (0.05, np.arange(100) < 60, False),  # better, with clearly more losses
        (-0.05, NONE, False),  # clearly worse
    ],
)
def test_a_value_is_preferred_on_what_is_known(lead, losses, preferred):
    earlier = measured(np.ones(100), SOME)
    assert is_preferred(measured(1.0 - lead + VARIED, losses), earlier) == preferred


@pytest.mark.parametrize(("excess", "n_tried"), [(0.04, 3), (0.065, 2)])
def test_a_mean_that_is_worse_by_noise_does_not_end_a_path_at_once(excess, n_tried):
    # One of five folds is better.  The means differ by 1.5 and 2.5 standard errors.
    folds = [-0.01, *[excess] * 4]
    worse = [measured(1.0 + by + VARIED[:20], SOME[:20]).folds[0] for by in folds]
    trials = iter([measured(np.ones(20), SOME[:20]).folds * 5, worse, worse, worse])
    path = Path("C")
    path.follow(upwards(1.0), lambda C: Trial(next(trials)))
    assert [len(path.records), path.value] == [n_tried, 1.0]


def test_losses_do_not_decide_between_a_constant_prediction_and_another():
    constant = measured(np.ones(100), NONE, constant=True)
    assert is_preferred(measured(0.95 + VARIED, SOME), constant)
    assert not is_preferred(
        measured(1.0 + VARIED, NONE, constant=True), measured(np.ones(100), SOME)
    )


def test_equal_rows_count_one_by_one():
    earlier, later = np.ones(4), 0.98 + 0.2 * np.array([1.0, -1.0, 1.0, -1.0])
    for counts, preferred in ((1, False), (100, True)):
        trials = [measured(values, np.zeros(4), counts=counts) for values in (earlier, later)]
        assert is_preferred(*trials[::-1]) == preferred


@pytest.mark.parametrize("seed", range(5))
def test_last_bits_do_not_decide_which_value_is_best(seed):
    random = np.random.default_rng(seed)
    surrogates, losses = random.random(200), random.random(200) < 0.3

    def chosen(noise):
        trials = iter(
            measured(surrogates * (1.0 + noise * random.normal(size=200)), losses) for _ in range(4)
        )
        path = Path("C")
        path.follow(upwards(1.0, 4), lambda value: next(trials))
        return path.value

    assert {chosen(noise) for noise in (0.0, 1e-15, 1e-9, 1e-4)} == {1.0}
