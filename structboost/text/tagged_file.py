"""Files of sentences with a token on each line, in columns, as of CoNLL and BIO corpora."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from os import PathLike
from typing import IO, Any, NamedTuple

import numpy as np

from structboost._typing import PathName
from structboost.errors import warn_user
from structboost.files.atomic_write import whole_file
from structboost.text.schemes import check_ordered
from structboost.validation import checked_flag, shown

DOCUMENT_START = "-DOCSTART-"
WORD = "word"
_GZIP = b"\x1f\x8b"
# Mark of a letter that an earlier conversion of the file could not decode.
_LOST = "\ufffd"
# Words may contain other white space, such as a no-break space.
_BLANKS = re.compile("[ \t]+")


class TaggedFileError(ValueError):
    """Error in a file of tagged sentences, whose message names the line."""


class TaggedSentence(NamedTuple):
    """A sentence of a file, with the place from which it comes.

    Attributes
    ----------
    tokens : list of dict
        Columns of each token by name.
    tags : list of str or None
        Tag of each token, None in a file without tags.
    document : int
        Index of the document, from 0.
    line : int
        Line of the first token, from 1.
    """

    tokens: list[dict[str, str]]
    tags: list[str | None]
    document: int
    line: int


class _Layout(NamedTuple):
    """Columns of a file, as its first token shows them."""

    first_line: int
    separator: str
    names: list[str | None]
    tag: int | None


def read_tagged(
    path: PathName | IO[str],
    *,
    columns: Sequence[str | None] | None = None,
    tag: str | int | None = -1,
    separator: str | None = None,
    comment: str | None = None,
    encoding: str = "utf-8",
    return_documents: bool = False,
) -> Any:
    r"""Read the sentences of a CoNLL or BIO file, and their tags.

    A line holds the columns of a token, and a blank line ends a sentence.  A line that begins with
    ``-DOCSTART-`` ends a document and is no token.  A file that gzip has compressed is recognised.

    Parameters
    ----------
    path : str, path or text file
        The file.
    columns : sequence of str or None, optional
        Name of each column, the tag included.  Columns named None are left out.  By default the
        first column is ``"word"``, and the others are ``"column_2"``, ``"column_3"`` and so on.
    tag : str, int or None
        Name or index of the column of the tag, by default the last one.  None reads a file without
        tags, and all tags are None, as :class:`structboost.StructBoostTagger` marks unknown ones.
    separator : str, optional
        Characters between columns.  By default a tab if the first token has one, else spaces and
        tabs.
    comment : str, optional
        Lines that begin with it are left out, such as ``"#"`` in CoNLL-U.
    encoding : str
        Encoding of the text, such as ``"latin-1"`` for the corpora of CoNLL 2002.
    return_documents : bool
        Whether to return the document of each sentence, too.

    Returns
    -------
    X : list of list of dict
        Columns of each token by name, without the tag.
    y : list of list of str
        Tag of each token.
    documents : ndarray of int, shape (n_sentences,)
        Document of each sentence, from 0.  Only with ``return_documents``.

    Raises
    ------
    OSError
        If the file cannot be read.
    TaggedFileError
        If a line has another number of columns than the first one or cannot be decoded, or the
        file has no token.  The message names file, line and remedy.
    TypeError, ValueError
        If a parameter is out of its range.

    Warns
    -----
    UserWarning
        If the file has U+FFFD, the mark of letters that an earlier conversion has lost.

    Examples
    --------
    >>> from io import StringIO
    >>> from structboost.text import read_tagged
    >>> file = StringIO("Ada NNP B-PER\nsleeps VBZ O\n\nLondon NNP B-LOC\n")
    >>> X, y = read_tagged(file, columns=["word", "pos", "tag"])
    >>> X[0][0], y
    ({'word': 'Ada', 'pos': 'NNP'}, [['B-PER', 'O'], ['B-LOC']])
    """
    checked_flag(return_documents, "return_documents")
    sentences = list(
        iter_tagged(
            path, columns=columns, tag=tag, separator=separator, comment=comment, encoding=encoding
        )
    )
    if not sentences:
        raise TaggedFileError(f"{_name_of(path)} has no tokens; give a file that has some.")
    X, y = [s.tokens for s in sentences], [s.tags for s in sentences]
    if not return_documents:
        return X, y
    return X, y, np.array([s.document for s in sentences], np.int64)


def iter_tagged(
    path: PathName | IO[str],
    *,
    columns: Sequence[str | None] | None = None,
    tag: str | int | None = -1,
    separator: str | None = None,
    comment: str | None = None,
    encoding: str = "utf-8",
) -> Iterator[TaggedSentence]:
    r"""Read the sentences of a CoNLL or BIO file one by one, for files larger than memory.

    Parameters
    ----------
    path, columns, tag, separator, comment, encoding
        As for :func:`read_tagged`.

    Returns
    -------
    sentences : iterator of TaggedSentence
        Sentences in the order of the file.  A file is open until the last one was read.

    Raises
    ------
    OSError, TaggedFileError, TypeError, ValueError
        As for :func:`read_tagged`, where the reading comes to the line.

    Examples
    --------
    >>> from io import StringIO
    >>> from structboost.text import iter_tagged
    >>> for sentence in iter_tagged(StringIO("Ada B-PER\n\n\nLondon B-LOC\n")):
    ...     print(sentence.line, sentence.tokens, sentence.tags)
    1 [{'word': 'Ada'}] ['B-PER']
    4 [{'word': 'London'}] ['B-LOC']
    """
    _check_parameters(columns, tag, separator, comment, encoding)
    return _sentences(path, columns, tag, separator, comment, encoding)


def write_tagged(
    path: PathName,
    X: Iterable[Sequence[Any]],
    *tags: Iterable[Sequence[Any]],
    columns: Sequence[str] | None = None,
    separator: str = " ",
    encoding: str = "utf-8",
    documents: Sequence[int] | None = None,
) -> None:
    r"""Write sentences and their tags to a file, whole or not at all.

    With the true tags and then the predicted ones, ``conlleval`` reads the file.  A name that ends
    in ``.gz`` is compressed.

    Parameters
    ----------
    path : str or path
        The file; an existing one is replaced.
    X : iterable of sequences
        Sentences, of words or of dicts of columns by name.
    *tags : iterable of sequences
        Tags of the sentences, such as those of :meth:`structboost.StructBoostTagger.predict`, a
        column for each argument.
    columns : sequence of str, optional
        Columns that are written, by default those of the first token.
    separator : str
        Characters between columns.  Words that contain a space need ``"\t"``.
    encoding : str
        Encoding of the file.
    documents : sequence of int, optional
        Document of each sentence.  A line ``-DOCSTART-`` stands before each document.

    Raises
    ------
    OSError
        If the file cannot be written.
    TypeError, ValueError
        If a token lacks a column or its tag, or a value cannot be read again.  The message names
        sentence and token.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from structboost.text import write_tagged
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "predicted.txt"
    ...     write_tagged(path, [["Ada", "sleeps"]], [["B-PER", "O"]])
    ...     print(path.read_text())
    Ada B-PER
    sleeps O
    <BLANKLINE>
    <BLANKLINE>
    """
    if not isinstance(separator, str) or not separator or separator.strip(" \t"):
        raise ValueError(f"separator is {shown(separator)}; give a space or a tab.")
    is_list = isinstance(columns, Iterable) and not isinstance(columns, str | bytes)
    if columns is not None and not is_list:
        raise TypeError(f"columns is {shown(columns)}; give a list of names.")
    if documents is not None:
        check_ordered(documents, "documents", "give the document of each sentence, or None")
    _check_encoding(encoding)
    lines = _lines(X, tags, columns, separator, documents)
    with ExitStack() as stack:
        file: Any = stack.enter_context(whole_file(path))
        if os.fspath(path).endswith(".gz"):
            # Without a time and a name, equal content gives equal files.
            file = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
        text = codecs.getwriter(encoding)(file)
        try:
            for line in lines:
                text.write(line)
        except UnicodeEncodeError as error:
            raise ValueError(
                f"X has {shown(error.object[error.start : error.end])}, which the encoding "
                f"{encoding!r} lacks; write encoding='utf-8'."
            ) from None


def _check_parameters(columns: Any, tag: Any, separator: Any, comment: Any, encoding: Any) -> None:
    is_list = columns is None or (isinstance(columns, Sequence) and not isinstance(columns, str))
    if not is_list or not all(name is None or isinstance(name, str) for name in columns or ()):
        raise TypeError(
            f"columns is {shown(columns)}; give a list of names, None to leave one out."
        )
    named = [name for name in columns or () if name is not None]
    if len(set(named)) < len(named):
        raise ValueError(f"columns is {shown(columns)}; give each column another name.")
    if isinstance(tag, bool) or not isinstance(tag, str | int | np.integer | None):
        raise TypeError(
            f"tag is {shown(tag)}; give the name or the index of a column, or None for a file "
            "without tags."
        )
    if isinstance(tag, str) and tag not in named:
        among = f"one of columns, which is {shown(columns)}"
        if columns is None:
            among = (
                f"columns, too, such as columns=['word', 'pos', {tag!r}], or tag=-1 for the last "
                "column"
            )
        raise ValueError(f"tag is {tag!r}; give {among}.")
    _check_encoding(encoding)
    for name, value in (("separator", separator), ("comment", comment)):
        if value is not None and (not isinstance(value, str) or not value):
            raise TypeError(f"{name} is {shown(value)}; give a string that is not empty, or None.")


def _check_encoding(encoding: Any) -> None:
    try:
        codecs.lookup(encoding)
    except (LookupError, TypeError):
        raise ValueError(
            f"encoding is {shown(encoding)}, which Python does not have; give one such as 'utf-8' "
            "or 'latin-1'."
        ) from None


def _sentences(
    path: Any, columns: Any, tag: Any, separator: Any, comment: Any, encoding: str
) -> Iterator[TaggedSentence]:
    layout: _Layout | None = None
    tokens: list[dict[str, str]] = []
    tags: list[str | None] = []
    document, start, has_sentence = 0, 0, False
    name, is_whole = _name_of(path), True
    with _opened(path, encoding) as lines:
        for at, line in _decoded(lines, name, encoding):
            is_start = line.split(maxsplit=1)[:1] == [DOCUMENT_START]
            if is_start or not line.strip(" \t"):
                if tokens:
                    yield TaggedSentence(tokens, tags, document, start)
                    tokens, tags, has_sentence = [], [], True
                if is_start and has_sentence:
                    document, has_sentence = document + 1, False
                continue
            if comment is not None and line.startswith(comment):
                continue
            if layout is None:
                layout = _layout(line, at, name, columns, tag, separator)
            cells = _cells(line, layout.separator)
            if len(cells) != len(layout.names):
                raise TaggedFileError(
                    f"{name}, line {at} has {_columns(len(cells))} ({shown(line)}), and line "
                    f"{layout.first_line} has {len(layout.names)}; add what is missing, give "
                    "separator= if words contain spaces, or comment= if it is a comment."
                )
            if is_whole and _LOST in line:
                is_whole = False
                warn_user(
                    f"{name}, line {at} has U+FFFD ({shown(line)}), so an earlier conversion has "
                    "lost its letters, and its words are not those of other files; fetch the "
                    "original file.",
                    UserWarning,
                )
            if not tokens:
                start = at
            tags.append(None if layout.tag is None else cells[layout.tag])
            if tags[-1] == "":
                raise TaggedFileError(f"{name}, line {at} has an empty tag; write one.")
            tokens.append(
                {
                    key: cell
                    for key, cell in zip(layout.names, cells, strict=True)
                    if key is not None
                }
            )
    if tokens:
        yield TaggedSentence(tokens, tags, document, start)


def _columns(n: int) -> str:
    return "1 column" if n == 1 else f"{n} columns"


def _layout(
    line: str, at: int, name: str, columns: Any, tag: Any, separator: str | None
) -> _Layout:
    """Return the columns of a file, from its first token."""
    separator = separator or ("\t" if "\t" in line else " ")
    n_columns = len(_cells(line, separator))
    if columns is not None and len(columns) != n_columns:
        raise TaggedFileError(
            f"{name}, line {at} has {_columns(n_columns)} ({shown(line)}), and columns= names "
            f"{len(columns)}; name them all, None for one to leave out, "
            "or give comment= if it is a comment."
        )
    names = (
        list(columns)
        if columns is not None
        else [WORD, *(f"column_{k}" for k in range(2, n_columns + 1))]
    )
    if tag is None:
        return _Layout(at, separator, names, None)
    place = names.index(tag) if isinstance(tag, str) else int(tag)
    if not -n_columns <= place < n_columns:
        raise ValueError(
            f"tag is {tag}, and line {at} of {name} has {n_columns} columns; give an index "
            f"below {n_columns}."
        )
    place %= n_columns
    names[place] = None
    if not any(key is not None for key in names):
        raise TaggedFileError(
            f"{name}, line {at} ({shown(line)}) has no column beside the tag; give separator=, "
            "tag=None for a file without tags, or comment= if it is a comment."
        )
    return _Layout(at, separator, names, place)


def _cells(line: str, separator: str) -> list[str]:
    """Return the columns of a line."""
    if separator == " ":
        return _BLANKS.split(line.strip(" \t"))
    return line.split(separator)


def _name_of(path: Any) -> str:
    if isinstance(path, str | PathLike):
        return os.fspath(path)
    return str(getattr(path, "name", "the file"))


@contextmanager
def _opened(path: Any, encoding: str) -> Iterator[Iterable[str]]:
    """Open a file, compressed or not, or take a text file as it is."""
    if not isinstance(path, str | PathLike):
        if not hasattr(path, "read"):
            raise TypeError(f"path is {shown(path)}; give the name of a file, or a text file.")
        yield path
        return
    with ExitStack() as stack:
        file: Any = stack.enter_context(open(path, "rb"))
        if file.peek(2)[:2] == _GZIP:
            file = stack.enter_context(gzip.GzipFile(fileobj=file))
        # Undecodable bytes become surrogates, so that the line with the first of them is known.
        yield stack.enter_context(io.TextIOWrapper(file, encoding, errors="surrogateescape"))


def _decoded(lines: Iterable[str], name: str, encoding: str) -> Iterator[tuple[int, str]]:
    """Yield lines without their ends, and their indices from 1."""
    at = 0
    remedy = f"which is not {encoding}; give its encoding=, such as 'latin-1'."
    try:
        for at, line in enumerate(lines, 1):
            if isinstance(line, bytes):
                raise TypeError(f"{name} is a binary file; open it as text.")
            try:
                line.encode("utf-8")
            except UnicodeEncodeError as error:
                byte = ord(line[error.start]) & 0xFF
                raise TaggedFileError(
                    f"{name}, line {at} has the byte 0x{byte:02x}, {remedy}"
                ) from None
            text = line.rstrip("\r\n")
            yield at, text.removeprefix("\ufeff") if at == 1 else text
    except UnicodeDecodeError:
        raise TaggedFileError(f"{name}, after line {at} has bytes {remedy[6:]}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TaggedFileError(
            f"{name}, after line {at}: the compressed file is damaged ({error}); fetch or "
            "compress it again."
        ) from None


def _lines(
    X: Any, tags: tuple[Any, ...], columns: Any, separator: str, documents: Any
) -> Iterator[str]:
    check_ordered(X, "X", "give a list of sentences, such as [['Ada', 'sleeps']]")
    for k, one in enumerate(tags):
        check_ordered(one, f"The argument {k} of tags", "give a list of tags for each sentence")
    sentences = list(X)
    of_tags = [list(one) for one in tags]
    for k, one in enumerate(of_tags):
        if len(one) != len(sentences):
            raise ValueError(
                f"X has {len(sentences)} sentences and the tags of argument {k} {len(one)}; give "
                "tags for each sentence."
            )
    documents = None if documents is None else list(documents)
    if documents is not None and len(documents) != len(sentences):
        raise ValueError(
            f"documents has {len(documents)} entries; give one for each of {len(sentences)} "
            "sentences."
        )
    names = None if columns is None else list(columns)
    first = next((token for one in sentences if isinstance(one, Iterable) for token in one), None)
    if names is None and isinstance(first, Mapping):
        names = list(first)
    for i, sentence in enumerate(sentences):
        check_ordered(sentence, f"X[{i}]", "give a list of words or of dicts")
        if documents is not None and (i == 0 or documents[i] != documents[i - 1]):
            width = len(of_tags) + len(names or ("",)) - 1
            yield separator.join([DOCUMENT_START, *["O"] * width]) + "\n\n"
        for one in of_tags:
            if isinstance(one[i], str) or len(one[i]) != len(sentence):
                raise ValueError(
                    f"X[{i}] has {len(sentence)} tokens, and its tags are {shown(one[i])}; give a "
                    "tag for each token."
                )
        for t, token in enumerate(sentence):
            cells = _of_token(token, names, (i, t)) + [one[i][t] for one in of_tags]
            yield separator.join(_writable(cell, separator, (i, t)) for cell in cells) + "\n"
            if str(cells[0]).split()[:1] == [DOCUMENT_START]:
                raise ValueError(f"X[{i}][{t}] is {DOCUMENT_START}, which begins a document.")
        if len(sentence):
            yield "\n"


def _of_token(token: Any, names: list[str] | None, place: tuple[int, int]) -> list[Any]:
    i, t = place
    if not isinstance(token, Mapping):
        if names is not None and names != [WORD]:
            raise ValueError(
                f"X[{i}][{t}] is {shown(token)}; give a dict with the columns {shown(names)}."
            )
        return [token]
    lack = next((name for name in names or () if name not in token), None)
    if lack is not None:
        raise ValueError(
            f"X[{i}][{t}] is {shown(token)}, without the column {lack!r}; add it, or give columns=."
        )
    return [token[name] for name in names or ()]


def _writable(cell: Any, separator: str, place: tuple[int, int]) -> str:
    i, t = place
    if not isinstance(cell, str | int | float | np.generic):
        raise TypeError(f"X[{i}][{t}] or its tag has {shown(cell)}; give strings or numbers.")
    text = str(cell)
    split = "\t" if separator == "\t" else " \t"
    if not text.strip(" \t") or any(c in text for c in split + "\r\n"):
        remedy = " or write separator='\\t'." if text and separator != "\t" else ""
        raise ValueError(
            f"X[{i}][{t}] or its tag has {shown(text)}, which would not be read again; replace "
            f"it{',' if remedy else '.'}{remedy}"
        )
    return text
