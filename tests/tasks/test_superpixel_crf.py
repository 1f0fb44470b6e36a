"""The CRF task against a linear program over all stumps, and void superpixels."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from structboost import StructBoost
from structboost.tasks import SuperpixelCRFTask
from structboost.tasks.superpixel_crf import SuperpixelGraph


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


def test_void_superpixels_leave_with_their_edges_and_three_labels_are_not_exact():
    x = SuperpixelGraph(
        np.zeros((4, 2, 1)), np.array([[0, 1], [1, 2], [2, 3], [0, 3]]), np.arange(4.0)[:, None]
    )
    left = x.restricted(np.array([True, False, True, True]))
    assert left.n_superpixels == 3
    tasks = [SuperpixelCRFTask(2), SuperpixelCRFTask(3), SuperpixelCRFTask(3, pairwise=False)]
    assert [task.exact_argmax for task in tasks] == [True, False, True]
    np.testing.assert_array_equal(left.edges, [[1, 2], [0, 2]])
    np.testing.assert_array_equal(left.edge_potentials[:, 0], [2.0, 3.0])
