"""Bad parameters and bad input: each error names the argument, the sample and the remedy."""

import re
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal

from structboost import (
    BinaryTask,
    CrossFitted,
    MultiBoostCWClassifier,
    MulticlassTask,
    PartKind,
    PredictThenOptimize,
    RankingTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
    StructuredSVM,
    StructuredSVMClassifier,
    faces,
    validation,
)
from structboost.learners.binning import bin_features
from structboost.objectives import StageWiseLikelihood, StageWiseRandomField, StageWiseRanking
from structboost.objectives.base import FORMULATIONS, formulation_of
from structboost.objectives.hinge import OneSlack
from structboost.objectives.stage_wise import StageWise
from structboost.runtime import memory
from structboost.segmentation.crf import CRFSettings
from structboost.segmentation.segmenter import Segmenter
from structboost.segmentation.unaries import UnarySettings
from structboost.text.token_features import TokenFeatures
from structboost.text.two_stage_tagger import TwoStageTagger
from structboost.validation import checked_example_weights, checked_whole_number, shown
from tests.helpers.choose import Choose
from tests.helpers.refusals import refused

# Without those of sets and of one linear function.
NAMES = "(Ada|Multi|Share|Struct)Boost[A-Z]*Classifier"
BOOSTED = [getattr(faces, name) for name in faces.__all__ if re.fullmatch(NAMES, name)]
CLASSIFIERS = [*BOOSTED, StructuredSVMClassifier]
ESTIMATORS = [*CLASSIFIERS, StructBoostRanker]

X = default_rng(0).normal(size=(30, 3))
y = np.tile([0, 1, 2], 10)


def boosted_trainer(**parameters):
    return StructBoost(MulticlassTask(3), **{"C": 1.0, **parameters})


def linear_trainer(**parameters):
    return StructuredSVM(MulticlassTask(3), **parameters)


# -- parameters --------------------------------------------------------------------------------

NAN, INF = float("nan"), float("inf")
# Values that are refused, by the type of the error.
WHOLE_NUMBERS = {ValueError: [2.0, NAN, INF, 0], TypeError: [None, True, "x"]}
GAPS = {ValueError: [1.0, 7, NAN], TypeError: [None, "x", True]}
COSTS = {ValueError: [10**400, 10**9000, NAN, -1, 0], TypeError: [None, "1"]}
ODD = [None, True, "x", [1], 0.5, 2.0, 7, -1, 0, 10**400, NAN, INF]


def refused_by(check, name):
    """Return the odd values that a check refuses."""
    refused = {TypeError: [], ValueError: []}
    for value in ODD:
        try:
            check(value, name)
        except (TypeError, ValueError) as error:
            refused[type(error)].append(value)
    return refused


DECLARED = {name: refused_by(check, name) for name, check in validation.PARAMETERS.items()}
COUNTS = "max_rounds max_iter max_epochs columns_per_channel n_iter_no_change tau_max"
RULES = {
    **DECLARED,
    **dict.fromkeys(COUNTS.split(), WHOLE_NUMBERS),
    "tol": GAPS,
    "C": {**COSTS, TypeError: ["1"]},
    "theta": {**COSTS, TypeError: [None]},
    "callbacks": {TypeError: [5, [None]]},
    "weak_learner": {TypeError: [len, lambda *parts, **options: {}], ValueError: [3]},
    "class_weight": {
        ValueError: [{0: NAN}, {0: INF}, {1: -1}, {1: 10**400}],
        TypeError: [{1: "2"}, [1, 2], "even"],
    },
    "checkpoint": {ValueError: [""], TypeError: [5]},
}


OF_OBJECTIVES = [StructBoostClassifier, StructBoostRanker]


def hinge(make, **parameters):
    """An estimator that minimises the hinge, where its objective is a parameter."""
    own = {"objective": "hinge"} if make in OF_OBJECTIVES else {}
    return make(**own, **parameters)


MAKERS = [*ESTIMATORS, boosted_trainer, linear_trainer]
# Those that read no table check what is declared before they read anything, and plug-ins do so.
FURTHER = [
    Segmenter, StructBoostTagger, StructBoostMultiLabelClassifier, TokenFeatures,
    partial(TwoStageTagger, None), partial(CrossFitted, None), partial(PredictThenOptimize, None),
    StageWise, StageWiseLikelihood, StageWiseRandomField, StageWiseRanking,
    UnarySettings, CRFSettings,
    *(type(formulation_of(name)) for name in FORMULATIONS),
]  # fmt: skip
PARAMETERS = [(make, name) for make in MAKERS for name in RULES if hasattr(make(), name)]
PARAMETERS += [(make, name) for make in FURTHER for name in DECLARED if hasattr(make(), name)]


@pytest.mark.parametrize(("make", "name"), PARAMETERS)
def test_parameter_out_of_range_raises_an_error_that_names_it(make, name):
    def call(value):
        made = hinge(make, **{name: value})
        made.fit(X, y) if hasattr(made, "fit") else made.check()

    is_optional = getattr(make(), name) is None or name in getattr(make, "_flat_names", ())
    unset = [None] if is_optional else []
    rules = {error: [v for v in RULES[name][error] if v not in unset] for error in RULES[name]}
    assert any(rules.values())
    refuse(call, name, rules)


def test_a_path_checks_them_and_a_parameter_of_the_user_may_mean_something_else():
    refused("tol is -1; give", boosted_trainer(tol=-1).path, X, y, [1.0])
    refused("k is 9; give a whole number from 1 to 5", checked_whole_number, 9, "k", 5)

    @dataclass(frozen=True)
    class Own(OneSlack):
        window: tuple = ()

    Own(window=(3, 2)).check()
    StageWiseLikelihood(patience=None).check()


def refuse(call, name, refused):
    """Check that values are refused, with the name, what was given, and a remedy."""
    for error, values in refused.items():
        for value in values:
            with pytest.raises(error, match=rf"(?i:\b{name}\b).* (is|made) .*[;,] \w+"):
                call(value)


@pytest.mark.parametrize("make", [StructBoostClassifier, StructBoostRanker, boosted_trainer])
def test_a_spread_that_leaves_nothing_to_spread_within_is_refused(make):
    for parameters in ({"spread": 0.01}, {"spread": 0.02, "tol": 0.05}):
        refused(
            r"spread is 0\.0\d, not above tol = 0\.0\d.* raise spread, lower tol",
            hinge(make, **parameters).fit,
            X,
            y,
        )


def test_long_values_are_shown_short():
    assert shown(None) == "None"
    assert len(shown(list(range(1000)))) <= 100
    assert shown(10**9000) == "a value of type int"


def test_too_many_classes_for_memory_are_refused_before_memory_is_taken(monkeypatch):
    monkeypatch.setattr(memory, "physical_memory", lambda: 1e6)
    labels = np.arange(200) % 100
    with pytest.raises(
        MemoryError,
        match=r"100 outputs and 200 examples, take 0\.00132 GB.*use formulation='one_slack'",
    ):
        MultiBoostCWClassifier(max_rounds=1).fit(np.arange(400.0).reshape(200, 2), labels)


# -- tables --------------------------------------------------------------------------------------

FRAME = pandas.DataFrame(X, columns=["length", "width", "colour"])
BAD_COLUMNS = {
    "category": (
        pandas.Categorical(np.where(y > 0, "red", "blue")),
        "'blue' in row 0, which is no number.* encode it as numbers",
    ),
    "str": (np.where(y > 0, "red", "1"), "'1' in row 0, which is no number"),
    "numbers in text": (np.array(["1", "2.5", None] * 10, object), r"by \.astype\(float\)"),
    "object": (np.array([1, "red", None] * 10, object), "'red' in row 1, which is no number"),
    "datetime64": (
        pandas.Timestamp("2020-01-01"),
        "Timestamp.* in row 0, which is no number.* days of dates",
    ),
    "timedelta64": (pandas.Timedelta("1h"), "Timedelta.* in row 0, which is no number"),
}


def without_categories(make):
    """An estimator that takes strings and categories for what they are: no numbers."""
    takes = "categorical_features" in make().get_params()
    return make(categorical_features=None) if takes else make()


@pytest.mark.parametrize("kind", BAD_COLUMNS)
@pytest.mark.parametrize("make", ESTIMATORS)
def test_column_that_is_not_numeric_raises_an_error_that_names_it(make, kind):
    column, message = BAD_COLUMNS[kind]
    frame = FRAME.assign(colour=column)
    refused(rf"Column 'colour' of X holds .*{message}", without_categories(make).fit, frame, y)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(
    "make", [StructBoostClassifier, StructBoostRanker, StructuredSVMClassifier]
)
def test_inputs_of_predict_are_checked_like_those_of_fit(make):
    estimator = make().fit(FRAME, y)
    for column, message in BAD_COLUMNS.values():
        refused(f"Column 'colour' .*{message}", estimator.predict, FRAME.assign(colour=column))
    refused(
        r"got 1D array of strings instead(.|\n)*by sklearn.*TfidfV",
        StructBoostClassifier().fit,
        ["a text", "a book"],
        [0, 1],
    )
    refused(r"Expected 2D array, got 1D array(.|\n)*reshape\(1, -1\)", estimator.predict, X[0])


# -- labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", BOOSTED)
def test_early_stopping_names_the_label_of_which_too_few_are_held_out(make):
    labels = np.array(["pear", "plum", "quince"])[y % 2]
    labels[4] = "quince"
    refused(
        r"only one sample of class 'quince'.*early_stopping=False",
        make(early_stopping=True).fit,
        X,
        labels,
    )
    for fraction, message in ((0.05, "2 of 30 samples; .* 3"), (0.95, "29 of 30 samples")):
        refused(
            f"is {fraction}, which holds out {message}",
            make(early_stopping=True, validation_fraction=fraction).fit,
            X,
            y,
        )


RELEVANCE = {
    "strings": (np.where(y > 0, "high", "low"), "holds <U4, such as 'low'"),
    "numeric strings": (np.array(["9", "10", "11"])[y], "holds <U2, such as '9'"),
    "objects": (np.array(["9", "10", "11"])[y].astype(object), "holds object, such as '9'"),
    "numbers beyond floats": ([0.5, 2**70] * 15, "holds object, such as 0.5|give smaller ones.$"),
    "numbers as objects": (y.astype(object), "holds object, such as 0"),
    "dates": (y.astype("datetime64[D]"), "holds datetime64.*"),
}


@pytest.mark.parametrize("kind", RELEVANCE)
def test_relevance_that_is_no_numbers_is_refused(kind):
    relevance, message = RELEVANCE[kind]
    if kind == "numbers as objects":  # which the ranker reads as numbers
        with pytest.warns(UserWarning, match="qid is None, so the 30 samples are one query"):
            assert StructBoostRanker(max_iter=2).fit(X, relevance).score(X, relevance) > 0.5
    else:
        refused(rf"{message}|of type date", StructBoostRanker().fit, X, relevance)
    for make in (StructBoost, StructuredSVM):
        refused(
            rf"Y\[1\] .*{message}; give numbers, larger for better",
            make(RankingTask(), C=1.0).fit,
            [X, X],
            [y, relevance],
        )
    refused(
        rf"The relevance of a query .*{message}", RankingTask().loss, relevance, np.arange(30.0)
    )


def test_relevance_may_be_bool():
    ranker = StructBoostRanker("hinge", C=100.0, max_iter=2)
    expected = ranker.fit(X, np.where(y > 0, 7.5, -2.0)).predict(X)
    assert_array_equal(ranker.fit(X, y > 0).predict(X), expected)


def test_a_ranker_holds_out_what_it_can():
    ranker = StructBoostRanker(
        early_stopping=True, validation_fraction=0.05, max_iter=2, random_state=0
    )
    assert ranker.fit(X, y).n_iter_ >= 1


# -- weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", MAKERS)
def test_weights_whose_sum_overflows_have_exact_ratios(make):
    weights = np.where(np.arange(30) < 20, 1.0, 3.0)
    limits = {"max_epochs": 20, "max_iter": 2, "max_rounds": 2, "tol": 0.5, "random_state": 0}
    settings = {name: limits[name] for name in limits if hasattr(make(), name)}
    plain = hinge(make, **settings).fit(X, y, sample_weight=weights)
    huge = hinge(make, **settings).fit(X, y, sample_weight=np.ldexp(weights, 1021))
    assert huge.objective_ == plain.objective_ > 0
    assert_array_equal(huge.predict(X), plain.predict(X))


def test_class_weights_and_sample_weights_do_not_overflow_together():
    weights = {"class_weight": {0: 2.0**1000, 1: 2.0**1000, 2: 2.0**1002}}
    face = StructBoostClassifier("hinge", C=100.0, max_iter=2, class_weight={2: 4.0})
    plain = face.fit(X, y).objective_
    huge = face.set_params(**weights).fit(X, y, sample_weight=np.full(30, 2.0**1000))
    assert huge.objective_ == plain


def test_scaled_weights_have_the_same_ratios():
    weights = default_rng(1).random(50)
    assert_array_equal(checked_example_weights(weights, 50), weights / weights.sum())
    for scale in (2.0**-1000, 2.0**1000, 5e-324 / weights.min()):
        shares = checked_example_weights(scale * weights, 50)
        assert shares.sum() == pytest.approx(1.0)


# -- examples ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [StructBoost, StructuredSVM])
def test_one_input_where_a_list_is_wanted_is_named(make):
    tables = [X[:10], X[10:20], X[20:]]
    remedy = r"\[x\] for one input x"
    for task, inputs, outputs in (
        (Choose(), tables, [0, 1, 2]),
        (RankingTask(), tables, [y[:10], y[10:20], y[20:]]),
    ):
        trainer = make(task, C=1.0, tol=0.1).fit(inputs, outputs)
        assert len(trainer.predict(inputs[:1])) == 1
        refused(remedy, trainer.predict, inputs[0])
        for single in (3, iter(inputs)):
            refused(remedy, trainer.predict, single)
        refused(
            r"X is 3, not a sequence; .*give \[x\]|X is 3, not a sequence; give a list",
            trainer.fit,
            3,
            [0],
        )
        refused(r"Y is 3, not a sequence; .* \[y\] for one example", trainer.fit, tables, 3)
    table = make(BinaryTask(), C=1.0, tol=0.1).fit(X, np.where(y > 0, 1, -1))
    refused(r"X has shape \(3,\); .*X\[\[i\]\] for one example", table.predict, X[0])
    refused(r"X\[2\] is array.* all of one length", table.predict, [X[0], X[1], X[2, :2]])


class WithoutEdges(Choose):
    """Has a kind of which no example has a part."""

    kinds = {"x": PartKind(), "edge": PartKind(response=(0.0, 1.0))}

    def parts(self, x):
        return {"x": x, "edge": np.zeros((0, 2))}

    def joint_feature(self, x, y):
        return {"x": ([y], [0], [1.0]), "edge": np.zeros((0, 1))}

    def argmax(self, x, scores, y=None):
        return super().argmax(x, scores["x"], y)


def test_a_kind_without_parts_is_left_alone_or_named():
    tables, outputs = [X[:10], X[10:20], X[20:]], [0, 1, 2]
    trainer = StructBoost(WithoutEdges(), C=1.0)
    for name in ("stump", "tree"):
        fitted = trainer.set_params(weak_learner=name).fit(tables, outputs)
        assert len(fitted.predict(tables)) == 3
    for name in ("feature", "perceptron", "svm", "lda"):
        refused(
            f"a part of a kind that weak_learner='{name}'",
            trainer.set_params(weak_learner=name).fit,
            tables,
            outputs,
        )
    assert bin_features(np.zeros((0, 3))).codes.shape == (3, 0)
