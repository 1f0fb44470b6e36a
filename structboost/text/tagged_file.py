"""Files of sentences with a token on each line, in columns, as of CoNLL and BIO corpora."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from structboost._typing import PathName
from structboost.files.atomic_write import checked_path
from structboost.validation import shown

DOCUMENT_START = "-DOCSTART-"
WORD = "word"
# Words may contain other white space, such as a no-break space.
_BLANKS = re.compile("[ \t]+")


def read_tagged(
    path: PathName | Iterable[str],
    *,
    columns: Sequence[str] | None = None,
    tag: int | None = -1,
    return_documents: bool = False,
) -> Any:
    r"""Read the sentences of a CoNLL or BIO file, and their tags.

    A line holds the columns of a token, and a blank line ends a sentence.  Columns are separated by
    tabs if the first token has one, else by spaces.  A line that begins with ``-DOCSTART-`` ends a
    document and is no token.

    Parameters
    ----------
    path : str, path or iterable of str
        The file, in UTF-8, or its lines, such as a text file that is open in another encoding.
    columns : sequence of str, optional
        Name of each column, the tag included.  By default the first column is ``"word"``, and the
        others are ``"column_2"``, ``"column_3"`` and so on.
    tag : int or None
        Index of the column of the tag, by default the last one.  None reads a file without tags,
        and all tags are None, as :class:`structboost.StructBoostTagger` marks unknown ones.
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
    ValueError
        If a line has another number of columns than the first one or than ``columns``, which the
        message names, there is no column of the tag beside others, or a file is not in UTF-8.

    Examples
    --------
    >>> from structboost.text import read_tagged
    >>> lines = ["Ada NNP B-PER", "sleeps VBZ O", "", "London NNP B-LOC"]
    >>> X, y = read_tagged(lines, columns=["word", "pos", "tag"])
    >>> X[0][0], y
    ({'word': 'Ada', 'pos': 'NNP'}, [['B-PER', 'O'], ['B-LOC']])
    """
    if isinstance(path, str | os.PathLike):
        with open(checked_path(path), encoding="utf-8-sig") as file:
            try:
                return read_tagged(
                    file, columns=columns, tag=tag, return_documents=return_documents
                )
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{os.fspath(path)} is not in UTF-8 ({error}); give open(path, encoding=...) "
                    "in its own encoding, such as 'latin-1', or gzip.open(path, 'rt')."
                ) from error
    X: list[list[dict[str, str]]] = []
    y: list[list[str | None]] = []
    documents: list[int] = []
    names = [] if columns is None else list(columns)
    tokens: list[dict[str, str]] = []
    tags: list[str | None] = []
    document, has_tabs = 0, False
    for at, line in enumerate(chain(path, [""]), 1):
        if not isinstance(line, str):
            raise TypeError(f"Line {at} is {shown(line)}; give text, such as open(path).")
        text = line.rstrip("\r\n")
        if "\0" in text:
            raise ValueError(
                f"Line {at} is {shown(text)}; give open(path, encoding='utf-16-le'), if it is in "
                "that."
            )
        is_start = text.split(maxsplit=1)[:1] == [DOCUMENT_START]
        if is_start or not text.strip(" \t"):
            if tokens:
                X.append(tokens)
                y.append(tags)
                documents.append(document)
                tokens, tags = [], []
            if is_start and documents:
                document = documents[-1] + 1
            continue
        has_tabs = has_tabs or (not X and not tokens and "\t" in text)
        cells = text.split("\t") if has_tabs else _BLANKS.split(text.strip(" \t"))
        names = names or [WORD, *(f"column_{k}" for k in range(2, len(cells) + 1))]
        if tag is not None and not (1 < len(names) and -len(names) <= tag < len(names)):
            raise ValueError(
                f"tag is {shown(tag)}, and columns are {shown(names)}; give the index of a column "
                "beside others, or None if there are no tags."
            )
        if len(cells) != len(names):
            raise ValueError(
                f"Line {at} is {shown(text)}, with {len(cells)} columns, and columns are "
                f"{shown(names)}; add what is missing, or put tabs between columns."
            )
        token = dict(zip(names, cells, strict=True))
        tags.append(None if tag is None else token.pop(names[tag]))
        tokens.append(token)
    return (X, y, np.array(documents, np.int64)) if return_documents else (X, y)
