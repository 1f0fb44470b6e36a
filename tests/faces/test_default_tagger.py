"""The default tagger on tokens of zeros and ones: a linear chain by its likelihood."""

from itertools import pairwise

import numpy as np
import pytest

from structboost import StructBoostTagger


def rare_names(n=300, seed=0):
    """Sentences of which few words are names: one tag has about 95 % of the tokens."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        words = [f"word{i}" for i in rng.integers(0, 80, rng.integers(4, 10))]
        tags = ["O"] * len(words)
        if rng.random() < 0.4:
            k = rng.integers(0, len(words))
            words[k], tags[k] = f"place{rng.integers(20)}", "B-LOC"
        around = ["", *words, ""]
        X.append(
            [
                {"word": around[i + 1], "before": around[i], "first": i == 0}
                for i in range(len(words))
            ]
        )
        y.append(tags)
    return X, y


def f1(y, found):
    true, given = np.concatenate(y) != "O", np.concatenate(found) != "O"
    return 2 * np.sum(true & given) / (true.sum() + given.sum())


@pytest.fixture(scope="module")
def tagger():
    X, y = rare_names()
    return StructBoostTagger().fit(X, y)


@pytest.mark.slow
def test_rare_names_are_found_without_settings(tagger):
    X, y = rare_names(seed=1)
    assert f1(y, tagger.predict(X)) > 0.9
    assert {entry["weak_learner"] for entry in tagger.C_path_} == {"linear"}
    assert tagger.history_[-1]["gap"] <= tagger.tol


@pytest.mark.slow
def test_the_default_equals_the_linear_learner(tagger):
    X, y = rare_names()
    other = StructBoostTagger(weak_learner="linear").fit(X, y)
    assert other.C_ == tagger.C_
    assert other.predict_marginals(X[:3]) == tagger.predict_marginals(X[:3])


def test_marginals_equal_a_sum_over_all_sequences_of_tags(tagger):
    X = rare_names(seed=2)[0]
    x = min(X, key=len)
    rows, _, _ = tagger._reader.read([x])
    tokens, pairs = tagger.model_.scorer("token").raw_scores(rows), tagger.transitions_
    sums = np.zeros(tokens.shape)
    for tags in np.ndindex(*[tokens.shape[1]] * len(x)):
        score = sum(tokens[t, k] for t, k in enumerate(tags))
        weight = np.exp(score + sum(pairs[a, b] for a, b in pairwise(tags)))
        sums[np.arange(len(x)), tags] += weight
    wanted = sums / sums.sum(axis=1, keepdims=True)
    (found,) = tagger.predict_marginals([x])
    np.testing.assert_allclose([list(own.values()) for own in found], wanted, rtol=1e-6)


def test_a_loaded_tagger_predicts_the_same(tagger, tmp_path):
    X, _ = rare_names(seed=3)
    tagger.save(tmp_path / "tagger")
    loaded = StructBoostTagger.load(tmp_path / "tagger")
    assert loaded.outside_offset_ == tagger.outside_offset_
    assert loaded.predict(X) == tagger.predict(X)
    assert loaded.predict_marginals(X[:5]) == tagger.predict_marginals(X[:5])


def test_a_lowered_o_gives_more_chunks(tagger):
    X, _ = rare_names(seed=4)
    before = tagger.outside_offset_
    counts = []
    for offset in (0.0, 2.0, 50.0):
        tagger.outside_offset_ = offset
        counts.append(int(np.sum(np.concatenate(tagger.predict(X)) != "O")))
    tagger.outside_offset_ = before
    assert counts[0] <= counts[1] < counts[2] == sum(len(x) for x in X)


def test_tags_without_a_scheme_of_chunks_keep_their_scores():
    X, y = rare_names()
    y = [["noun" if tag == "O" else "name" for tag in tags] for tags in y]
    assert StructBoostTagger().fit(X, y).outside_offset_ == 0


def test_unknown_tags_weights_and_forbidden_pairs_work_together():
    X, y = rare_names()
    y = [[None if i == 2 else tag for i, tag in enumerate(tags)] for tags in y]
    weights = np.r_[np.zeros(20), np.ones(len(X) - 20)]
    tagger = StructBoostTagger(forbidden=[("B-LOC", "B-LOC"), (None, "B-LOC")])
    kept = [i for i, tags in enumerate(y) if tags[0] != "B-LOC"]
    kept = [i for i in kept if ("B-LOC", "B-LOC") not in pairwise(y[i])]
    X, y, weights = [X[i] for i in kept], [y[i] for i in kept], weights[kept]
    tagger.fit(X, y, sample_weight=weights)
    found = tagger.predict(X)
    assert all(tags[0] != "B-LOC" for tags in found)
    assert f1(*zip(*[
        (a, b) for tags, own in zip(y, found, strict=True)
        for a, b in [([t for t in tags if t], [o for t, o in zip(tags, own, strict=True) if t])]
    ], strict=True)) > 0.9  # fmt: skip


def test_a_parameter_that_only_boosting_reads_is_named():
    X, y = rare_names(30)
    with pytest.raises(ValueError, match="early_stopping"):
        StructBoostTagger(early_stopping=True).fit(X, y)


@pytest.mark.slow
def test_memory_grows_with_the_square_of_the_tags():
    n = 80
    y = [[f"t{(3 * i + j) % n}" for j in range(10)] for i in range(n // 2)]
    X = [[{"word": tag} for tag in tags] for tags in y]
    tagger = StructBoostTagger().fit(X, y)
    assert tagger.model_.matrix("step").shape == (1, n**2)
    assert tagger.predict(X[:3]) == y[:3]
