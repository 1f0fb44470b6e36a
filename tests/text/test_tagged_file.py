"""Tagged files: columns, documents, encodings, errors with their line, and the way back."""

import gzip
import io
import os
import stat
import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost import StructBoostTagger
from structboost.text import TaggedFileError, iter_tagged, read_tagged, write_tagged

CONLL = "-DOCSTART- -X- O\n\nAda NNP B-PER\nsleeps VBZ O\n\n-DOCSTART- -X- O\nBo NNP B-PER\n"


@pytest.fixture
def file(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "corpus.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return path

    return write


def test_columns_have_names_and_the_last_one_is_the_tag(file):
    X, y = read_tagged(file("Ada\tNNP\tB-PER\nsleeps\tVBZ\tO\n\nBo\tNNP\tB-PER"))
    assert X[0] == [
        {"word": "Ada", "column_2": "NNP"}, {"word": "sleeps", "column_2": "VBZ"}
    ]  # fmt: skip
    assert y == [["B-PER", "O"], ["B-PER"]]


def test_documents_begin_at_docstart_and_its_line_is_no_token(file):
    X, _, documents = read_tagged(file(CONLL), return_documents=True)
    assert [[token["word"] for token in x] for x in X] == [["Ada", "sleeps"], ["Bo"]]
    assert documents.tolist() == [0, 1]


def test_documents_without_sentences_are_not_counted(file):
    start = "-DOCSTART- O\n\n"
    text = f"{start}{start}Ada O\n{start}{start}{start}Bo O\n\nCy O\n{start}"
    assert read_tagged(file(text), return_documents=True)[2].tolist() == [0, 1, 1]


def test_named_columns_may_be_left_out_and_the_tag_may_stand_anywhere(file):
    path = file("1 B-PER Ada\n2 O sleeps\n")
    X, y = read_tagged(path, columns=[None, "tag", "word"], tag="tag")
    assert X == [[{"word": "Ada"}, {"word": "sleeps"}]]
    assert y == [["B-PER", "O"]]
    assert read_tagged(path, tag=1)[1] == y


def test_a_file_without_tags_has_unknown_tags(file):
    X, y = read_tagged(file("Ada\nsleeps\n"), tag=None)
    assert X == [[{"word": "Ada"}, {"word": "sleeps"}]]
    assert y == [[None, None]]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("blank", ["", " ", "\t"])
def test_blank_lines_and_line_ends_of_all_kinds_are_read(file, end, blank):
    text = end.join(["", blank, "Ada B", "", blank, "", "Bo O", blank])
    assert read_tagged(file(text))[1] == [["B"], ["O"]]


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\u2028", "\x85", "\x0c", "\x1c"])
def test_other_white_space_belongs_to_the_word(file, space):
    X, _ = read_tagged(file(f"10{space}000 O\nx O\n"))
    assert [token["word"] for token in X[0]] == [f"10{space}000", "x"]


def test_words_with_spaces_are_read_from_tabs(file):
    X, y = read_tagged(file("New York\tB-LOC\n\tO\n"))
    assert [token["word"] for token in X[0]] == ["New York", ""]
    assert y == [["B-LOC", "O"]]


def test_comments_are_left_out_if_asked_for(file):
    path = file("# id = 1\nAda\tB\n# no, it is not\n#\tO\n")
    with pytest.raises(TaggedFileError, match=r"line 1 has 4 columns .*; .*comment="):
        read_tagged(path, columns=["word", "tag"])
    assert read_tagged(path, comment="# ")[1] == [["B", "O"]]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_encodings_are_read(file, encoding):
    name = "utf-8" if encoding == "utf-8-sig" else encoding
    X, _ = read_tagged(file("España B-LOC\n", encoding), encoding=name)
    assert X == [[{"word": "España"}]]


def test_a_wrong_encoding_is_named_with_its_line(file):
    with pytest.raises(TaggedFileError, match=r"line 2 has the byte 0xf1, .*'latin-1'"):
        read_tagged(file("Ada O\nEspaña B-LOC\n", "latin-1"))
    with pytest.raises(ValueError, match="encoding is 'utf-99', which Python does not have"):
        read_tagged(file("Ada O\n"), encoding="utf-99")


def test_letters_that_are_lost_warn_once(file):
    with pytest.warns(UserWarning, match=r"corpus.txt, line 2 has U\+FFFD .*original") as warned:
        read_tagged(file("Ada O\nEspa\ufffda O\n\ufffd O\n"))
    assert len(warned) == 1


def test_compressed_files_are_recognised_whatever_their_name(file):
    assert read_tagged(file(gzip.compress(CONLL.encode())))[1] == [["B-PER", "O"], ["B-PER"]]


@pytest.mark.parametrize("damage", [slice(0, 20), slice(0, -9)])
def test_a_damaged_compressed_file_is_named(file, damage):
    with pytest.raises(TaggedFileError, match=r"corpus.txt, after line \d+: .* is damaged"):
        read_tagged(file(gzip.compress(CONLL.encode())[damage]))


def test_a_missing_column_is_named_with_its_line(file):
    with pytest.raises(TaggedFileError, match=r"corpus.txt, line 3 has 2 columns \('Bo O'\), and"):
        read_tagged(file("Ada NNP O\n\nBo O\n"))


@pytest.mark.parametrize(
    ("text", "settings", "error", "match"),
    [
        ("", {}, TaggedFileError, "corpus.txt has no tokens"),
        ("\n-DOCSTART- O\n", {}, TaggedFileError, "corpus.txt has no tokens"),
        ("Ada\n", {}, TaggedFileError, r"line 1 \('Ada'\) has no column beside the tag"),
        ("Ada\t\n", {}, TaggedFileError, "line 1 has an empty tag"),
        ("Ada O\n", {"columns": ["word"]}, TaggedFileError, "columns= names 1; name them all"),
        ("Ada O\n", {"tag": 2}, ValueError, "tag is 2, and line 1 of .* has 2 columns"),
        ("Ada O\n", {"tag": "ner"}, ValueError, r"give columns, too, such as .*'ner'\]"),
        ("Ada O\n", {"columns": ["word", "pos"], "tag": "ner"}, ValueError, "give one of columns"),
        ("Ada O\n", {"tag": True}, TypeError, "tag is True"),
        ("Ada O\n", {"columns": "word"}, TypeError, "columns is 'word'; give a list"),
        ("Ada O\n", {"columns": ["a", "a"]}, ValueError, "give each column another name"),
        ("Ada O\n", {"separator": ""}, TypeError, "separator is ''"),
        ("Ada O\n", {"comment": 1}, TypeError, "comment is 1"),
    ],
)
def test_unusable_files_and_parameters_raise_with_a_remedy(file, text, settings, error, match):
    with pytest.raises(error, match=match):
        read_tagged(file(text), **settings)


def test_a_missing_file_raises_as_open_does(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_tagged(tmp_path / "none.txt")
    with pytest.raises(TypeError, match="path is 3; give the name of a file"):
        read_tagged(3)
    with pytest.raises(TypeError, match="is a binary file; open it as text"):
        read_tagged(io.BytesIO(b"Ada O\n"))


def test_sentences_are_read_one_by_one(file):
    path = file("Ada B\n\n\nBo O\nmissing\n")
    sentences = iter_tagged(path)
    first = next(sentences)
    assert (first.tags, first.document, first.line) == (["B"], 0, 1)
    with pytest.raises(TaggedFileError, match="line 5"):
        next(sentences)


def test_parameters_of_the_iterator_are_checked_before_the_first_sentence():
    with pytest.raises(TypeError, match="columns is"):
        iter_tagged("no such file", columns="word")


WORDS = st.text(min_size=1, max_size=4).filter(
    lambda text: not set(text) & set("\t\r\n\ufeff") and text.strip(" ") and text[:1] != "-"
    and text.isprintable() and "\ufffd" not in text
)  # fmt: skip
TAGS = st.sampled_from(["O", "B-x", "I-x"])
TOKENS = st.lists(st.tuples(WORDS, WORDS, TAGS), min_size=1, max_size=4)


@pytest.mark.slow
@given(st.lists(TOKENS, min_size=1, max_size=4), st.data())
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


def test_several_columns_of_tags_stand_beside_each_other(tmp_path):
    path = tmp_path / "out.txt"
    write_tagged(
        path, [["Ada", "sleeps"], []], [["B", "O"], []], np.array([["O", "O"], []], object)
    )
    assert path.read_text() == "Ada B O\nsleeps O O\n\n"


def test_only_the_columns_that_are_named_are_written(tmp_path):
    path = tmp_path / "out.txt"
    write_tagged(path, [[{"word": "Ada", "pos": "NNP"}]], [["B"]], columns=["word"])
    assert path.read_text() == "Ada B\n\n"


@pytest.mark.parametrize(
    ("X", "y", "settings", "error", "match"),
    [
        ([["New York"]], [["O"]], {}, ValueError, r"X\[0\]\[0\] .*'New York', .*separator='\\t'"),
        ([["a\tb"]], [["O"]], {"separator": "\t"}, ValueError, r"has 'a\\tb', which"),
        ([[""]], [["O"]], {}, ValueError, "has ''"),
        ([["a\nb"]], [["O"]], {}, ValueError, "would not be read again"),
        ([["-DOCSTART-"]], [["O"]], {}, ValueError, "which begins a document"),
        ([["a", "b"]], [["O"]], {}, ValueError, r"X\[0\] has 2 tokens, and its tags are \['O'\]"),
        ([["a"]], [["O"], ["O"]], {}, ValueError, "X has 1 sentences and the tags of argument 0 2"),
        ([["a"]], [[None]], {}, TypeError, r"X\[0\]\[0\] or its tag has None"),
        (["ab"], [["O", "O"]], {}, TypeError, r"X\[0\] is 'ab'; give a list of words"),
        ([[{"a": "b"}, {"c": "d"}]], [["O", "O"]], {}, ValueError, "without the column 'a'"),
        ([[{"a": "b"}, "c"]], [["O", "O"]], {}, ValueError, r"X\[0\]\[1\] is 'c'; give a dict"),
        ([["a"]], [["O"]], {"separator": ","}, ValueError, "separator is ','"),
        ([["a"]], [["O"]], {"columns": "word"}, TypeError, "columns is 'word'"),
        ([["a"]], [["O"]], {"documents": [0, 1]}, ValueError, "documents has 2 entries"),
        ([["a"]], [["O"]], {"documents": 3}, TypeError, "documents is 3"),
        ([["a"]], [["O"]], {"documents": "a"}, TypeError, "documents is 'a'"),
        ([["a"]], [["O"]], {"columns": 3}, TypeError, "columns is 3"),
        ([["a"]], None, {}, TypeError, "argument 0 of tags is None"),
        (None, [["O"]], {}, TypeError, "X is None"),
        ([["\u03b1"]], [["O"]], {"encoding": "latin-1"}, ValueError, "lacks; write encoding"),
        ([["a"]], [["O"]], {"encoding": "x"}, ValueError, "encoding is 'x'"),
    ],
)
def test_what_cannot_be_written_raises_and_leaves_the_old_file(
    tmp_path, X, y, settings, error, match
):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(error, match=match):
        write_tagged(path, X, y, **settings)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.txt"]


def test_lines_of_documents_have_as_many_columns_as_all_others(tmp_path):
    path, X = tmp_path / "out.txt", [[{"word": "Ada", "pos": "N"}], [{"word": "Bo", "pos": "N"}]]
    write_tagged(path, X, [["B"], ["O"]], documents=[0, 1])
    widths = {len(line.split()) for line in path.read_text().splitlines() if line}
    assert widths == {3}


def test_equal_content_gives_equal_compressed_files_with_the_mode_of_the_old_one(tmp_path):
    paths = [tmp_path / name for name in ("a.gz", "b.gz")]
    paths[0].write_bytes(b"")
    os.chmod(paths[0], 0o600)
    for path in paths:
        write_tagged(path, [["Ada"]], [["O"]])
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert stat.S_IMODE(paths[0].stat().st_mode) == 0o600


def test_a_tagger_takes_what_was_read(file):
    text = "".join(f"{name} B\nsleeps O\n\n" for name in string.ascii_uppercase[:8])
    X, y = read_tagged(file(text))
    assert StructBoostTagger(random_state=0).fit(X, y).predict(X[:1]) == [["B", "O"]]


def test_a_line_of_one_column_is_called_so(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("Ada O\nBo\n")
    with pytest.raises(TaggedFileError, match=r"line 2 has 1 column \('Bo'\), and line 1 has 2"):
        read_tagged(path)
