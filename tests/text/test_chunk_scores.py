"""Chunk scores against conlleval's own walk over the tags, and their use as scorers."""

import pickle
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from structboost import StructBoostTagger
from structboost.tasks.chunk_tags import SCHEMES
from structboost.text import (
    ChunkScorer,
    chunk_f1,
    chunk_scores,
    convert_tags,
    detect_scheme,
    forbidden_pairs,
    list_chunks,
)


def ends_chunk(before, tag):
    (p, j), (q, k) = before, tag
    return (
        (p in "BI" and q in "BOSU") or p in "ESLU" or (p != "O" and j != k)
    )  # fmt: skip


def begins_chunk(before, tag):
    (p, j), (q, k) = before, tag
    return (
        q in "BSU" or (p in "OESLU" and q in "IEL") or (q != "O" and j != k)
    )  # fmt: skip


def conlleval(y_true, y_pred):
    """Counts of one pass over the tokens, as conlleval makes them: true, predicted, correct."""
    n_true, n_predicted, n_correct = {}, {}, {}
    for true, predicted in zip(y_true, y_pred, strict=True):
        a = b = ("O", "")
        open_kind = None
        for tags in zip([*true, "O"], [*predicted, "O"], strict=True):
            c, d = ((tag[0], tag[2:]) for tag in tags)
            if open_kind is not None:
                end_a, end_b = ends_chunk(a, c), ends_chunk(b, d)
                if end_a and end_b and a[1] == b[1]:
                    n_correct[open_kind] = n_correct.get(open_kind, 0) + 1
                    open_kind = None
                elif end_a != end_b or c[1] != d[1]:
                    open_kind = None
            start_a, start_b = begins_chunk(a, c), begins_chunk(b, d)
            if start_a and start_b and c[1] == d[1]:
                open_kind = c[1]
            for starts, kind, counts in ((start_a, c[1], n_true), (start_b, d[1], n_predicted)):
                if starts:
                    counts[kind] = counts.get(kind, 0) + 1
            a, b = c, d
    return n_true, n_predicted, n_correct


TAGS = st.sampled_from(["O", *(f"{p}-{k}" for p, k in product("BIESLU", "xy"))])
PAIRS = st.lists(st.lists(st.tuples(TAGS, TAGS), max_size=8), max_size=4)


def sides(pairs):
    return tuple([[token[k] for token in x] for x in pairs] for k in (0, 1))


@pytest.mark.slow
@given(PAIRS)
@settings(max_examples=300, deadline=None)
def test_counts_are_those_of_conlleval(pairs):
    y_true, y_pred = sides(pairs)
    n_true, n_predicted, n_correct = conlleval(y_true, y_pred)
    scores = chunk_scores(y_true, y_pred)
    assert set(scores.by_kind) == {*n_true, *n_predicted}
    for kind, of_kind in scores.by_kind.items():
        wanted = tuple(counts.get(kind, 0) for counts in (n_true, n_predicted, n_correct))
        assert tuple(of_kind) == wanted
    assert tuple(scores.total) == tuple(
        sum(counts.values()) for counts in (n_true, n_predicted, n_correct)
    )
    tokens = [a == b for x in pairs for a, b in x]
    assert scores.accuracy == pytest.approx(np.mean(tokens) if tokens else 0.0)


@pytest.mark.slow
@given(PAIRS)
@settings(max_examples=200, deadline=None)
def test_errors_are_those_of_a_search_over_pairs_of_chunks(pairs):
    y_true, y_pred = sides(pairs)
    scores = chunk_scores(y_true, y_pred)
    names = ("correct", "other kind", "other borders", "both", "missed", "spurious")
    wanted = {kind: dict.fromkeys(names, 0) for kind in scores.by_kind}
    confusions = {}
    for true, predicted in zip(y_true, y_pred, strict=True):
        a, b = list_chunks(true), list_chunks(predicted)
        for start, end, kind in a:
            near = [c for c in b if c.start < end and start < c.end]
            equal = [c for c in near if (c.start, c.end) == (start, end)]
            if (start, end, kind) in b:
                fate = "correct"
            elif equal:
                fate = "other kind"
                confused = (kind, equal[0].kind)
                confusions[confused] = confusions.get(confused, 0) + 1
            elif any(c.kind == kind for c in near):
                fate = "other borders"
            else:
                fate = "both" if near else "missed"
            wanted[kind][fate] += 1
        for start, end, kind in b:
            wanted[kind]["spurious"] += not any(c.start < end and start < c.end for c in a)
    assert scores.errors == wanted
    assert scores.confusions == confusions


@pytest.mark.slow
@given(PAIRS, st.data())
@settings(max_examples=100, deadline=None)
def test_tokens_without_a_true_tag_are_left_out_and_cut_the_sequence(pairs, data):
    y_true, y_pred = sides(pairs)
    pieces = ([], [])
    holed = [list(tags) for tags in y_true]
    for true, predicted in zip(holed, y_pred, strict=True):
        piece = ([], [])
        for t in range(len(true)):
            if data.draw(st.integers(0, 3)):
                piece[0].append(true[t])
                piece[1].append(predicted[t])
                continue
            true[t] = data.draw(st.sampled_from([None, float("nan")]))
            for of, part in zip(pieces, piece, strict=True):
                of.append(part)
            piece = ([], [])
        for of, part in zip(pieces, piece, strict=True):
            of.append(part)
    assert repr(chunk_scores(holed, y_pred)) == repr(chunk_scores(*pieces))


@given(st.lists(TAGS, max_size=8), st.sampled_from(SCHEMES))
def test_conversion_keeps_the_chunks_and_follows_the_scheme(tags, scheme):
    tags_in_scheme = convert_tags(tags, scheme)
    assert list_chunks(tags_in_scheme) == list_chunks(tags)
    assert convert_tags([tags_in_scheme], scheme, scheme=scheme) == [tags_in_scheme]


def test_prefixes_alone_mark_chunks_without_a_kind():
    scores = chunk_scores([["B", "I", "O"]], [["B", "O", "O"]])
    assert list(scores.by_kind) == [""]
    assert convert_tags(["B", "I", "O"], "bioes") == ["B", "E", "O"]


@pytest.mark.parametrize(
    "container",
    [tuple, np.array, pd.Series, lambda tags: np.array(tags, dtype=object), iter],
)
def test_containers_of_all_types_give_equal_scores(container):
    y_true, y_pred = [["B-x", "O"], ["I-x", "I-x"]], [["B-x", "O"], ["I-x", "O"]]
    given_true, given_pred = ([container(tags) for tags in y] for y in (y_true, y_pred))
    assert chunk_f1(given_true, given_pred) == chunk_f1(y_true, y_pred) == 0.5


def test_empty_inputs_score_zero():
    assert chunk_f1([], []) == chunk_f1([[]], [[]]) == chunk_f1([["O"]], [["O"]]) == 0.0
    assert "micro" in repr(chunk_scores([["O"]], [["O"]]))


@pytest.mark.parametrize(
    ("y_true", "y_pred", "settings", "error", "match"),
    [
        (["O"], ["O"], {}, TypeError, r"y_true\[0\] is 'O'; give a list of tags for each"),
        ("O", "O", {}, TypeError, "y_true is 'O'; give a list"),
        (None, [], {}, TypeError, "y_true is None"),
        ([{"O"}], [["O"]], {}, TypeError, r"y_true\[0\] is \{'O'\}; give a list of tags"),
        ([{"O": 1}], [["O"]], {}, TypeError, r"y_true\[0\] is \{'O': 1\}; give"),
        ([pd.DataFrame({"O": ["O"]})], [["O"]], {}, TypeError, r"y_true\[0\] is .*; give"),
        ([["O"]], [["O"], []], {}, ValueError, "y_true has 1 sequences and y_pred 2"),
        ([["O"]], [["O", "O"]], {}, ValueError, r"y_true\[0\] has 1 tags and y_pred\[0\] 2"),
        ([["O"], ["PER"]], [[]] * 2, {}, ValueError, r"y_true\[1\]\[0\] is 'PER'; give O, or B"),
        ([["O"]], [[None]], {}, ValueError, r"y_pred\[0\]\[0\] is None"),
        ([[0]], [["O"]], {}, ValueError, r"y_true\[0\]\[0\] is 0"),
        ([[["O"]]], [["O"]], {}, ValueError, r"y_true\[0\]\[0\] is \['O'\]"),
        ([["O", "I-x"]], [["O", "O"]], {"scheme": "iob2"}, ValueError, "'I-x' after 'O' .*'iob2'"),
        ([["O"]], [["O"]], {"scheme": "iob3"}, ValueError, "scheme is 'iob3'; choose one of"),
        ([["O"]], [["O"]], {"average": "mean"}, ValueError, "average is 'mean'; choose"),
        ([["O"]], [["O"]], {"kind": 1}, TypeError, "kind is 1"),
        ([["O"]], [["O"]], {"kind": "x", "average": "macro"}, ValueError, "no macro mean"),
    ],
)
def test_unusable_tags_and_parameters_raise_with_a_remedy(y_true, y_pred, settings, error, match):
    with pytest.raises(error, match=match):
        chunk_f1(y_true, y_pred, **settings)


def test_a_kind_without_chunks_warns():
    with pytest.warns(UserWarning, match="kind is 'PERS', of which there is no chunk"):
        assert chunk_f1([["B-PER"]], [["B-PER"]], kind="PERS") == 0.0


def test_means_and_metrics_are_those_of_the_scores():
    y_true, y_pred = [["B-x", "O", "B-y", "B-y"]], [["B-x", "B-x", "B-y", "O"]]
    scores = chunk_scores(y_true, y_pred)
    assert scores.by_kind["x"].precision == 0.5
    assert ChunkScorer("precision", kind="x").score(y_true, y_pred) == 0.5
    assert ChunkScorer("recall").score(y_true, y_pred) == scores.total.recall == 2 / 3
    for metric in ("precision", "recall", "f1"):
        mean = np.mean([getattr(of, metric) for of in scores.by_kind.values()])
        assert ChunkScorer(metric, average="macro").score(y_true, y_pred) == pytest.approx(mean)


def test_detection_and_forbidden_pairs_follow_the_scheme():
    assert detect_scheme([["B-x", "I-x"], ["O"]]) == "iob2"
    assert ("O", "I-x") in forbidden_pairs(["O", "B-x", "I-x"], "iob2")
    with pytest.raises(ValueError, match="tags has 'S-x', which 'iob2' does not have"):
        forbidden_pairs(["O", "S-x"], "iob2")
    with pytest.raises(TypeError, match="tags is 'O'"):
        convert_tags("O", "iob2")
    with pytest.raises(ValueError, match=r"tags\[0\]\[1\] is None"):
        convert_tags([["O", None]], "iob2")


WORDS = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo"]
X = [[{"word": word}, {"word": "sleeps"}] for word in WORDS * 4]
Y = [["B-x" if word < "Cz" else "B-y", "O"] for word in WORDS * 4]


def test_scikit_learn_selects_by_the_scorer():
    scorer = pickle.loads(pickle.dumps(ChunkScorer(average="macro")))
    assert scorer == ChunkScorer(average="macro")
    scores = cross_val_score(StructBoostTagger(random_state=0), X, Y, scoring=scorer, cv=2)
    assert scores.tolist() == [1.0, 1.0]
    grid = GridSearchCV(StructBoostTagger(random_state=0), {"C": [1e-3, 1e3]}, scoring=scorer, cv=2)
    assert grid.fit(X, Y).best_score_ == 1.0


def test_the_tagger_chooses_c_by_the_scorer():
    tagger = clone(StructBoostTagger(scoring=ChunkScorer(), random_state=0)).fit(X, Y)
    assert tagger.score(X, Y) == 1.0
    assert len(tagger.C_path_) > 1


def test_chunks_of_several_sequences_are_asked_for_one_by_one():
    with pytest.raises(TypeError, match=r"give the tags of one sequence, such as tags\[0\]"):
        list_chunks([["B-PER", "O"]])
