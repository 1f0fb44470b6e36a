"""Minimum cuts and alpha-expansion against all labellings of small graphs."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost.inference.alpha_expansion import expanded_labels
from structboost.inference.graph_cut import least_energy_labels


def energy(labels, energies, edges, forward, backward):
    total = energies[np.arange(len(labels)), labels].sum()
    for (p, q), f, b in zip(edges, forward, backward, strict=True):
        if labels[p] != labels[q]:
            total += f if labels[q] == 1 else b
    return total


def potts(labels, energies, edges, weights):
    own = energies[np.arange(len(labels)), labels].sum()
    return own + sum(w for (p, q), w in zip(edges, weights, strict=True) if labels[p] != labels[q])


@st.composite
def graphs(draw, max_nodes=7, n_labels=2):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, max_nodes))
    pairs = [(p, q) for p in range(n) for q in range(p + 1, n)]
    kept = [pair for pair in pairs if rng.random() < draw(st.sampled_from([0.0, 0.4, 1.0]))]
    edges = np.array(kept, np.int64).reshape(-1, 2)
    flipped = rng.random(len(edges)) < 0.5
    edges[flipped] = edges[flipped][:, ::-1]
    scale = draw(st.sampled_from([0.0, 0.3, 1.0, 5.0]))
    # Whole numbers make ties.
    energies = (
        rng.integers(-4, 5, size=(n, n_labels)).astype(float)
        if rng.random() < 0.3
        else rng.normal(size=(n, n_labels))
    )
    return energies, edges, scale * rng.random(len(edges)), scale * rng.random(len(edges))


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_a_cut_is_the_best_of_all_labellings(graph):
    energies, edges, forward, backward = graph
    found = least_energy_labels(energies, edges, forward, backward)
    best = min(energy(np.array(y), *graph) for y in product((0, 1), repeat=len(energies)))
    assert energy(found.astype(int), *graph) == pytest.approx(best, abs=1e-9)


# No bound holds for all graphs (the proved factor is 2): the same graphs each time.
@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(3, 4).flatmap(lambda k: graphs(max_nodes=6, n_labels=k)))
def test_alpha_expansion_is_near_the_best_and_never_above_a_single_label(graph):
    energies, edges, weights, _ = graph
    n, n_labels = energies.shape
    found = potts(expanded_labels(energies, edges, weights), energies, edges, weights)
    assert found <= energies.sum(axis=0).min() + 1e-9
    best = min(
        potts(np.array(y), energies, edges, weights) for y in product(range(n_labels), repeat=n)
    )
    # 2 % of the least energy, counted from the nodes' own minima: a constant that no labelling can
    # save.
    assert found - best <= 0.02 * (best - energies.min(axis=1).sum()) + 1e-9


@pytest.mark.parametrize("seed", range(25))
def test_alpha_expansion_cannot_be_improved_by_one_label(seed):
    rng = np.random.default_rng(seed)
    energies, edges = (
        rng.normal(size=(8, 4)),
        np.array([(p, q) for p in range(8) for q in range(p)]),
    )
    weights = rng.choice([0.2, 0.5]) * rng.random(len(edges))
    labels = expanded_labels(energies, edges, weights)
    reached = potts(labels, energies, edges, weights)
    moved = np.array(list(product((False, True), repeat=8)))
    for alpha in range(4):
        expanded = np.where(moved, alpha, labels)
        cut = (expanded[:, edges[:, 0]] != expanded[:, edges[:, 1]]) @ weights
        assert (energies[np.arange(8), expanded].sum(axis=1) + cut).min() >= reached - 1e-9


def test_several_graphs_at_once_are_as_good_as_one_by_one():
    rng = np.random.default_rng(0)
    blocks, edges, weights, owners, start = [], [], [], [], 0
    alone = []
    for number in range(12):
        n = int(rng.integers(1, 8))
        pairs = np.array(
            [(p, q) for p in range(n) for q in range(p) if rng.random() < 0.6], np.int64
        ).reshape(-1, 2)
        e, w = rng.normal(size=(n, 3)), rng.random(len(pairs))
        alone.append(potts(expanded_labels(e, pairs, w), e, pairs, w))
        blocks.append(e)
        edges.append(pairs + start)
        weights.append(w)
        owners += [number] * n
        start += n
    owners = np.array(owners)
    found = expanded_labels(
        np.concatenate(blocks), np.concatenate(edges), np.concatenate(weights), owners
    )
    for number, expected in enumerate(alone):
        of_graph = np.flatnonzero(owners == number)
        reached = potts(
            found[of_graph], blocks[number], edges[number] - of_graph[0], weights[number]
        )
        assert reached == pytest.approx(expected, abs=1e-9)


def test_nodes_without_edges_take_their_cheaper_label():
    none = np.zeros((0, 2), np.int64)
    found = least_energy_labels(np.array([[1.0, 0.0], [-3.0, 2.0]]), none, np.zeros(0), np.zeros(0))
    np.testing.assert_array_equal(found, [True, False])
    np.testing.assert_array_equal(
        expanded_labels(np.array([[1.0, 0.0, 2.0]]), none, np.zeros(0)), [1]
    )
    assert len(expanded_labels(np.zeros((0, 3)), none, np.zeros(0))) == 0


def test_a_missing_pymaxflow_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "maxflow", None)
    with pytest.raises(ImportError, match="PyMaxflow"):
        least_energy_labels(np.zeros((1, 2)), np.zeros((0, 2)), np.zeros(0), np.zeros(0))


EDGE = np.array([[0, 1]])


@pytest.mark.parametrize(
    ("energies", "edges", "weight", "message"),
    [
        ([[0, np.nan], [0, 0]], EDGE, 1.0, r"node_energies\[0\]"),
        ([[0, 0], [np.inf, 0]], EDGE, 1.0, r"node_energies\[1\]"),
        ([[0, 0], [0, 0]], EDGE, np.nan, r"\[0\] is nan"),
        ([[0, 0], [0, 0]], EDGE, -1.0, "not negative"),
        ([[0, 0], [0, 0]], np.array([[0, 2]]), 1.0, "there are 2 nodes"),
        ([0, 0], EDGE, 1.0, "shape"),
    ],
)
def test_what_would_hang_or_mislead_the_solver_is_refused(energies, edges, weight, message):
    energies = np.array(energies, float)
    with pytest.raises(ValueError, match=message):
        least_energy_labels(energies, edges, np.array([weight]), np.array([1.0]))
    if energies.ndim == 2:
        energies = np.hstack((energies, energies[:, :1]))
    with pytest.raises(ValueError, match=message):
        expanded_labels(energies, edges, np.array([weight]))
