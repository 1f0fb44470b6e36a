"""Chunk scores are those of conlleval, and tagged files come back as they were."""

import pickle
from io import StringIO
from itertools import groupby, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from structboost import StructBoostTagger
from structboost.tasks.chunk_tags import SCHEMES, first_fault, observed_pairs
from structboost.text import ChunkScorer, chunk_scores, convert_tags, list_chunks, read_tagged
from tests.helpers.refusals import refused


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
@settings(max_examples=300)
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
@given(PAIRS, st.data())
@settings(max_examples=100)
def test_tokens_without_a_true_tag_are_left_out_and_cut_the_sequence(pairs, data):
    holed = [
        [(data.draw(st.sampled_from([None, np.nan, a, a, a])), b) for a, b in x] for x in pairs
    ]
    pieces = [
        list(piece)
        for x in holed
        for is_known, piece in groupby(x, lambda token: isinstance(token[0], str))
        if is_known
    ]
    assert repr(chunk_scores(*sides(holed))) == repr(chunk_scores(*sides(pieces)))


@given(st.lists(TAGS, max_size=8), st.sampled_from(SCHEMES))
def test_conversion_keeps_the_chunks_and_follows_the_scheme(tags, scheme):
    (in_scheme,) = convert_tags([tags], scheme)
    assert list_chunks(in_scheme) == list_chunks(tags)
    assert first_fault(observed_pairs([in_scheme]), scheme) is None


def test_prefixes_alone_mark_chunks_without_a_kind_and_without_chunks_the_score_is_0():
    scores = chunk_scores([["B", "I", "O"]], [["B", "O", "O"]])
    assert list(scores.by_kind) == [""]
    assert convert_tags([["B", "I", "O"]], "bioes") == [["B", "E", "O"]]
    assert convert_tags([["B", "B"]], "iob1") == [["I", "B"]]
    for y in ([], [[]], [["O"]]):
        assert chunk_scores(y, y).total.f1 == 0.0


@pytest.mark.parametrize("container", [list, tuple, np.array, pd.Series])
def test_containers_of_all_types_give_equal_scores(container):
    y_true, y_pred = ([container(["B-x", "O"]), container(["I-x", t])] for t in ("I-x", "O"))
    assert chunk_scores(y_true, y_pred).total.f1 == 0.5


@pytest.mark.parametrize(
    ("y_true", "y_pred", "error", "match"),
    [
        (["O"], ["O"], TypeError, r"y_true\[0\] is 'O'"),
        ([["O"]], [["O"], []], ValueError, "y_true has 1 sequences and y_pred 2, .* index 1"),
        ([["O"]], [["O", "O"]], ValueError, "index 0 differ in length"),
        ([["O"], ["PER"]], [[]] * 2, ValueError, r"y_true\[1\]\[0\] is 'PER'; give O, or B"),
        ([["O"]], [[None]], ValueError, r"y_pred\[0\]\[0\] is None"),
    ],
)
def test_unusable_tags_raise_with_a_remedy(y_true, y_pred, error, match):
    with pytest.raises(error, match=match):
        chunk_scores(y_true, y_pred)


class Told:
    """Tagger that predicts the tags that it is given."""

    predict = staticmethod(list)


def test_metrics_are_those_of_the_scores():
    y_true, y_pred = [["B-x", "O", "B-y", "B-y"]], [["B-x", "B-x", "B-y", "O"]]
    scores = chunk_scores(y_true, y_pred)
    assert scores.by_kind["x"].precision == 0.5
    assert ChunkScorer("precision", kind="x")(Told, y_pred, y_true) == 0.5
    assert ChunkScorer("recall")(Told, y_pred, y_true) == scores.total.recall == 2 / 3
    assert ChunkScorer(kind="z")(Told, y_pred, y_true) == 0.0


WORDS = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo"]
X = [[{"word": word}, {"word": "sleeps"}] for word in WORDS * 4]
Y = [["B-x" if word < "Cz" else "B-y", "O"] for word in WORDS * 4]


def test_scikit_learn_and_the_tagger_select_by_the_scorer():
    scorer = pickle.loads(pickle.dumps(ChunkScorer("recall")))
    assert scorer == ChunkScorer("recall")
    scores = cross_val_score(StructBoostTagger(random_state=0), X, Y, scoring=scorer, cv=2)
    assert scores.tolist() == [1.0, 1.0]
    tagger = clone(StructBoostTagger(scoring=ChunkScorer(), random_state=0)).fit(X, Y)
    assert tagger.score(X, Y) == 1.0
    assert len(tagger.C_path_) > 1


CONLL = "-DOCSTART- -X- O\n\nAda NNP B-PER\nsleeps VBZ O\n\n-DOCSTART- -X- O\nBo NNP B-PER\n"
START = "-DOCSTART- O\n\n"
ENDS = [(end, blank) for end in ("\n", "\r\n", "\r") for blank in ("", " ", "\t")]
SPACES = ["\u00a0", "\u2003", "\u2028", "\x85", "\x0c", "\x1c"]


def by_column(cells):
    return [{"word": word, "column_2": other} for word, other in (cell.split() for cell in cells)]


def of_words(*words):
    return [{"word": word} for word in words]


@pytest.fixture
def file(tmp_path):
    def write(content, encoding="utf-8"):
        path = tmp_path / "corpus.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return write


@pytest.mark.parametrize(
    ("text", "options", "X", "y", "documents"),
    [
        ("Ada\tNNP\tB\nis\tVB\tO\n\nBo\tNN\tB", {}, [["Ada NNP", "is VB"], ["Bo NN"]],
         [["B", "O"], ["B"]], [0, 0]),
        (CONLL, {}, [["Ada NNP", "sleeps VBZ"], ["Bo NNP"]], [["B-PER", "O"], ["B-PER"]], [0, 1]),
        (f"{START}{START}Ada O\n{START}{START}{START}Bo O\n\nCy O\n{START}", {},
         [of_words("Ada"), of_words("Bo"), of_words("Cy")], [["O"]] * 3, [0, 1, 1]),
        ("1 B Ada\n2 O is\n", {"tag": 1}, [[{"word": "1", "column_3": "Ada"},
          {"word": "2", "column_3": "is"}]], [["B", "O"]], [0]),
        ("Ada\nis\n", {"tag": None}, [of_words("Ada", "is")], [[None, None]], [0]),
        *((end.join(["", blank, "Ada B", "", blank, "", "Bo O", blank]), {},
           [of_words("Ada"), of_words("Bo")], [["B"], ["O"]], [0, 0]) for end, blank in ENDS),
        *((f"10{space}000 O\nx O\n", {}, [of_words(f"10{space}000", "x")], [["O", "O"]], [0])
          for space in SPACES),
        ("New York\tB\n\tO\n", {}, [of_words("New York", "")], [["B", "O"]], [0]),
        ("España B\n".encode("utf-8-sig"), {}, [of_words("España")], [["B"]], [0]),
    ],
)  # fmt: skip
def test_files_of_all_layouts_are_read(file, text, options, X, y, documents):
    X = [by_column(x) if isinstance(x[0], str) else x for x in X]
    path = file(text)
    stream = StringIO(path.read_bytes().decode("utf-8-sig"), newline="")
    for lines in (path, path.read_text(encoding="utf-8-sig").split("\n"), stream):
        found = read_tagged(lines, return_documents=True, **options)
        assert found[:2] == (X, y)
        assert found[2].tolist() == documents


@pytest.mark.parametrize(
    ("text", "options", "match"),
    [
        ("Ada O\n".encode("utf-16-le"), {}, "Line 1 .*utf-16"),
        ("Ada O\nEspaña B\n".encode("latin-1"), {}, r"corpus.txt is not in UTF-8 .*0xf1.*latin-1"),
        ("Ada O\n", {"tag": 7}, r"tag is 7, and columns are \['word', 'column_2'\]"),
        ("Ada\nis\n", {}, r"tag is -1, .*, or None if there are no tags"),
        ("Ada O\nBo\n", {}, r"^Line 2 is 'Bo', with 1 columns, and columns are \['word', 'col"),
        ("# id = 1\nAda\tB\n", {"columns": ["word", "tag"]}, "Line 1 is .* with 4 columns"),
    ],
)
def test_unusable_files_raise_with_the_line(file, text, options, match):
    refused(match, read_tagged, file(text), **options)


def test_tags_that_are_no_list_and_lines_of_bytes_are_refused():
    refused("y_true is 3, not a sequence", chunk_scores, 3, [])
    refused("Line 1 is b'Ada B'", read_tagged, [b"Ada B"])
