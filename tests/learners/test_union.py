"""Linear functions of bounded norm, and unions of families: pricing, bounds, files, shapes."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng
from sklearn.datasets import load_wine

from structboost import MultiBoostCWClassifier, MulticlassTask, StructBoost, StructBoostClassifier
from structboost.learners.linear_function import LinearFunctionFamily
from structboost.learners.registry import alternatives
from structboost.learners.stump import CategoryFamily, StumpFamily
from structboost.learners.table import StumpTable
from structboost.learners.tree import TreeFamily
from structboost.learners.union import UnionFamily, UnionTable
from tests.helpers.problems import all_stumps, class_margins, full_optimum
from tests.helpers.refusals import refused
from tests.training.test_engines import ChainTask, problem

WINE = load_wine(return_X_y=True)
ONES = np.ones(4)


def made(seed, n=40, n_features=3):
    rng = default_rng(seed)
    X = rng.normal(size=(n, n_features)) * [1e-3, 1.0, 1e4] + [0.0, 50.0, 1e5]
    return X, rng.normal(size=(n, 2))


@given(st.integers(0, 999), st.sampled_from([(-1.0, 1.0), (0.0, 1.0)]))
def test_no_function_in_the_ball_has_a_larger_edge(seed, response):
    X, duals = made(seed)
    X = X if response[0] < 0 else np.abs(X)
    family = LinearFunctionFamily(X, response)
    found = family.price(duals, 3)
    others = default_rng(seed).normal(size=(300, family.standardisation.width))
    others = others if response[0] < 0 else np.abs(others)
    others *= family.radius / np.linalg.norm(others, axis=1, keepdims=True)
    edges = others @ family.standardisation.rows(X).T @ duals
    for candidate in found:
        coefficients = candidate.learner.coefficients
        assert np.linalg.norm(coefficients) == pytest.approx(family.radius)
        own = duals[:, candidate.channel]
        answers = family.responses([candidate.learner])[0]
        size = np.abs(answers * own).sum()
        assert answers @ own == pytest.approx(candidate.edge, abs=1e-6 * size)
        assert edges[:, candidate.channel].max() <= candidate.edge
        if response[0] >= 0:
            assert min(*coefficients, *answers) >= 0


@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_features_beyond_all_coefficients_are_named(scale):
    X = np.column_stack((np.ones(9), scale * np.arange(9)))
    refused(r"Feature 1 of X has values up to .*; scale the feature", LinearFunctionFamily, X)


@pytest.mark.filterwarnings("error")
def test_constant_features_kinds_without_parts_and_other_types_do_no_harm():
    X, duals = made(0)
    for table in (X.astype(np.float32), np.rint(X).astype(np.int8)):
        LinearFunctionFamily(table)
    plain = LinearFunctionFamily(X, (-1.0, 1.0)).price(duals, 1)
    X = np.column_stack((X, np.full(len(X), 0.1)))
    family = LinearFunctionFamily(X, (-1.0, 1.0))
    beside = family.price(duals, 1)
    assert [c.edge for c in beside] == pytest.approx([c.edge for c in plain])
    assert family.table([beside[0].learner]).coefficients[0, -1] == 0.0
    nothing = LinearFunctionFamily(np.zeros((0, 2)), (-1.0, 1.0))
    assert nothing.price(np.zeros((0, 2)), 1)[0].edge == 0.0


@pytest.mark.parametrize("n_rows", [300, 3000])
def test_the_radius_follows_the_dimension_of_the_features(n_rows):
    rng = default_rng(0)
    independent = rng.normal(size=(n_rows, 60)) * np.logspace(-3, 3, 60) + 5.0
    # Each feature ten times over, with noise that hardly tells copies apart.
    copies = np.repeat(independent[:, :6], 10, axis=1)
    copies += 1e-3 * copies.std(axis=0) * rng.normal(size=copies.shape)
    # Four equal features and three others: eigenvalues 4, 1, 1, 1.
    equal = np.tile(rng.normal(size=(n_rows, 1)), 4)
    mixed = np.column_stack((equal, rng.normal(size=(n_rows, 3))))
    for features, dimension, within in (
        (independent, 60, 0.05),
        (copies, 6, 0.05),
        (np.column_stack((copies, np.full(n_rows, 0.1))), 6, 0.05),
        (mixed, 49 / 19, 0.2),
        # More features than rows: products of rows say the same.
        (rng.normal(size=(40, 200)), 160, 0.25),
    ):
        family = LinearFunctionFamily(features)
        assert family.standardisation.dimension == pytest.approx(dimension, rel=within)
        assert family.radius == pytest.approx(min(3.0, 10 / dimension), rel=2 * within)
    # Few features have the largest radius.
    assert LinearFunctionFamily(independent[:, :3]).radius == 3.0


@pytest.mark.slow
@pytest.mark.parametrize("formulation", ["one_slack", "m_slack"])
def test_objective_and_bound_are_those_of_an_independent_solver(formulation):
    """A program over all stumps and 2,000 linear functions of all directions."""
    C, rng = 10.0, default_rng(0)
    X = rng.normal(size=(16, 2))
    y = (X @ [1.0, -0.5] > 0).astype(int) + (np.abs(X[:, 1]) > 0.8)
    family = LinearFunctionFamily(X)
    directions = rng.normal(size=(2000, 3))
    directions *= family.radius / np.linalg.norm(directions, axis=1, keepdims=True)
    learners = np.vstack((all_stumps(X), directions @ family.standardisation.rows(X).T))
    margins, examples = class_margins(learners, y)
    best = full_optimum(margins, 1, examples, np.full(16, C / 16))
    trainer = StructBoost(
        MulticlassTask(3), C=C, tol=1e-4, max_rounds=300, exact=True,
        weak_learner=["linear", "stump"], formulation=formulation,
    ).fit(X, y)  # fmt: skip
    last = trainer.history_[-1]
    assert last["gap"] <= 1e-4
    assert last["bound"] <= best * (1 + 1e-7)
    assert last["primal"] == pytest.approx(best, rel=0.01)
    # Both members are in use, or the test would be one of either alone.
    assert {0, 1} == set(trainer.model_.members["x"].learners.member.tolist())


def test_a_union_has_what_all_of_its_members_have_and_the_best_of_each():
    X, duals = made(5)
    stumps = StumpFamily(X, (-1.0, 1.0))
    union = UnionFamily([LinearFunctionFamily(X), stumps])
    assert (union.exact_pricing, union.can_resume, union.name) == (True, True, "linear+stump")
    assert not UnionFamily([stumps, TreeFamily(X, (-1.0, 1.0))]).exact_pricing
    # Largest norms of all members come first, and no more than were asked for.
    both = UnionFamily([stumps, StumpFamily(-X, (-1.0, 1.0))])
    norms = [np.abs(edges).sum() for ((_, edges),) in both.price_groups(duals, 3)]
    assert len(norms) == 3
    assert norms == sorted(norms, reverse=True)
    assert norms[0] == max(np.abs(f.price_groups(duals, 1)[0][0][1]).sum() for f in both.members)


def test_each_family_of_a_union_is_an_alternative_to_it():
    assert alternatives("stump") == ["stump"]
    assert alternatives(["linear"]) == [["linear"]]
    union = ["linear", "stump", TreeFamily]
    assert alternatives(union) == [union, ["linear"], ["stump"], [TreeFamily]]
    sets = partial(CategoryFamily, categorical=[0])
    assert alternatives(["stump", sets]) == [["stump", sets]]
    assert alternatives(["linear", "stump", sets])[1:] == [["linear"], ["stump", sets]]
    by_kind = {"token": ["linear", "stump"], "link": "stump", "pair": "tree"}
    assert alternatives(by_kind) == [
        by_kind,
        {"token": ["linear"], "link": "stump", "pair": "tree"},
        {"token": ["stump"], "link": ["stump"], "pair": "tree"},
    ]
    one_each = {"token": "linear", "link": "stump"}
    assert alternatives(one_each) == [one_each]


@pytest.mark.slow
def test_each_kind_has_its_own():
    _, inputs, outputs = problem("chain")
    inputs, outputs = inputs[:25], outputs[:25]
    by_kind = {"token": ["linear", "stump"], "link": "linear"}
    trainer = StructBoost(ChainTask(), C=10.0, tol=0.05, weak_learner=by_kind).fit(inputs, outputs)
    families = {kind: member.family for kind, member in trainer.model_.members.items()}
    assert families == {"token": "linear+stump", "link": "linear"}
    assert trainer.history_[-1]["certified"]
    # Where scores must not be negative, neither are linear functions.
    assert (trainer.model_.compile("link").coefficients >= 0).all()
    refused(
        r"for the kinds \['token'\], but the task has",
        StructBoost(ChainTask(), C=1.0, weak_learner={"token": "stump"}).fit,
        inputs,
        outputs,
    )


def test_negative_features_are_refused_where_scores_must_not_be_negative():
    class Signed(ChainTask):
        def parts(self, x):
            return {"token": x, "link": np.diff(x, axis=0)}

    _, inputs, outputs = problem("chain")
    refused(
        r"Feature 0 .* must not be negative is negative",
        StructBoost(Signed(), C=1.0, weak_learner="linear").fit,
        inputs,
        outputs,
    )


@pytest.mark.parametrize("weak_learner", [[], ["stump", "stump"], ["linear", 3], [["stump"]]])
def test_lists_that_are_no_union(weak_learner):
    message = "name at least one family, and none twice|choose one of"
    refused(message, StructBoostClassifier("hinge", weak_learner=weak_learner).fit, *WINE)


def test_the_exponential_loss_takes_linear_functions_by_quasi_newton_steps():
    X, y = WINE
    model = MultiBoostCWClassifier(C=100.0, tol=0.02, weak_learner=["linear", "stump"])
    refused(r"take Exponential\(solver='lbfgs'\)", model.fit, X, y)
    last = model.set_params(solver="lbfgs").fit(X, y).history_[-1]
    assert last["certified"]
    assert last["gap"] <= 0.02


def test_a_union_whose_families_lack_learners_is_refused():
    stumps = StumpFamily(made(0)[0], (-1.0, 1.0))
    table = stumps.table([stumps._stump(0, 2, False)])
    arrays = UnionTable(np.array([1]), (table.select(np.arange(0)), table)).to_arrays()
    classes = [StumpTable, StumpTable]
    assert len(UnionTable.of_arrays(classes, arrays).tables[1]) == 1
    refused(
        "more or fewer learners",
        UnionTable.of_arrays,
        classes,
        {**arrays, "member": np.zeros(1, np.int64)},
    )


@pytest.mark.parametrize(
    "values",
    [
        [[1.0]],
        ["no digits"],
        *([row.tobytes().hex()] for row in (9 * ONES, np.nan * ONES, ONES[:3])),
    ],
)
def test_functions_of_a_damaged_checkpoint_are_refused(values):
    family = UnionFamily([LinearFunctionFamily(made(0)[0])])
    refused("function", family.restored, [0, values])
    refused("its family is", family.restored, [1, values])
