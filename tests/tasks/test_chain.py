"""Chains of tags: Viterbi and forward-backward against all sequences of tags."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost import ChainTask, StructBoost, StructuredSVM, check_task
from structboost.contract import StackedParts
from structboost.errors import TaskError
from structboost.tasks.chain import Stretch, labelled_stretches

few = settings(max_examples=60, deadline=None, derandomize=True)
seeds = st.integers(0, 10_000)


def score(emissions, steps, tags, task):
    """Score of tags, term by term."""
    total = sum(emissions[t, tag] for t, tag in enumerate(tags))
    for t in range(len(tags) - 1):
        row = t if task.step_features else 0
        total += steps[row, tags[t] * task.n_tags + tags[t + 1]]
    return total


def random_chains(rng):
    """A task, inputs without features, random scores, and allowed true tags."""
    n_tags = int(rng.integers(2, 4))
    ends = [None, *range(n_tags)]
    forbidden = [
        (a, b) for a in ends for b in ends if (a, b) != (None, None) and rng.random() < 0.15
    ]
    task = ChainTask(n_tags, step_features=bool(rng.random() < 0.5), forbidden=forbidden)
    X = []
    for n in rng.integers(1, 5, size=rng.integers(1, 5)):
        x = np.zeros((n, 1))
        x = (x, np.zeros((n - 1, 1))) if task.step_features else x
        X.append(Stretch(x, *(rng.random(2) < 0.5)) if rng.random() < 0.3 else x)
    X = [x for x in X if any(True for _ in task.outputs(x))]
    Y = [list(task.outputs(x)) for x in X]
    Y = [outputs[rng.integers(len(outputs))] for outputs in Y]
    rows = {}
    if X:
        stack = task.stack(X)
        # In eighths: sums are exact, and ties occur.
        rows = {
            kind: (8 * rng.normal(size=(len(of_kind), task.kinds[kind].n_channels))).round() / 8
            for kind, of_kind in stack.rows.items()
        }
        return task, X, Y, StackedParts(rows, stack.offsets)
    return task, X, Y, None


@few
@given(seeds)
def test_searches_of_chains_equal_enumeration(seed):
    rng = np.random.default_rng(seed)
    task, X, Y, scores = random_chains(rng)
    if not X:
        return
    found = task.separate(X, Y, scores)
    violations = found.violations(scores)
    best = task.argmax_batch(X, scores)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        own = scores.example(i)
        outputs = list(task.outputs(x))
        values = np.array([score(own["token"], own["step"], z, task) for z in outputs])
        assert score(own["token"], own["step"], best[i], task) == values.max()
        assert task.is_valid(x, best[i])
        assert np.array_equal(task.argmax(x, own), best[i])
        losses = np.array([np.sum(z != y) for z in outputs])
        assert violations[i] == max(values + losses) - score(own["token"], own["step"], y, task)
        marginals = task.marginals(x, own)
        for kind, rows in enumerated_marginals(task, x, own).items():
            assert np.allclose(marginals[kind], rows, rtol=1e-12, atol=1e-14)


def enumerated_marginals(task, x, own):
    """Sum of the joint features of all outputs times their probabilities."""
    outputs = list(task.outputs(x))
    values = np.array([score(own["token"], own["step"], z, task) for z in outputs])
    weights = np.exp(values - values.max())
    expected = {kind: np.zeros(rows.shape) for kind, rows in own.items()}
    for z, p in zip(outputs, weights / weights.sum(), strict=True):
        for kind, (parts, channels, ones) in task.joint_feature(x, z).items():
            np.add.at(expected[kind], (parts, channels), p * ones)
    return expected


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("step_features", [False, True])
def test_marginals_equal_enumeration_where_products_of_a_chain_underflow(step_features, seed):
    rng = np.random.default_rng(seed)
    task = ChainTask(3, step_features=step_features, forbidden=[(1, 1)])
    x = (np.zeros((4, 1)), np.zeros((3, 1))) if step_features else np.zeros((4, 1))
    # Thousands decide between groups of outputs, eighths within them.
    own = {
        kind: 1000.0 * rng.integers(-2, 3, size=(n, width)) + rng.integers(8, size=(n, width)) / 8
        for kind, n, width in (("token", 4, 3), ("step", 3 if step_features else 1, 9))
    }
    marginals = task.marginals(x, own)
    for kind, rows in enumerated_marginals(task, x, own).items():
        assert np.allclose(marginals[kind], rows, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("step_features", [False, True])
def test_the_chain_task_passes_check_task(step_features):
    rng = np.random.default_rng(1)
    task = ChainTask(3, step_features=step_features, forbidden=[(0, 2), (None, 1), (2, None)])
    X = [rng.normal(size=(n, 2)) for n in (1, 2, 3, 4)]
    if step_features:
        X = [(x, rng.normal(size=(len(x) - 1, 2))) for x in X]
    Y = []
    for x in X:
        outputs = list(task.outputs(x))
        Y.append(outputs[rng.integers(len(outputs))])
    check_task(task, X, Y)


def data(rng, n_sequences=60):
    """Tags in a noisy cycle of three, seen in one feature as a ring; a step may say: stay."""
    X, steps, Y = [], [], []
    for n in rng.integers(2, 9, size=n_sequences):
        stay = rng.random(n - 1) < 0.5
        tags = np.concatenate(([rng.integers(3)], np.where(stay, 0, 1))).cumsum() % 3
        X.append(tags[:, None] - 1.0 + rng.normal(size=(n, 1)))
        steps.append(stay[:, None].astype(float))
        Y.append(tags)
    return X, steps, Y


def wrong(model, X, Y):
    return float(np.mean(np.concatenate(model.predict(X)) != np.concatenate(Y)))


@pytest.mark.slow
@pytest.mark.parametrize("step_features", [False, True])
def test_vectors_add_their_scores_to_those_of_tokens(step_features):
    X, steps, Y = data(np.random.default_rng(3), 6)
    task = ChainTask(3, vectors=True, step_features=step_features)
    vectors = [np.hstack([x, x]) for x in X]
    inputs = list(zip(X, vectors, *[steps] * step_features, strict=True))
    check_task(task, inputs, Y)
    plain = ChainTask(3, step_features=step_features)
    pairs = list(zip(X, steps, strict=True)) if step_features else X
    rng, n = np.random.default_rng(4), len(X[0])
    shapes = {"token": (n, 3), "vector": (n, 3), "step": (n - 1 if step_features else 1, 9)}
    scores = {kind: rng.normal(size=shape) for kind, shape in shapes.items()}
    added = {"token": scores["token"] + scores["vector"], "step": scores["step"]}
    assert task.argmax(inputs[0], scores).tolist() == plain.argmax(pairs[0], added).tolist()
    assert task.log_sum(inputs[0], scores) == pytest.approx(plain.log_sum(pairs[0], added))
    marginals = task.marginals(inputs[0], scores)
    np.testing.assert_array_equal(marginals["vector"], marginals["token"])
    pieces, _ = labelled_stretches(inputs, [np.r_[y[:-1], -1] for y in Y])
    assert [len(table) for table in pieces[0].x] == [n - 1, n - 1, n - 2][: 2 + step_features]
    with pytest.raises(TaskError, match="a vector for each token"):
        task.parts((X[0], vectors[0][:-1], *inputs[0][2:]))
    with pytest.raises(TaskError, match="a tuple of tokens, vectors"):
        task.parts(X[0])


@pytest.mark.slow
def test_step_features_lower_the_error_of_chains():
    X, steps, Y = data(np.random.default_rng(2), 120)
    pairs = list(zip(X, steps, strict=True))
    plain = StructBoost(ChainTask(3), C=100, max_rounds=15).fit(X[:60], Y[:60])
    steered = ChainTask(3, step_features=True)
    boosted = StructBoost(steered, C=100, max_rounds=15).fit(pairs[:60], Y[:60])
    linear = StructuredSVM(steered, C=100, tol=0.02, random_state=0).fit(pairs[:60], Y[:60])
    assert wrong(boosted, pairs[60:], Y[60:]) < 0.75 * wrong(plain, X[60:], Y[60:])
    assert wrong(linear, pairs[60:], Y[60:]) < 0.75 * wrong(plain, X[60:], Y[60:])
    assert boosted.history_[-1]["certified"]
    assert linear.history_[-1]["gap"] <= 0.02


def test_partly_labelled_sequences_are_cut_into_pieces():
    task = ChainTask(3, forbidden=[(None, 2), (0, 2)])
    x, y = np.arange(7.0)[:, None], np.array([-1, 2, 1, -1, -1, 0, 1])
    X, Y = labelled_stretches([x, x[:2]], [y, [0, 1]])
    assert [piece.x.ravel().tolist() for piece in X[:2]] == [[1, 2], [5, 6]]
    assert [piece.tolist() for piece in Y[:2]] == [[2, 1], [0, 1]]
    assert [(piece.begins, piece.ends) for piece in X[:2]] == [(False, False), (False, True)]
    assert X[2] is not None
    assert len(X) == 3
    # A piece may begin with a tag that no sequence begins with.
    assert task.is_valid(X[0], Y[0])
    assert not task.is_valid(x[1:3], Y[0])
    check_task(task, X, Y)
    steered, (tags,) = labelled_stretches([(x, x[1:])], [[0, -1, -1, -1, -1, -1, -1]])
    assert steered[0].x[1].shape == (0, 1)
    assert tags.tolist() == [0]
    for unknown in (None, np.nan):
        with pytest.raises(TaskError, match=rf"Y\[1\] is \[0, {unknown}\]; .* -1 where a tag"):
            labelled_stretches([np.ones((1, 1)), np.ones((2, 1))], [[0], [0, unknown]])
    with pytest.raises(TaskError, match=r"Y\[0\] has shape \(2,\) for 7 tokens"):
        labelled_stretches([x], [[0, 1]])


def test_partly_labelled_sequences_train_a_model_nearly_as_good():
    rng = np.random.default_rng(3)
    X, _, Y = data(rng, 150)
    hidden = [np.where(rng.random(len(y)) < 0.3, -1, y) for y in Y]
    whole = StructBoost(ChainTask(3), C=100, max_rounds=10).fit(X[:75], Y[:75])
    partial = StructBoost(ChainTask(3), C=100, max_rounds=10)
    partial.fit(*labelled_stretches(X[:75], hidden[:75]))
    assert wrong(partial, X[75:], Y[75:]) < wrong(whole, X[75:], Y[75:]) + 0.05


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        ([[0, 1], [0, 1, 2]], r"Y\[1\]: An output has 3 labels for 2 tokens"),
        ([[0, 1], [0, 3]], r"Y\[1\]: An output has labels from 0 to 3"),
        ([[0, 1], [0.5, 1]], r"Y\[1\]: An output is \[0.5, 1\]"),
        ([[0, 1], [-1, 1]], "Take labelled_stretches"),
        ([[0, 1], None], r"Y\[1\]: An output is None"),
        ([[0, 1], [[0], [1]]], r"Y\[1\]: An output is \[\[0\], \[1\]\]; give an array"),
        ([[0, 1], [1, 0]], r"Y\[1\]: The tags \[1, 0\] are forbidden"),
    ],
)
def test_wrong_tags_are_named_with_their_sequence(Y, message):
    task = ChainTask(3, forbidden=[(1, 0)])
    scores = {"token": np.zeros((4, 3)), "step": np.zeros((2, 9))}
    stack = StackedParts(scores, {"token": np.array([0, 2, 4]), "step": np.array([0, 1, 2])})
    with pytest.raises(TaskError, match=message):
        task.separate([np.zeros((2, 1))] * 2, Y, stack)


def test_wrong_parameters_and_impossible_sequences_are_named():
    for arguments, message in [
        (dict(n_tags=0), "n_tags is 0; give a whole number from 1"),
        (dict(n_tags=2, forbidden=[(0, 2)]), r"forbidden has \(0, 2\)"),
        (dict(n_tags=2, forbidden=[(None, None)]), "name a tag"),
    ]:
        with pytest.raises(TaskError, match=message):
            ChainTask(**arguments)
    task = ChainTask(2, forbidden=[(0, 0), (0, 1), (1, 0), (1, 1)])
    scores = {"token": np.zeros((2, 2)), "step": np.zeros((1, 4))}
    for search in (task.argmax, task.marginals):
        with pytest.raises(TaskError, match="No sequence of 2 tags is allowed"):
            search(np.zeros((2, 1)), scores)
    # Steps must not be left out in silence.
    tokens, steps = np.zeros((3, 1)), np.zeros((2, 1))
    with pytest.raises(TaskError, match=r"An input is a tuple; .* with step_features=True"):
        ChainTask(2).parts((tokens, steps))
    for x in (tokens, [tokens, steps]):
        with pytest.raises(TaskError, match="An input is no tuple; give a tuple"):
            ChainTask(2, step_features=True).parts(x)
    with pytest.raises(TaskError, match="3 tokens and 1 steps"):
        ChainTask(2, step_features=True).parts((np.zeros((3, 1)), np.zeros((1, 1))))
