"""Chunk scores are those of conlleval, and tagged files come back as they were."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import stat
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from structboost import StructBoostTagger
from structboost.tasks.chunk_tags import SCHEMES
from structboost.text import (
    ChunkScorer,
    TaggedFileError,
    chunk_f1,
    chunk_scores,
    convert_tags,
    detect_scheme,
    forbidden_pairs,
    iter_tagged,
    list_chunks,
    read_tagged,
    write_tagged,
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
    [tuple, np.array, pd.Series, iter],
)
def test_containers_of_all_types_give_equal_scores(container):
    y_true, y_pred = [["B-x", "O"], ["I-x", "I-x"]], [["B-x", "O"], ["I-x", "O"]]
    given_true, given_pred = ([container(tags) for tags in y] for y in (y_true, y_pred))
    assert chunk_f1(given_true, given_pred) == chunk_f1(y_true, y_pred) == 0.5


def test_empty_inputs_score_zero():
    assert chunk_f1([], []) == chunk_f1([[]], [[]]) == chunk_f1([["O"]], [["O"]]) == 0.0


@pytest.mark.parametrize(
    ("y_true", "y_pred", "settings", "error", "match"),
    [
        (["O"], ["O"], {}, TypeError, r"y_true\[0\] is 'O'; give a list of tags for each"),
        ([{"O"}], [["O"]], {}, TypeError, r"y_true\[0\] is \{'O'\}; give a list of tags"),
        ([pd.DataFrame({"O": ["O"]})], [["O"]], {}, TypeError, r"y_true\[0\] is .*; give"),
        ([["O"]], [["O"], []], {}, ValueError, "y_true has 1 sequences and y_pred 2"),
        ([["O"]], [["O", "O"]], {}, ValueError, r"y_true\[0\] has 1 tags and y_pred\[0\] 2"),
        ([["O"], ["PER"]], [[]] * 2, {}, ValueError, r"y_true\[1\]\[0\] is 'PER'; give O, or B"),
        ([["O"]], [[None]], {}, ValueError, r"y_pred\[0\]\[0\] is None"),
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
    with pytest.raises(ValueError, match=r"tags\[0\]\[1\] is None"):
        convert_tags([["O", None]], "iob2")


WORDS = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo"]
X = [[{"word": word}, {"word": "sleeps"}] for word in WORDS * 4]
Y = [["B-x" if word < "Cz" else "B-y", "O"] for word in WORDS * 4]


def test_scikit_learn_and_the_tagger_select_by_the_scorer():
    scorer = pickle.loads(pickle.dumps(ChunkScorer(average="macro")))
    assert scorer == ChunkScorer(average="macro")
    scores = cross_val_score(StructBoostTagger(random_state=0), X, Y, scoring=scorer, cv=2)
    assert scores.tolist() == [1.0, 1.0]
    tagger = clone(StructBoostTagger(scoring=ChunkScorer(), random_state=0)).fit(X, Y)
    assert tagger.score(X, Y) == 1.0
    assert len(tagger.C_path_) > 1


def test_chunks_of_several_sequences_are_asked_for_one_by_one():
    with pytest.raises(TypeError, match=r"give the tags of one sequence, such as tags\[0\]"):
        list_chunks([["B-PER", "O"]])


CONLL = "-DOCSTART- -X- O\n\nAda NNP B-PER\nsleeps VBZ O\n\n-DOCSTART- -X- O\nBo NNP B-PER\n"
# Without the time, which would be a part of the names of tests.
ZIPPED = gzip.compress(CONLL.encode(), mtime=0)
START = "-DOCSTART- O\n\n"
ENDS = [(end, blank) for end in ("\n", "\r\n", "\r") for blank in ("", " ", "\t")]
SPACES = ["\u00a0", "\u2003", "\u2028", "\x85", "\x0c", "\x1c"]


def by_column(cells, name="column_2"):
    return [{"word": word, name: other} for word, other in (cell.split() for cell in cells)]


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
        (ZIPPED, {}, [["Ada NNP", "sleeps VBZ"], ["Bo NNP"]],
         [["B-PER", "O"], ["B-PER"]], [0, 1]),
        (f"{START}{START}Ada O\n{START}{START}{START}Bo O\n\nCy O\n{START}", {},
         [of_words("Ada"), of_words("Bo"), of_words("Cy")], [["O"]] * 3, [0, 1, 1]),
        ("1 B Ada\n2 O is\n", {"columns": [None, "tag", "word"], "tag": "tag"},
         [of_words("Ada", "is")], [["B", "O"]], [0]),
        ("1 B Ada\n2 O is\n", {"tag": 1}, [[{"word": "1", "column_3": "Ada"},
          {"word": "2", "column_3": "is"}]], [["B", "O"]], [0]),
        ("Ada\nis\n", {"tag": None}, [of_words("Ada", "is")], [[None, None]], [0]),
        *((end.join(["", blank, "Ada B", "", blank, "", "Bo O", blank]), {},
           [of_words("Ada"), of_words("Bo")], [["B"], ["O"]], [0, 0]) for end, blank in ENDS),
        *((f"10{space}000 O\nx O\n", {}, [of_words(f"10{space}000", "x")], [["O", "O"]], [0])
          for space in SPACES),
        ("New York\tB\n\tO\n", {}, [of_words("New York", "")], [["B", "O"]], [0]),
        ("# id = 1\nAda\tB\n# no, it is not\n#\tO\n", {"comment": "# "}, [of_words("Ada", "#")],
         [["B", "O"]], [0]),
        *(("España B\n".encode(encoding), {"encoding": encoding.removesuffix("-sig")},
           [of_words("España")], [["B"]], [0]) for encoding in ("utf-8-sig", "utf-16", "latin-1")),
    ],
)  # fmt: skip
def test_files_of_all_layouts_are_read(file, text, options, X, y, documents):
    X = [by_column(x) if isinstance(x[0], str) else x for x in X]
    found = read_tagged(file(text), return_documents=True, **options)
    assert found[:2] == (X, y)
    assert found[2].tolist() == documents


def test_letters_that_are_lost_warn_once(file):
    with pytest.warns(UserWarning, match=r"corpus.txt, line 2 has U\+FFFD .*original") as warned:
        read_tagged(file("Ada O\nEspa\ufffda O\n\ufffd O\n"))
    assert len(warned) == 1


@pytest.mark.parametrize(
    ("text", "options", "error", "match"),
    [
        ("", {}, TaggedFileError, "corpus.txt has no tokens"),
        ("Ada O\nEspaña B\n".encode("latin-1"), {}, TaggedFileError, "line 2 has the byte 0xf1, "),
        ("Ada O\n".encode("utf-16")[:-1], {"encoding": "utf-16"}, TaggedFileError, "has bytes"),
        *((ZIPPED[:end], {}, TaggedFileError, r"after line \d+: .* damaged")
          for end in (20, -9)),
        ("Ada O\nBo\n", {}, TaggedFileError, r"line 2 has 1 column \('Bo'\), and line 1 has 2"),
        ("# id = 1\nAda\tB\n", {"columns": ["word", "tag"]}, TaggedFileError, "line 1 has 4 col"),
        ("Ada\n", {}, TaggedFileError, r"line 1 \('Ada'\) has no column beside the tag"),
        ("Ada\t\n", {}, TaggedFileError, "line 1 has an empty tag"),
        ("Ada O\n", {"tag": 2}, ValueError, "tag is 2, and line 1 of .* has 2 columns"),
        ("Ada O\n", {"tag": "ner"}, ValueError, r"give columns, too, such as .*'ner'\]"),
        ("Ada O\n", {"columns": ["word", "pos"], "tag": "ner"}, ValueError, "give one of columns"),
        ("Ada O\n", {"columns": "word"}, TypeError, "columns is 'word'; give a list"),
        ("Ada O\n", {"columns": ["a", "a"]}, ValueError, "give each column another name"),
        ("Ada O\n", {"separator": ""}, TypeError, "separator is ''"),
        ("Ada O\n", {"comment": 1}, TypeError, "comment is 1"),
        ("Ada O\n", {"encoding": "utf-99"}, ValueError, "encoding is 'utf-99'"),
    ],
)  # fmt: skip
def test_unusable_files_and_parameters_raise_with_a_remedy(file, text, options, error, match):
    with pytest.raises(error, match=match):
        read_tagged(file(text), **options)


def test_a_missing_file_raises_as_open_does(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_tagged(tmp_path / "none.txt")
    with pytest.raises(TypeError, match="path is 3; give the name of a file"):
        read_tagged(3)
    with pytest.raises(TypeError, match="is a binary file; open it as text"):
        read_tagged(io.BytesIO(b"Ada O\n"))


def test_sentences_are_read_one_by_one(file):
    sentences = iter_tagged(file("Ada B\n\n\nBo O\nmissing\n"))
    first = next(sentences)
    assert (first.tags, first.document, first.line) == (["B"], 0, 1)
    with pytest.raises(TaggedFileError, match="line 5"):
        next(sentences)


PRINTABLE = st.text(min_size=1, max_size=4).filter(
    lambda text: not set(text) & set("\t\r\n\ufeff") and text.strip(" ") and text[:1] != "-"
    and text.isprintable() and "\ufffd" not in text
)  # fmt: skip
COLUMNS = st.lists(
    st.tuples(PRINTABLE, PRINTABLE, st.sampled_from(["O", "B-x"])), min_size=1, max_size=4
)


@pytest.mark.slow
@given(st.lists(COLUMNS, min_size=1, max_size=4), st.data())
@settings(max_examples=100, deadline=None)
def test_reading_gives_back_what_was_written(tmp_path_factory, sentences, data):
    path = tmp_path_factory.getbasetemp() / data.draw(st.sampled_from(["a.txt", "a.txt.gz"]))
    X = [[{"word": word, "column_2": pos} for word, pos, _ in x] for x in sentences]
    y = [[tag for *_, tag in x] for x in sentences]
    documents = np.cumsum([0] + [data.draw(st.booleans()) for _ in sentences[1:]])
    write_tagged(path, X, y, separator="\t", documents=documents)
    X_read, y_read, documents_read = read_tagged(path, separator="\t", return_documents=True)
    assert (X_read, y_read) == (X, y)
    assert documents_read.tolist() == documents.tolist()


PAIR = [[{"word": "Ada", "pos": "N"}], [{"word": "Bo", "pos": "N"}]]


@pytest.mark.parametrize(
    ("X", "tags", "options", "text"),
    [
        ([["Ada", "is"], []], [[["B", "O"], []], np.array([["O", "O"], []], object)], {},
         "Ada B O\nis O O\n\n"),
        (PAIR[:1], [[["B"]]], {"columns": ["word"]}, "Ada B\n\n"),
        (PAIR, [[["B"], ["O"]]], {"documents": [0, 1]},
         "-DOCSTART- O O\n\nAda N B\n\n-DOCSTART- O O\n\nBo N O\n\n"),
    ],
)  # fmt: skip
def test_columns_that_are_named_and_all_tags_are_written(tmp_path, X, tags, options, text):
    write_tagged(tmp_path / "out.txt", X, *tags, **options)
    assert (tmp_path / "out.txt").read_text() == text


@pytest.mark.parametrize(
    ("X", "y", "options", "error", "match"),
    [
        ([["New York"]], [["O"]], {}, ValueError, r"X\[0\]\[0\] .*'New York', .*separator='\\t'"),
        ([["a\nb"]], [["O"]], {}, ValueError, "would not be read again"),
        ([["-DOCSTART-"]], [["O"]], {}, ValueError, "which begins a document"),
        ([["a", "b"]], [["O"]], {}, ValueError, r"X\[0\] has 2 tokens, and its tags are \['O'\]"),
        ([["a"]], [["O"], ["O"]], {}, ValueError, "X has 1 sentences and the tags of argument 0 2"),
        ([["a"]], [[None]], {}, TypeError, r"X\[0\]\[0\] or its tag has None"),
        (["ab"], [["O", "O"]], {}, TypeError, r"X\[0\] is 'ab'; give a list of words"),
        ([[{"a": "b"}, {"c": "d"}]], [["O", "O"]], {}, ValueError, "without the column 'a'"),
        ([[{"a": "b"}, "c"]], [["O", "O"]], {}, ValueError, r"X\[0\]\[1\] is 'c'; give a dict"),
        ([["a"]], [["O"]], {"separator": ","}, ValueError, "separator is ','"),
        ([["a"]], [["O"]], {"documents": [0, 1]}, ValueError, "documents has 2 entries"),
        ([["a"]], None, {}, TypeError, "argument 0 of tags is None"),
        ([["\u03b1"]], [["O"]], {"encoding": "latin-1"}, ValueError, "lacks; write encoding"),
    ],
)
def test_what_cannot_be_written_raises_and_leaves_the_old_file(
    tmp_path, X, y, options, error, match
):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(error, match=match):
        write_tagged(path, X, y, **options)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.txt"]


def test_equal_content_gives_equal_compressed_files_with_the_mode_of_the_old_one(tmp_path):
    paths = [tmp_path / name for name in ("a.gz", "b.gz")]
    paths[0].write_bytes(b"")
    os.chmod(paths[0], 0o600)
    for path in paths:
        write_tagged(path, [["Ada"]], [["O"]])
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert stat.S_IMODE(paths[0].stat().st_mode) == 0o600
