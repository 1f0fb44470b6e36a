"""Alpha-expansion against all labellings of small graphs, and graphs without edges."""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost.inference import alpha_expansion_labels, min_cut_labels


def potts(labels, energies, edges, weights):
    """Energies of labellings, along the last axis."""
    cut = (labels[..., edges[:, 0]] != labels[..., edges[:, 1]]) @ weights
    return energies[np.arange(len(energies)), labels].sum(axis=-1) + cut


def random_graph(rng, n, n_labels, density, scale=1.0):
    pairs = [(p, q) for p in range(n) for q in range(p) if rng.random() < density]
    edges = np.array(pairs, np.int64).reshape(-1, 2)
    energies = rng.normal(size=(n, n_labels))
    if rng.random() < 0.3:
        energies = (3 * energies).round()  # ties
    return energies, edges, scale * rng.random(len(edges))


# No bound holds for all graphs (the proved factor is 2): the same graphs each time.
@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(3, 4), st.sampled_from([0.3, 1.0, 5.0]))
def test_alpha_expansion_is_near_the_best_and_never_above_a_single_label(seed, n_labels, scale):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    energies, edges, weights = random_graph(rng, n, n_labels, rng.choice([0.0, 0.4, 1.0]), scale)
    labels = alpha_expansion_labels(energies, edges, weights)
    reached = potts(labels, energies, edges, weights)
    assert reached <= energies.sum(axis=0).min() + 1e-9
    everything = np.array(list(product(range(n_labels), repeat=n)))
    best = potts(everything, energies, edges, weights).min()
    # 2 % of the least energy, counted from the nodes' own minima: a constant that no labelling can
    # save.
    assert reached - best <= 0.02 * (best - energies.min(axis=1).sum()) + 1e-9


@pytest.mark.parametrize("seed", range(25))
def test_alpha_expansion_cannot_be_improved_by_one_label(seed):
    graph = random_graph(np.random.default_rng(seed), 8, 4, 1.0, [0.2, 0.5][seed % 2])
    labels = alpha_expansion_labels(*graph)
    moved = np.array(list(product((False, True), repeat=8)))
    for alpha in range(4):
        expanded = potts(np.where(moved, alpha, labels), *graph)
        assert expanded.min() >= potts(labels, *graph) - 1e-9


def test_several_graphs_at_once_are_as_good_as_one_by_one():
    rng = np.random.default_rng(0)
    graphs = [random_graph(rng, int(rng.integers(1, 8)), 3, 0.6) for _ in range(12)]
    sizes = [len(energies) for energies, _, _ in graphs]
    firsts = np.cumsum(sizes) - sizes
    together = alpha_expansion_labels(
        np.concatenate([energies for energies, _, _ in graphs]),
        np.concatenate(
            [edges + first for (_, edges, _), first in zip(graphs, firsts, strict=True)]
        ),
        np.concatenate([weights for _, _, weights in graphs]),
        np.repeat(np.arange(12), sizes),
    )
    for graph, labels in zip(graphs, np.split(together, firsts[1:]), strict=True):
        alone = potts(alpha_expansion_labels(*graph), *graph)
        assert potts(labels, *graph) == pytest.approx(alone, abs=1e-9)


def test_nodes_without_edges_take_their_cheaper_label():
    assert min_cut_labels([[1.0, 0.0], [-3.0, 2.0]], [], [], []).tolist() == [True, False]
    assert alpha_expansion_labels([[1.0, 0.0, 2.0]], [], []).tolist() == [1]
    assert len(alpha_expansion_labels(np.zeros((0, 3)), [], [])) == 0


def test_a_missing_pymaxflow_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "maxflow", None)
    with pytest.raises(ImportError, match="PyMaxflow"):
        min_cut_labels(np.zeros((1, 2)), [], [], [])
