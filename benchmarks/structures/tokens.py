"""Tagged corpora, and features of their tokens as dicts that a tagger and CRFsuite both take."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.structures.chunks import described, shape


class Corpus(NamedTuple):
    """Where a corpus is, and how it is read."""

    folder: str
    test: str
    encoding: str = "utf-8"


CORPORA = {
    "wnut17": Corpus("wnut17", "test"),
    "spanish": Corpus("conll2002_esp", "testb", "latin-1"),
    "conll2000": Corpus("conll2000", "test"),
}


class Tagged(NamedTuple):
    """Features of the tokens of each sentence, and their tags."""

    X: list[list[dict[str, Any]]]
    Y: list[list[str]]


def paths_of(name: str, data_dir: Path) -> list[Path]:
    """Files of the training and the test part."""
    corpus = CORPORA[name]
    folder = Path(data_dir) / "structures/chains" / corpus.folder
    return [folder / f"{part}.txt.gz" for part in ("train", corpus.test)]


def read(name: str, path: Path, n_sentences: int | None = None) -> Tagged:
    """The sentences of a file, described."""
    sentences: list[list[list[str]]] = [[]]
    with gzip.open(path, "rt", encoding=CORPORA[name].encoding) as lines:
        for line in lines:
            columns = line.split()
            if columns:
                sentences[-1].append(columns)
            elif sentences[-1]:
                sentences.append([])
    kept = [sentence for sentence in sentences if sentence][:n_sentences]
    if name == "conll2000":
        X = [[dict.fromkeys(token, True) for token in described(sentence)] for sentence in kept]
    else:
        X = [of_entities(sentence) for sentence in kept]
    return Tagged(X, [[columns[-1] for columns in sentence] for sentence in kept])


def of_entities(sentence: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Words and parts of speech around each token, its affixes, shape and case."""
    words = [columns[0] for columns in sentence]
    pos = [columns[1] for columns in sentence] if len(sentence[0]) > 2 else None
    found = []
    for t, word in enumerate(words):
        token: dict[str, Any] = {"bias": True, "word": word.lower(), "shape": shape(word)}
        for n in (1, 2, 3, 4):
            token[f"first {n}"], token[f"last {n}"] = word[:n].lower(), word[-n:].lower()
        token |= {"upper": word.isupper(), "title": word.istitle(), "digit": word.isdigit()}
        for k in (-2, -1, 0, 1, 2):
            inside = 0 <= t + k < len(words)
            if k:
                token[f"word {k}"] = words[t + k].lower() if inside else "outside"
                token[f"title {k}"] = inside and words[t + k].istitle()
            if pos is not None:
                token[f"pos {k}"] = pos[t + k] if inside else "outside"
        found.append(token)
    return found
