"""Alpha-expansion against all labellings of small graphs, and graphs without edges."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from structboost.inference import alpha_expansion_labels, min_cut_labels, superpixel_crf


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
@settings(max_examples=150, derandomize=True)
@given(st.integers(0, 10_000), st.integers(3, 4), st.sampled_from([0.3, 1.0, 5.0]))
def test_alpha_expansion_is_near_the_best_and_no_label_improves_it(seed, n_labels, scale):
    rng = default_rng(seed)
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
    moved = np.array(list(product((False, True), repeat=n)))
    for alpha in range(n_labels):
        expanded = potts(np.where(moved, alpha, labels), energies, edges, weights)
        assert expanded.min() >= reached - 1e-9


def test_several_graphs_at_once_are_as_good_as_one_by_one():
    rng = default_rng(0)
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


@pytest.fixture
def base(monkeypatch):
    """Let cuts be those of the base, without PyMaxflow."""
    monkeypatch.setattr(superpixel_crf, "is_installed", lambda module: False)


def directed_graph(rng, n, is_whole, log_scale):
    pairs = rng.integers(0, n, (3 * n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    energies = rng.normal(size=(n, 2))
    capacities = 10.0 ** rng.uniform(-log_scale, log_scale, (2, len(pairs)))
    if is_whole:
        energies, capacities = (3 * energies).round(), (3 * capacities).round()
    return energies, pairs, *capacities


def energy(labels, energies, pairs, forward, backward):
    """Energies of labellings, along the last axis."""
    p, q = labels[..., pairs[:, 0]], labels[..., pairs[:, 1]]
    cut = (~p & q) @ forward + (p & ~q) @ backward
    return energies[np.arange(len(energies)), labels.astype(int)].sum(axis=-1) + cut


@given(st.integers(0, 10_000), st.integers(1, 8), st.booleans(), st.sampled_from([0.3, 6.0]))
@settings(max_examples=60)
def test_cuts_of_the_base_are_the_best_labels_of_small_graphs(seed, n, is_whole, log_scale):
    graph = directed_graph(default_rng(seed), n, is_whole, log_scale)
    everything = np.array(list(product((False, True), repeat=n)))
    energies = energy(everything, *graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(superpixel_crf, "is_installed", lambda module: False)
        labels = min_cut_labels(*graph)
    if is_whole:  # every energy is exact
        best = everything[energies == energies.min()]
        assert labels.tolist() == best[best.sum(axis=1).argmin()].tolist()
    slip = 2.0**-44 * np.abs(np.diff(graph[0])).sum()
    assert energy(labels, *graph) - energies.min() <= slip + 1e-15 * np.abs(energies).max()


@pytest.mark.parametrize("is_whole", [False, True])
def test_cuts_of_the_base_are_those_of_pymaxflow(base, monkeypatch, is_whole):
    pytest.importorskip("maxflow")
    rng = default_rng(is_whole)
    for n in (30, 300, 2000):
        energies, *edges = directed_graph(rng, n, is_whole, 0.5)
        graph = 8 * energies, *edges
        of_base = min_cut_labels(*graph)
        with monkeypatch.context() as patch:
            patch.setattr(superpixel_crf, "is_installed", lambda module: True)
            labels = min_cut_labels(*graph)
        assert 0 < labels.sum() < n
        assert labels.tolist() == of_base.tolist()


def test_one_whole_flow_is_not_enough_where_capacities_differ_by_orders(base, monkeypatch):
    energies = [[0.0, 1e9], [0.0, 1e9], [1e9, 0.0], [3e-3, 0.0], [0.0, 2e-3]]
    graph = energies, [[0, 2], [3, 4]], [1e9, 1.0], [1e9, 1.0]
    assert min_cut_labels(*graph).tolist()[3:] == [True, True]
    monkeypatch.setattr(superpixel_crf, "_MOST_ROUNDS", 1)
    assert min_cut_labels(*graph).tolist()[3:] != [True, True]


def test_an_edge_wider_than_all_flow_is_never_cut(base):
    wide = [1e300, 0.0]
    assert (
        min_cut_labels([[0, 5.0], [10.0, 0]], [[0, 1]], wide[:1], wide[1:]).tolist() == [True] * 2
    )
