"""Schemes of chunk tags against enumeration, and chunk F1 against a count by hand."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost.tasks.chunk_tags import (
    SCHEMES,
    ChunkTags,
    can_follow,
    converted,
    first_fault,
    forbidden_by_scheme,
    observed_pairs,
    scheme_of,
)

ALPHABETS = {"iob1": "BI", "iob2": "BI", "bioes": "BIES", "bilou": "BILU"}


def segmentations(n_tokens, kinds="xy"):
    """All chunks of a sequence, as lists of (start, end, kind)."""
    if n_tokens == 0:
        yield []
        return
    for rest in segmentations(n_tokens - 1, kinds):
        yield rest
    for size in range(1, n_tokens + 1):
        for rest in segmentations(n_tokens - size, kinds):
            for kind in kinds:
                yield [*rest, (n_tokens - size, n_tokens, kind)]


def coded_by_hand(chunks, n_tokens, scheme):
    tags = ["O"] * n_tokens
    ends = {end: kind for _, end, kind in chunks}
    for start, end, kind in chunks:
        for t in range(start, end):
            is_first, is_last = t == start, t == end - 1
            if scheme == "iob1":
                prefix = "B" if is_first and start > 0 and ends.get(start) == kind else "I"
            elif scheme == "iob2":
                prefix = "B" if is_first else "I"
            else:
                letters = scheme.upper().replace("O", "")
                names = dict(zip("BIES" if scheme == "bioes" else "BILU", "BIES", strict=True))
                wanted = "S" if is_first and is_last else "B" if is_first else "EI"[not is_last]
                prefix = next(p for p in letters if names[p] == wanted)
            tags[t] = f"{prefix}-{kind}"
    return tags


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tags_of_all_chunks_follow_their_scheme_and_no_other_tags_do(scheme):
    tags = ["O", *(f"{p}-{k}" for p in ALPHABETS[scheme] for k in "xy")]
    for n in (1, 2, 3):
        allowed = {tuple(coded_by_hand(c, n, scheme)) for c in segmentations(n)}
        assert {tuple(converted(c, n, scheme)) for c in segmentations(n)} == allowed
        for y in product(tags, repeat=n):
            assert (first_fault(observed_pairs([y]), scheme) is None) == (y in allowed), y


@pytest.mark.parametrize("scheme", SCHEMES)
def test_forbidden_pairs_are_those_that_no_sequence_has(scheme):
    tags = ["O", *(f"{p}-{k}" for p in ALPHABETS[scheme] for k in "xy")]
    pairs = set()
    for n in (1, 2, 3, 4):
        for chunks in segmentations(n):
            y = [None, *coded_by_hand(chunks, n, scheme), None]
            pairs |= set(pairwise(y))
    every = {(a, b) for a in [None, *tags] for b in [None, *tags]} - {(None, None)}
    assert set(forbidden_by_scheme(tags, scheme)) == every - pairs


def test_a_tag_of_another_scheme_follows_nothing():
    assert not can_follow("E-x", "O", "iob2")
    assert not can_follow("O", "S-x", "bilou")


@pytest.mark.parametrize(
    ("y", "scheme"),
    [
        ([["B-x", "I-x", "O"]], "iob2"), ([["I-x", "B-x", "O"]], "iob1"), ([["O"]], "iob2"),
        ([["B-x", "E-x", "S-x"]], "bioes"), ([["B-x", "L-x", "U-x"]], "bilou"), ([], "iob2"),
        ([["B-x", "O"], ["I-x"]], None), ([["B-x", None, "I-x"]], "iob2"), ([["B", "I"]], "iob2"),
        ([["S-x", "U-x"]], None),
    ],
)  # fmt: skip
def test_the_scheme_is_the_one_that_allows_all_pairs(y, scheme):
    assert scheme_of(observed_pairs(y)) == scheme


def chunks_by_hand(tags):
    """Chunks by the two questions of conlleval at each token, whether one ends or begins."""
    chunks, start = set(), None
    for t, tag in enumerate([*tags, "O"]):
        prefix, kind = tag[:1], tag[2:]
        ends = prefix in "OBS" or kind != tags[t - 1][2:] or tags[t - 1][:1] in "ES"
        if start is not None and ends:
            chunks.add((start, t, tags[start][2:]))
            start = None
        if prefix != "O" and start is None:
            start = t
    return chunks


CLASSES = np.array(sorted(["O", "B-x", "I-x", "E-x", "S-x", "B-y", "I-y"]))


@pytest.mark.slow
@given(st.lists(st.tuples(st.lists(st.tuples(*2 * [st.integers(0, 6)]), max_size=6)), max_size=5))
@settings(max_examples=200)
def test_matches_of_each_sequence_equal_a_count_by_hand(data):
    pairs = [own for (own,) in data]
    true, predicted = (np.array([own[k] for x in pairs for own in x], int) for k in (0, 1))
    starts = np.cumsum([0] + [len(x) for x in pairs])
    wanted = []
    for x in pairs:
        a, b = (chunks_by_hand([str(CLASSES[own[k]]) for own in x]) for k in (0, 1))
        wanted.append((len(a & b), len(a) + len(b)))
    matches = ChunkTags(CLASSES).matches(true, predicted, starts)
    assert matches.T.tolist() == [list(numbers) for numbers in wanted]


@pytest.mark.parametrize(
    ("tags", "is_scheme"),
    [
        (["B-x", "I-x", "O"], True), (["I-x", "O"], True), (["DET", "NOUN"], False),
        (["B-x", "I-x"], False), (["B-", "O"], False), ([0, 1], False), (["OTHER", "O"], False),
    ],
)  # fmt: skip
def test_a_scheme_of_chunks_has_o_and_prefixes(tags, is_scheme):
    assert ChunkTags.is_scheme(np.array(tags)) is is_scheme
