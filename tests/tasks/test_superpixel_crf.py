"""The CRF task: its contract, its batch form, the linear program on tiny sets, and that edges
matter."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from structboost import StructBoost, StructuredSVM, check_task
from structboost.errors import TaskError
from structboost.tasks import SuperpixelCRFTask
from structboost.tasks.superpixel_crf import SuperpixelGraph, TrueLabels


def grid(height, width):
    number = np.arange(height * width).reshape(height, width)
    across = np.column_stack((number[:, :-1].ravel(), number[:, 1:].ravel()))
    return np.vstack((across, np.column_stack((number[:-1].ravel(), number[1:].ravel()))))


def small(rng, n_labels, n_images=12, areas=False):
    """Graphs of one to six superpixels, some without edges."""
    X, Y = [], []
    for _ in range(n_images):
        n = int(rng.integers(1, 7))
        pairs = [(p, q) for p in range(n) for q in range(p) if rng.random() < 0.5]
        edges = np.array(pairs, np.int64).reshape(-1, 2)
        X.append(
            SuperpixelGraph(rng.normal(size=(n, n_labels, 3)), edges, rng.random((len(edges), 2)))
        )
        labels = rng.integers(0, n_labels, size=n)
        Y.append(TrueLabels(labels, rng.random(n)) if areas else labels)
    return X, Y


@pytest.mark.slow
@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("areas", [False, True])
def test_the_crf_task_passes_check_task(n_labels, areas):
    X, Y = small(np.random.default_rng(n_labels), n_labels, areas=areas)
    task = SuperpixelCRFTask(n_labels)
    assert task.exact_argmax == (n_labels == 2)
    check_task(task, X, Y)
    alone = SuperpixelCRFTask(n_labels, pairwise=False)
    assert alone.exact_argmax
    check_task(alone, X, Y)


def blobs(n, seed, size=8):
    """A square object on a grid; each superpixel sees it through heavy noise, edges see its outline
    through less."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    edges = grid(size, size)
    for _ in range(n):
        truth = np.zeros((size, size), np.int64)
        top, left = rng.integers(0, 4, size=2)
        truth[top : top + 4, left : left + 4] = 1
        labels = truth.ravel()
        seen = (2 * labels - 1) + rng.normal(scale=1.6, size=labels.size)
        outline = (labels[edges[:, 0]] == labels[edges[:, 1]]) + rng.normal(
            scale=0.3, size=len(edges)
        )
        potentials = np.stack((seen, -seen), axis=1)[:, :, None]
        X.append(SuperpixelGraph(potentials, edges, np.abs(outline)[:, None]))
        Y.append(labels)
    return X, Y


def errors(model, X, Y):
    return np.mean([np.mean(found != y) for found, y in zip(model.predict(X), Y, strict=True)])


@pytest.mark.slow
def test_edges_of_a_crf_lower_the_error_with_a_certificate():
    (X, Y), (X_test, Y_test) = blobs(25, 0), blobs(20, 1)
    with_edges = StructBoost(SuperpixelCRFTask(), C=30, tol=0.03, max_rounds=60).fit(X, Y)
    assert with_edges.history_[-1]["gap"] <= 0.03
    assert with_edges.history_[-1]["certified"]

    without = StructBoost(SuperpixelCRFTask(pairwise=False), C=30, tol=0.03, max_rounds=60).fit(
        X, Y
    )
    assert errors(with_edges, X_test, Y_test) < 0.6 * errors(without, X_test, Y_test)
    weights = with_edges.model_.matrix("edge")
    assert weights.min() >= 0
    assert weights.max() > 0


def test_a_linear_model_trains_on_the_inputs_of_the_crf():
    (X, Y), (X_test, Y_test) = blobs(25, 0), blobs(20, 1)
    svm = StructuredSVM(SuperpixelCRFTask(), C=30, tol=0.01).fit(X, Y)
    assert svm.history_[-1]["certified"]
    assert svm.w_["edge"].min() >= 0
    assert errors(svm, X_test, Y_test) < 0.12


def test_objective_and_bound_of_a_crf_agree_with_a_linear_program():
    """All labellings of all images and all columns found, in one program: the restricted optimum of
    (25)."""
    X, Y = small(np.random.default_rng(5), 2, n_images=6)
    task, C = SuperpixelCRFTask(), 20.0
    trainer = StructBoost(task, C=C, tol=1e-4, max_rounds=400).fit(X, Y)
    last = trainer.history_[-1]
    model = trainer.model_
    n_columns, m = len(model.weights), len(X)
    rows, limits = [], []
    stack = task.stack(X)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        answers = {}
        for kind, member in model.members.items():
            of_example = slice(*stack.offsets[kind][i : i + 2])
            answers[kind] = member.learners.responses(stack.rows[kind][of_example])
        for labels in product((0, 1), repeat=x.n_superpixels):
            row = np.zeros(n_columns + m)
            for kind, member in model.members.items():
                for sign, output in ((1.0, y), (-1.0, np.array(labels))):
                    parts, _, values = task.joint_feature(x, output)[kind]
                    terms = (
                        answers[kind][member.term_learners][:, parts] @ values * member.coefficients
                    )
                    np.add.at(row, member.columns, sign * terms)
            row[n_columns + i] = 1.0
            rows.append(-row)
            limits.append(-task.loss(y, np.array(labels)))
    costs = np.concatenate((np.ones(n_columns), np.full(m, C / m)))
    optimum = linprog(costs, A_ub=np.array(rows), b_ub=np.array(limits)).fun
    assert last["bound"] <= optimum + 1e-6
    assert optimum <= trainer.objective_ + 1e-6
    assert trainer.objective_ == pytest.approx(optimum, rel=2e-4)


def every_stump(rows, low, high):
    """Answers of all stumps there are, each once: every feature, threshold and side, and the two
    constants."""
    answers = [
        np.where(column <= t, *sides)
        for column in rows.T
        for t in column
        for sides in ((low, high), (high, low))
    ]
    return np.unique([*answers, np.full(len(rows), low), np.full(len(rows), high)], axis=0)


def optimum_over_all_stumps(X, Y, C):
    """The program (25) with a column for each stump of nodes and of edges and a row for each
    labelling."""
    nodes = every_stump(
        np.concatenate([x.potentials.reshape(-1, x.potentials.shape[2]) for x in X]), -1.0, 1.0
    )
    edges = every_stump(np.concatenate([x.edge_potentials for x in X]), 0.0, 1.0)
    rows, limits, first_node, first_edge = [], [], 0, 0
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        n, n_edges = x.n_superpixels, len(x.edges)
        of_nodes = nodes[:, first_node : first_node + 2 * n].reshape(len(nodes), n, 2)
        of_edges = edges[:, first_edge : first_edge + n_edges]
        first_node, first_edge = first_node + 2 * n, first_edge + n_edges

        def energies(labels, x=x, n=n, of_nodes=of_nodes, of_edges=of_edges):
            cut = labels[x.edges[:, 0]] != labels[x.edges[:, 1]]
            return np.concatenate(
                (of_nodes[:, np.arange(n), labels].sum(axis=1), of_edges[:, cut].sum(axis=1))
            )

        for labels in map(np.array, product((0, 1), repeat=n)):
            slack = -np.eye(len(X))[i]
            rows.append(np.concatenate((energies(y) - energies(labels), slack)))
            limits.append(-float((labels != y).sum()))
    costs = np.concatenate((np.ones(len(nodes) + len(edges)), np.full(len(X), C / len(X))))
    return linprog(costs, A_ub=np.array(rows), b_ub=np.array(limits)).fun


@pytest.mark.parametrize("seed", range(3))
def test_every_bound_holds_over_all_stumps_of_nodes_and_edges(seed):
    """No column is taken from the model: the bound is one for the whole family, of both kinds."""
    rng = np.random.default_rng(seed)
    X, Y = [], []
    edges = np.array([[0, 1], [1, 2], [2, 3]])
    for _ in range(8):
        # Nodes tell the first label only; without edges the others are anybody's guess.
        labels = rng.integers(0, 2, 4)
        seen = np.where(np.arange(4) == 0, 2 * labels - 1.0, 0.0) * rng.uniform(0.5, 1.0, 4)
        potentials = np.stack((seen, -seen), axis=1)[:, :, None]
        same = labels[edges[:, 0]] == labels[edges[:, 1]]
        X.append(
            SuperpixelGraph(
                potentials, edges, np.column_stack((same + rng.normal(size=3) ** 2, rng.random(3)))
            )
        )
        Y.append(labels)
    C = 8.0
    optimum = optimum_over_all_stumps(X, Y, C)
    trainer = StructBoost(SuperpixelCRFTask(), C=C, tol=1e-3, max_rounds=200, exact=True).fit(X, Y)
    assert all(record["certified"] for record in trainer.history_)
    assert max(record["bound"] for record in trainer.history_) <= optimum + 1e-6
    assert optimum <= trainer.objective_ + 1e-6
    assert trainer.objective_ == pytest.approx(optimum, rel=2e-3)
    assert trainer.model_.matrix("edge").max() > 0


def test_void_superpixels_leave_with_their_edges():
    x = SuperpixelGraph(
        np.zeros((4, 2, 1)), np.array([[0, 1], [1, 2], [2, 3], [0, 3]]), np.arange(4.0)[:, None]
    )
    left = x.restricted(np.array([True, False, True, True]))
    assert left.n_superpixels == 3
    np.testing.assert_array_equal(left.edges, [[1, 2], [0, 2]])
    np.testing.assert_array_equal(left.edge_potentials[:, 0], [2.0, 3.0])


def test_wrong_inputs_of_a_crf_are_named():
    edges = np.array([[0, 1]])
    with pytest.raises(ValueError, match="whole numbers from 0 to 1"):
        SuperpixelGraph(np.zeros((2, 2, 1)), edges + 1, np.zeros((1, 1)))
    with pytest.raises(ValueError, match="for 1 edges"):
        SuperpixelGraph(np.zeros((2, 2, 1)), edges, np.zeros((2, 1)))
    with pytest.raises(ValueError, match="n_superpixels"):
        SuperpixelGraph(np.zeros((0, 2, 1)), edges, np.zeros((1, 1)))
    with pytest.raises(ValueError, match=r"areas\[1\]"):
        TrueLabels(np.array([0, 1]), np.array([1.0, np.nan]))
    x = SuperpixelGraph(np.zeros((2, 2, 1)), edges, np.zeros((1, 1)))
    task = SuperpixelCRFTask()
    for wrong, message in (
        (np.array([0]), "1 labels for 2"),
        (np.array([0, 255]), "restricted"),
        ([0.5, 1], "whole"),
    ):
        with pytest.raises(TaskError, match=message):
            task.joint_feature(x, wrong)
    with pytest.raises(TaskError, match="2 labels; the task has 3"):
        SuperpixelCRFTask(3).parts(x)
    with pytest.raises(ValueError, match="n_labels"):
        SuperpixelCRFTask(1)
    lonely = SuperpixelGraph(np.zeros((1, 2, 1)), np.zeros((0, 2)), np.zeros((0, 1)))
    with pytest.raises(TaskError, match="pairwise=False"):
        StructBoost(task, C=1.0).fit([lonely], [np.array([1])])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros(5, np.int64), r"Y\[2\] has 5 labels for 4 superpixels; give one for each"),
        (
            np.array([0, 1, 2, 0]),
            r"Y\[2\] has labels from 0 to 2; a superpixel has one of 0\.\.1\. Leave void",
        ),
        (
            np.zeros(4),
            r"Y\[2\] is array.* give an array of whole numbers, a label for each superpixel",
        ),
        (TrueLabels(np.zeros(3, np.int64), np.ones(3)), r"Y\[2\] has 3 labels for 4 superpixels"),
    ],
)
@pytest.mark.parametrize("pairwise", [True, False])
def test_a_truth_that_does_not_fit_its_graph_names_the_sample(wrong, message, pairwise):
    X = [SuperpixelGraph(np.ones((4, 2, 1)), grid(2, 2), np.ones((4, 1))) for _ in range(3)]
    Y = [np.zeros(4, np.int64), np.ones(4, np.int64), wrong]
    with pytest.raises(TaskError, match=message):
        StructBoost(SuperpixelCRFTask(2, pairwise=pairwise), C=1.0).fit(X, Y)


def test_the_loss_of_outputs_of_two_lengths_is_refused():
    with pytest.raises(TaskError, match="One output has 4 labels, the other 5"):
        SuperpixelCRFTask(2).loss(np.zeros(4, np.int64), np.zeros(5, np.int64))
