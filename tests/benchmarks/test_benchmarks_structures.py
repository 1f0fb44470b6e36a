"""The page of structures: rows of a unit, and the rivals."""

from itertools import product

import numpy as np
import pytest
from sklearn.preprocessing import LabelBinarizer

from benchmarks.papers import structures
from benchmarks.structures import chains, chunks, hierarchies, label_sets, pairs, whole_sets
from benchmarks.structures.rows import Row
from structboost import HierarchicalMultiLabelTask, MatchingTask, check_task
from structboost.contract.parts import StackedParts


def test_the_rows_of_a_unit_become_records_and_a_table():
    rows = [Row("a", "hamming", 0.25, {"C": 3.0}), Row("a", "subset", 0.5), Row("b", "subset", 0.7)]
    finished = [(None, {"rows": [row._asdict() for row in rows], "value": 0.7})]
    made = structures.records("yeast", finished)
    assert [(r["method"], r["metric"], r["value"]) for r in made] == [row[:3] for row in rows]
    lines = structures.show(made).splitlines()
    assert lines[0] == "yeast"
    assert lines[3].split() == ["a", "0.250", "0.500", "3.0", "-"]
    assert lines[4].split() == ["b", "-", "0.700", "-", "-"]


def test_two_stages_of_letters_weigh_pairs_as_they_were_counted():
    Y = [np.array([0, 1, 0, 1, 0, 1])] * 50
    pairs = chains.pair_scores(Y)
    assert pairs[0, 1] == pytest.approx(np.log(151 / 176))
    unsure = [np.zeros((4, chains.N_LETTERS))]
    unsure[0][0, 0] = 1.0
    assert chains.viterbi(unsure, pairs)[0].tolist() == [0, 1, 0, 1]
    assert chains.right([np.array([0, 1])], [np.array([0, 2])]) == 0.5


def test_kernel_least_squares_on_blurred_letters_solve_their_equations():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, (40, np.prod(chains.SHAPE))).astype(np.float32), np.arange(40) % 3
    soft = chains.blurred(X, 0.7)
    np.testing.assert_allclose(np.linalg.norm(soft, axis=1), np.linalg.norm(X, axis=1), rtol=1e-5)
    assert np.abs(soft - X).max() > 0.1
    model = chains.KernelSquares(blur=0.7, gamma=0.05, alpha=0.1).fit(X, y)
    squares = ((soft[:, None].astype(float) - soft) ** 2).sum(axis=2)
    kernel = np.exp(-0.05 * squares)
    weights = np.linalg.solve(kernel + 0.1 * np.eye(40), np.eye(3)[y] - 1 / 3)
    answers = model.decision_function(X)
    np.testing.assert_allclose(answers, kernel @ weights + 1 / 3, atol=1e-4)
    found = chains.answers_of(model, [X[:10], X[10:]])
    np.testing.assert_array_equal(np.concatenate(found), answers)


def test_losses_of_sets_and_cuts():
    true, found = np.array([[1, 1, 0], [0, 0, 0]]), np.array([[1, 0, 0], [0, 0, 0]])
    losses = [loss(true, found) for loss in label_sets.LOSSES.values()]
    assert losses == pytest.approx([1 / 6, 1 / 2, 1 - (2 / 3 + 1) / 2])
    answers = np.array([[0.4, -0.2, -3.0]])
    assert label_sets.decide_by_cut(answers, true, -0.5).tolist() == [[1, 1, 0]]
    assert label_sets.decide_seen(answers, np.array([[0, 0, 1], [1, 0, 0]]), 0.0).tolist() == [
        [1, 0, 0]
    ]


def test_one_row_of_a_table_is_chosen_with_the_probabilities_of_a_softmax():
    rng = np.random.default_rng(0)
    X, Y = list(rng.normal(size=(30, 5, 2))), rng.integers(0, 5, 30).tolist()
    task = whole_sets.OneOfThem()
    check_task(task, X, Y)
    scores = rng.normal(size=(10, 1))
    stack = StackedParts({"row": scores}, {"row": np.array([0, 5, 10])})
    batch = task.marginals_batch(X[:2], stack)
    for i, own in enumerate((scores[:5], scores[5:])):
        np.testing.assert_allclose(
            batch.expected["row"][5 * i : 5 * i + 5], task.marginals(X[i], own)
        )
        assert batch.log_sums[i] == pytest.approx(np.log(np.exp(own).sum()))
    model = whole_sets.likelihood(np.array(X), np.argmax(np.array(X)[..., 1], axis=1))
    found = whole_sets.probabilities(model, np.array(X))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_array_equal(found.argmax(axis=1), np.array(X)[..., 1].argmax(axis=1))


def test_a_wide_set_has_the_runs_of_the_others_with_fewer_settings(monkeypatch):
    tried = {}

    def noted(label, candidates, data, *, whole):
        tried.setdefault(label, []).append(len(candidates))
        return []

    monkeypatch.setattr(label_sets, "with_classifier", noted)
    assert [run.name for run in label_sets.WIDE_RUNS] == [run.name for run in label_sets.RUNS]
    for runs in (label_sets.RUNS, label_sets.WIDE_RUNS):
        for run in runs[1:]:
            run.rows(None, False)
            run.rows(None, True)
    assert tried == {"extra trees": [3, 1, 2, 1], "lightgbm": [3, 1, 1, 1]}


def test_decisions_on_sets_have_the_least_expected_loss():
    rng = np.random.default_rng(1)
    sets = np.unique(rng.integers(0, 2, (12, 4)), axis=0)
    shares = rng.dirichlet(np.ones(len(sets)), size=20)
    among = {"hamming": np.array(list(product((0, 1), repeat=4))), "subset": sets, "1 - F1": sets}
    for metric, loss in label_sets.LOSSES.items():
        found = whole_sets.decide(metric, shares, sets)
        losses = np.array([[loss(y[None], z[None]) for y in sets] for z in among[metric]])
        least = (shares @ losses.T).min(axis=1)
        own = [[loss(y[None], z[None]) for y in sets] for z in found]
        np.testing.assert_allclose((shares * np.array(own)).sum(axis=1), least)


def test_features_of_a_set_do_not_know_the_fold_of_the_row():
    Y = np.array([[1, 0]] * 6 + [[0, 1]] * 3 + [[1, 1]])
    candidates = whole_sets.Candidates.of(Y)
    counts = candidates.counts_outside()
    inside = np.bincount(candidates.true) - counts
    own = inside[np.arange(10), candidates.true]
    assert (own >= 1).all()
    assert (inside.sum(axis=1) == 2).all()
    answers = np.array([[0.3, -2.0]])
    p = 1 / (1 + np.exp(-answers[0]))
    wanted = [np.prod(np.where(z == 1, p, 1 - p)) for z in candidates.sets]
    np.testing.assert_allclose(np.exp(candidates.by_labels(answers))[0], wanted)


def test_records_are_compared_where_they_agree_in_a_key():
    empty = dict.fromkeys(pairs.FIELDS, "")
    left = [{**empty, "given_name": "anna", "postcode": "12"}, {**empty, "surname": "ray"}]
    right = [{**empty, "postcode": "99"}, {**empty, "given_name": "anne", "postcode": "12"}]
    x = pairs.candidates(left, right)
    assert x.pairs.tolist() == [[0, 1]]  # nothing in common is no key
    # Letter pairs " a", "an", "nn" of 5 and 5; only the name and the postcode are not empty.
    assert x.features[0, :2].tolist() == [0.6, 0.0]
    assert x.features[0, 1::2].sum() == len(pairs.FIELDS) - 2
    assert pairs.known(x, np.array([1, 0])).tolist() == [1, -1]
    # A true pair that is no candidate counts as missed.
    part = pairs.Pairs([x], [np.array([1, -1])])
    task = MatchingTask(unmatched=True)
    assert pairs.error(task, lambda x: np.ones(1, int), part) == pytest.approx(100 / 3)


def test_scores_of_a_hierarchy_are_closed_and_count_where_they_are_evaluated():
    Y = np.array([[1, 0, 0], [1, 1, 1], [1, 0, 1]])
    task = HierarchicalMultiLabelTask(3, [[0, 1]])
    counts, part = np.array([True, True, False]), np.array([0, 2, 2])
    data = hierarchies.Rows(np.zeros((3, 1)), Y, part, counts, task)
    found = np.array([[0.1, 0.9, 0.0], [0.8, 0.2, 0.0]])
    # 0.9, 0.9, 0.8 are right, and the label above has the score of the one below it.
    assert hierarchies.score(data, hierarchies.TEST, found) == 1.0


def test_models_of_all_directions_of_the_labels_are_those_of_the_labels():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 4)), rng.integers(0, 2, (40, 5))
    (alone,) = hierarchies.kernel("rbf", 1.0, 1.0, 4, 5)
    centred = Y - Y.mean(axis=0)
    wanted = alone.fit(X, centred).predict(X[:7]) + Y.mean(axis=0)
    found = hierarchies.by_directions(alone, 5).fit(X, Y).predict(X[:7])
    np.testing.assert_allclose(found, wanted, atol=1e-8)


def test_answers_that_are_best_together_are_found_one_by_one():
    rng = np.random.default_rng(0)
    target = np.array([0.0, 1.0, 0.0, 1.0])
    found = {name: rng.random(4) for name in "abcd"} | {"low": target - 0.3, "high": target + 0.6}

    def value(mean):
        return -float(np.abs(mean - target).sum())

    members = hierarchies.best_together(found, value)
    assert members == ["low", "high", "low"]  # -0.3 + 0.6 - 0.3: nothing is left to gain
    assert value(np.mean([found[name] for name in members], axis=0)) == pytest.approx(0.0)


def test_words_of_a_chunk_are_described_by_their_letters_and_their_neighbours():
    tokens = [("Boeing-747", "NNP", "B-NP"), ("a", "DT", "B-NP")]
    first, second = chunks.described(tokens)
    assert chunks.shape("Boeing-747") == "Aa-0"
    letters = {"first bo", "first boe", "last 47", "last 747", "last -747", "shape0 Aa-0"}
    assert letters | {"around _ a", "wp1 Boeing-747 DT", "pw1 NNP a"} <= set(first)
    assert second.count("first a") == 1  # the beginnings of a short word are the same


def test_many_labels_of_a_file_reach_scikit_learn_unmixed(tmp_path):
    Y = np.eye(300, dtype=np.uint8)
    split, parents = np.zeros(300, np.int8), np.full(300, -1)
    arrays = {"X": Y, "Y": Y, "split": split, "evaluated": split == 0, "parents": parents}
    np.savez(tmp_path / "own.npz", **arrays)
    data = hierarchies.read(tmp_path / "own.npz")
    np.testing.assert_array_equal(LabelBinarizer().fit_transform(data.Y), Y)


def test_models_on_answers_are_trained_for_a_loss_or_for_the_likelihood():
    hinge = label_sets.linear("f1", "all", 1.0)
    assert (hinge.objective, hinge.loss, hinge.outputs) == ("svm", "f1", "all")
    paired = label_sets.linear(label_sets.LIKELIHOOD, label_sets.PAIRED, 1.0)
    assert (paired.objective, paired.outputs, paired.pairs) == ("l1_log_loss", "seen", True)
