"""Every structure against all of its outputs: searches, sums, losses and batches."""

from contextlib import suppress
from itertools import combinations, product

import numpy as np
import pytest

from structboost import (
    BinaryTask,
    ChainTask,
    EnumeratedTask,
    GraphTask,
    HierarchicalMultiLabelTask,
    MatchingTask,
    MulticlassTask,
    MultiLabelTask,
    SegmentTask,
    SpanningTreeTask,
    StructBoost,
    StructuredSVM,
    TaxonomyTask,
    check_task,
)
from structboost.contract import (
    Decomposes,
    Lists,
    SparseFeature,
    StackedParts,
    Sums,
    SumsBatches,
    Validates,
)
from structboost.contract.calls import log_sums, marginals, separation
from structboost.contract.parts import deeply_equal
from structboost.contract.separation import best_output, best_outputs
from structboost.errors import TooManyOutputsError
from structboost.tasks import (
    BoxOverlapTask,
    BoxTable,
    CandidatePairs,
    CodedTask,
    GraphInput,
    SuperpixelCRFTask,
)
from structboost.tasks.chain import Stretch
from structboost.tasks.superpixel_crf import SuperpixelGraph


def some(rng, items, share):
    return [item for item in items if rng.random() < share]


def features(rng, *shape):
    """Features of parts, the last of them constant."""
    return np.append(rng.normal(size=(*shape, 2)), np.ones((*shape, 1)), axis=-1)


def table(task):
    return lambda rng, n: (task(rng), list(features(rng, n)))


def enumerated(rng):
    k, n_channels = rng.integers(2, 7), rng.integers(1, 5)
    losses = rng.integers(0, 4, (k, k)) * (1.0 - np.eye(k))
    return EnumeratedTask([(c,) for c in range(k)], rng.integers(-3, 4, (k, n_channels)), losses)


def taxonomy(rng):
    """A random tree of 2 to 6 classes."""
    nodes, pairs = list(range(rng.integers(2, 7))), []
    while len(nodes) > 1:
        nodes = rng.permutation(nodes).tolist()
        size = rng.integers(2, len(nodes) + 1)
        pairs += [(f"node {len(nodes)}", node) for node in nodes[:size]]
        nodes = [*nodes[size:], f"node {len(nodes)}"]
    names = {str(k): k for k in range(6)}
    return TaxonomyTask([(above, names.get(str(node), node)) for above, node in pairs])


def label_sets(rng):
    k, loss = int(rng.integers(2, 5)), rng.choice(["hamming", "subset", "f1", "costs"])
    options = {"costs": 1 + rng.integers(0, 4, (2, k))} if loss == "costs" else {"loss": str(loss)}
    sets = rng.integers(0, 2, (rng.integers(1, 7), k)) if rng.random() < 0.3 else None
    return MultiLabelTask(k, **options, pairs=bool(rng.random() < 0.3), sets=sets)


def hierarchy(rng):
    k = int(rng.integers(2, 7))
    tree = [(int(rng.integers(v)), v) for v in range(1, k) if rng.random() < 0.8]
    edges = tree if rng.random() < 0.5 else some(rng, combinations(range(k), 2), 0.4)
    return HierarchicalMultiLabelTask(k, rng.permutation(k)[np.array(edges, int).reshape(-1, 2)])


def boxes(rng, n):
    X = []
    for k in rng.integers(1, 6, n):
        corners = rng.uniform(0, 60, (k, 2)), rng.uniform(15, 25, (k, 2))
        X.append(BoxTable(np.column_stack(corners), features(rng, k)))
    return BoxOverlapTask(), X


def chain(rng, n):
    k, vectors = int(rng.integers(2, 4)), bool(rng.random() < 0.5)
    ends = [None, *range(k)]
    forbidden = some(rng, list(product(ends, ends))[1:], 0.1)
    task = ChainTask(k, vectors=vectors, forbidden=forbidden)
    X = []
    for size in rng.integers(0, 5, n):
        tables = [features(rng, size), *[features(rng, size)] * vectors]
        x = tuple(tables) if len(tables) > 1 else tables[0]
        X.append(Stretch(x, *(rng.random(2) < 0.5).tolist()) if rng.random() < 0.3 else x)
    return task, X


def segments(rng, n):
    k, longest = (int(size) for size in rng.integers(1, 4, 2))
    task = SegmentTask(k, longest, forbidden=some(rng, product(range(k), range(k)), 0.15 * (k > 1)))
    return task, [features(rng, size) for size in rng.integers(0, 5, n)]


def turned(rng, pairs):
    """Edges in any direction."""
    return rng.permuted(np.array(list(pairs), int).reshape(-1, 2), axis=1)


def graph(rng, n):
    shape, options = rng.choice(["tree", "any"]), {"exact": bool(rng.random() < 0.3)}
    task = GraphTask(3, pairs=str(rng.choice(["ordered", "unordered", "equal"])), **options)
    X = []
    for size in rng.integers(1, 5, n):
        every = combinations(range(size), 2)
        tree = ((int(rng.integers(v)), v) for v in range(1, size))
        edges = turned(rng, some(rng, tree if shape == "tree" else every, 0.8))
        X.append(GraphInput(features(rng, size), edges, np.abs(features(rng, len(edges)))))
    return task, X


def two_kinds(rng, n):
    task, X = GraphTask(2, ("next", "near"), exact=True), []
    for size in rng.integers(1, 5, n):
        edges = {k: turned(rng, some(rng, combinations(range(size), 2), 0.4)) for k in task.edges}
        of_edges = {kind: features(rng, len(pairs)) for kind, pairs in edges.items()}
        X.append(GraphInput(features(rng, size), edges, of_edges))
    return task, X


def superpixels(n_labels, pairwise):
    def make(rng, n):
        X = []
        for size in [2, *rng.integers(1, 5, n - 1)]:
            edges = turned(rng, [(0, 1)][: size - 1] + some(rng, combinations(range(size), 2), 0.5))
            X.append(
                SuperpixelGraph(
                    features(rng, size, n_labels), edges, np.abs(features(rng, len(edges)))
                )
            )
        return SuperpixelCRFTask(n_labels, pairwise=pairwise), X

    return make


def matching(rng, n):
    task = MatchingTask(unmatched=bool(rng.random() < 0.5))
    X = []
    for shape in rng.integers(1, 4, (n, 2)).tolist():
        pairs = some(rng, product(*map(range, shape)), 0.6)
        pairs = rng.permutation(np.array(pairs, int).reshape(-1, 2))
        sparse = CandidatePairs(*shape, pairs, features(rng, len(pairs)))
        X.append(sparse if task.unmatched and rng.random() < 0.7 else features(rng, *shape))
    return task, X


def trees(rng, n):
    return SpanningTreeTask(), [features(rng, size, size) for size in rng.integers(1, 5, n)]


STRUCTURES = {
    "binary": table(lambda rng: BinaryTask()),
    "classes": table(lambda rng: MulticlassTask(int(rng.integers(2, 5)))),
    "words": table(lambda rng: CodedTask([[1, 1], [1, -1], [-1, 1]])),
    "enumerated": table(enumerated),
    "taxonomy": table(taxonomy),
    "label sets": table(label_sets),
    "hierarchy": table(hierarchy),
    "boxes": boxes,
    "chain": chain,
    "segments": segments,
    "graph": graph,
    "graph of two kinds of edges": two_kinds,
    "superpixels": superpixels(2, True),
    "superpixels of three labels": superpixels(3, True),
    "lone superpixels": superpixels(3, False),
    "matching": matching,
    "trees": trees,
}
each_structure = pytest.mark.parametrize("name", STRUCTURES)


def outputs_of(task, x):
    if isinstance(task, BinaryTask):
        return [-1, 1]
    return list(task.outputs(x) if isinstance(task, Lists) else range(task.n_classes))


def problem(name, seed, n=3):
    """A task, inputs that have outputs, and a random one of each."""
    rng = np.random.default_rng(seed)
    task, X = STRUCTURES[name](rng, n)
    X = [x for x in X if outputs_of(task, x)]
    Y = [outputs_of(task, x) for x in X]
    return rng, task, X, [outputs[rng.integers(len(outputs))] for outputs in Y]


def sums_alone_of(task, x, scores):
    """Expected joint feature and logarithm of the sum of one input."""
    if isinstance(task, Sums):
        return task.marginals(x, scores), task.log_sum(x, scores)
    starts = {kind: [0, len(rows)] for kind, rows in by_kind(task, scores).items()}
    sums = marginals(task, [x], StackedParts(by_kind(task, scores), starts))
    return sums.expected, sums.log_sums[0]


def by_kind(task, values):
    return values if isinstance(values, dict) else {next(iter(task.kinds)): values}


def flat(task, values, own):
    """Values of the parts of an input in one vector."""
    out = {kind: np.zeros(rows.shape) for kind, rows in own.items()}
    for kind, rows in by_kind(task, values).items():
        if isinstance(rows, SparseFeature):
            np.add.at(out[kind], (rows.parts, rows.channels), rows.values)
        else:
            out[kind] += rows
    return np.concatenate([rows.ravel() for rows in out.values()])


@pytest.mark.slow
@each_structure
def test_searches_sums_and_batches_equal_enumeration(name):
    for seed in range(36):
        compare_with_all_outputs(name, seed, (0.25, 1.0, 1000.0)[seed % 3])


def compare_with_all_outputs(name, seed, scale):
    rng, task, X, Y = problem(name, seed)
    if not X:
        return
    stack = task.stack(X)
    # In eighths: sums are exact, and ties occur.
    rows = {
        kind: scale * (8 * rng.normal(size=(len(rows), task.kinds[kind].n_channels))).round() / 8
        for kind, rows in stack.rows.items()
    }
    rows = {k: np.abs(r) if min(task.kinds[k].response) >= 0 else r for k, r in rows.items()}
    scores = StackedParts(rows, stack.offsets)
    is_exact = task.for_inputs(X).exact_argmax
    best = best_outputs(task, X, scores)
    takes_truth = not isinstance(task, Decomposes)
    with_loss = task.argmax_batch(X, scores, Y) if takes_truth else None
    violations = separation(task, X, Y, scores).violations(scores)
    sums = None
    with suppress(TooManyOutputsError):  # graphs with cycles, labels of several parents
        if isinstance(task, SumsBatches | Lists):
            sums = marginals(task, X, scores)
    sums_alone = log_sums(task, X, scores) if sums else None
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        own = scores.example(i)
        own_by_kind, outputs = by_kind(task, own), outputs_of(task, x)
        measures = np.array([flat(task, task.joint_feature(x, z), own_by_kind) for z in outputs])
        values = measures @ flat(task, own, own_by_kind)
        losses = np.array([task.loss(y, z) for z in outputs])
        at = next(k for k, z in enumerate(outputs) if deeply_equal(z, y))
        assert losses[at] == 0 <= losses.min()

        def place(z, outputs=outputs):
            return next(k for k, output in enumerate(outputs) if deeply_equal(output, z))

        found, augmented = place(best[i]), place(best_output(task, x, own, y))
        assert not isinstance(task, Validates) or task.is_valid(x, best[i])
        gains = values + losses
        if is_exact:
            assert values[found] == pytest.approx(values.max(), abs=1e-9)
            assert gains[augmented] == pytest.approx(gains.max(), abs=1e-9)
            assert violations[i] == pytest.approx(gains.max() - values[at], abs=1e-9)
            assert place(task.argmax(x, own)) == found
            if takes_truth:
                assert gains[place(with_loss[i])] == pytest.approx(gains.max(), abs=1e-9)
        else:
            assert violations[i] <= gains.max() - values[at] + 1e-9
            assert values[place(task.argmax(x, own))] == pytest.approx(values[found])
        if isinstance(task, GraphTask):
            bound = task.upper_bound(x, own)
            assert bound >= values.max() - 1e-8 * scale
            assert not is_exact or bound == pytest.approx(values.max(), abs=1e-9)
        if isinstance(task, Decomposes):
            added = task.loss_scores(x, y)
            change = measures - measures[at]
            assert change @ flat(task, added, own_by_kind) == pytest.approx(losses, abs=1e-9)
        if sums:
            log_sum = np.logaddexp.reduce(values)
            expected = np.exp(values - log_sum) @ measures
            blocks = {k: r[slice(*stack.offsets[k][i : i + 2])] for k, r in sums.expected.items()}
            means, own_sum = sums_alone_of(task, x, own)
            for block in (blocks, means):
                assert flat(task, block, own_by_kind) == pytest.approx(expected, abs=1e-9)
            for value in (sums.log_sums[i], sums_alone[i], own_sum):
                assert value == pytest.approx(log_sum, abs=1e-9)


@pytest.mark.slow
@each_structure
def test_each_structure_passes_check_task(name):
    for seed in range(2):
        _, task, X, Y = problem(name, seed, 5)
        check_task(task, X, Y)


@pytest.mark.slow
@each_structure
def test_a_linear_function_of_the_parts_is_learned_with_a_certificate(name):
    rng, task, X, _ = problem(name, 1, 60)
    stack = task.stack(X)
    rows = {}
    for kind, parts in stack.rows.items():
        weights = rng.normal(size=(parts.shape[1], task.kinds[kind].n_channels))
        is_positive = min(task.kinds[kind].response) >= 0
        rows[kind] = parts @ (np.abs(weights) if is_positive else weights)
    Y = best_outputs(task, X, StackedParts(rows, stack.offsets))
    zeros = StackedParts({kind: 0 * own for kind, own in rows.items()}, stack.offsets)
    blind = np.mean(
        [task.loss(*pair) for pair in zip(Y, best_outputs(task, X, zeros), strict=True)]
    )
    trainers = [
        StructuredSVM(task, C=100.0, tol=0.05, random_state=0),
        StructBoost(task, C=100.0, tol=0.05, max_rounds=40, weak_learner="linear"),
    ]
    if isinstance(task, SumsBatches) and name != "graph of two kinds of edges":
        trainers.append(StructBoost(task, C=30.0, tol=0.1, max_rounds=40, formulation="log"))
    for trainer in trainers:
        trainer.fit(X[:40], Y[:40])
        assert trainer.history_[-1]["certified"] == task.for_inputs(X).exact_argmax
        assert trainer.history_[-1]["gap"] <= trainer.tol
        assert trainer.score(X[40:], Y[40:]) > -0.6 * blind


@each_structure
def test_labelled_parts_take_other_features(name):
    rng, task, X, Y = problem(name, 0)
    if task.labelled_kind is None:
        return
    for x, y in zip(X, Y, strict=True):
        other = rng.normal(size=(len(task.part_labels(x, y)), 5))
        parts = task.parts(task.with_features(x, other))
        assert np.array_equal(by_kind(task, parts)[task.labelled_kind], other)
