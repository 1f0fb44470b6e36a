"""Tagged files: columns, documents, encodings, errors with their line, and the way back."""

import gzip
import io
import os
import stat

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost.text import TaggedFileError, iter_tagged, read_tagged, write_tagged

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
        (START, {}, TaggedFileError, "corpus.txt has no tokens"),
        ("Ada O\nEspaña B\n".encode("latin-1"), {}, TaggedFileError, "line 2 has the byte 0xf1, "),
        ("Ada O\n".encode("utf-16")[:-1], {"encoding": "utf-16"}, TaggedFileError, "has bytes"),
        *((ZIPPED[:end], {}, TaggedFileError, r"after line \d+: .* damaged")
          for end in (20, -9)),
        ("Ada O\nBo\n", {}, TaggedFileError, r"line 2 has 1 column \('Bo'\), and line 1 has 2"),
        ("Ada N O\n\nBo O\n", {}, TaggedFileError, r"txt, line 3 has 2 columns \('Bo O'\), and"),
        ("# id = 1\nAda\tB\n", {"columns": ["word", "tag"]}, TaggedFileError, "line 1 has 4 col"),
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


def test_sentences_are_read_one_by_one_after_a_check_of_parameters(file):
    sentences = iter_tagged(file("Ada B\n\n\nBo O\nmissing\n"))
    first = next(sentences)
    assert (first.tags, first.document, first.line) == (["B"], 0, 1)
    with pytest.raises(TaggedFileError, match="line 5"):
        next(sentences)
    with pytest.raises(TypeError, match="columns is"):
        iter_tagged("no such file", columns="word")


WORDS = st.text(min_size=1, max_size=4).filter(
    lambda text: not set(text) & set("\t\r\n\ufeff") and text.strip(" ") and text[:1] != "-"
    and text.isprintable() and "\ufffd" not in text
)  # fmt: skip
TOKENS = st.lists(st.tuples(WORDS, WORDS, st.sampled_from(["O", "B-x"])), min_size=1, max_size=4)


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
        ([["a"]], None, {}, TypeError, "argument 0 of tags is None"),
        (None, [["O"]], {}, TypeError, "X is None"),
        ([["\u03b1"]], [["O"]], {"encoding": "latin-1"}, ValueError, "lacks; write encoding"),
        ([["a"]], [["O"]], {"encoding": "x"}, ValueError, "encoding is 'x'"),
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
