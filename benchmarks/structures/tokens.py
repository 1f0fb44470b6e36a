"""Tagged corpora, and features of their tokens as dicts that a tagger and CRFsuite both take."""

import gzip
import re
from typing import Any, NamedTuple

from structboost.text.token_features import shape_of

FOLDER = "structures/chains"
FILES = {
    "wnut17": (f"{FOLDER}/wnut17/train.txt.gz", f"{FOLDER}/wnut17/test.txt.gz"),
    "spanish": (f"{FOLDER}/conll2002_esp/train.txt.gz", f"{FOLDER}/conll2002_esp/testb.txt.gz"),
    "conll2000": (f"{FOLDER}/conll2000/train.txt.gz", f"{FOLDER}/conll2000/test.txt.gz"),
}


class Tagged(NamedTuple):
    """Features of the tokens of each sentence, and their tags."""

    X: list[list[dict[str, Any]]]
    Y: list[list[str]]


def read(name, path):
    """The sentences of a file, described; its lines have a token each, the tag last."""
    encoding = "latin-1" if name == "spanish" else "utf-8"
    with gzip.open(path, "rt", encoding=encoding) as file:
        pieces = re.split(r"\n\s*\n", file.read().strip())
    sentences = [[line.split() for line in piece.splitlines()] for piece in pieces]
    describe = of_chunks if name == "conll2000" else of_entities
    tags = [[columns[-1] for columns in sentence] for sentence in sentences]
    return Tagged(list(map(describe, sentences)), tags)


def of_chunks(sentence):
    """Words, affixes, shapes and one to three parts of speech around each token, and pairs."""
    outside = ["_", "_"]
    words, pos = ([*outside, *(token[k] for token in sentence), *outside] for k in (0, 1))
    shapes = [shape_of(word) for word in words]
    tokens = []
    for t in range(2, len(words) - 2):
        names = [f"w{k} {words[t + k]}" for k in range(-2, 3)]
        names += [f"ww{k} {words[t + k]} {words[t + k + 1]}" for k in (-1, 0)]
        names.append(f"around {words[t - 1]} {words[t + 1]}")
        for n in (1, 2, 3):
            names += [f"p{n}{k} {' '.join(pos[t + k : t + k + n])}" for k in range(-2, 4 - n)]
        names += [f"wp{k} {words[t]} {pos[t + k]}" for k in (-1, 0, 1)]
        names += [f"pw{k} {pos[t]} {words[t + k]}" for k in (-1, 1)]
        own = words[t].lower()
        names += [f"first {own[:n]}" for n in (2, 3)] + [f"last {own[-n:]}" for n in (2, 3, 4)]
        names += [f"shape{k} {shapes[t + k]}" for k in (-1, 0, 1)]
        tokens.append(dict.fromkeys(names, True))
    return tokens


def of_entities(sentence):
    """Words and parts of speech around each token, its affixes, shape and case."""
    words = [columns[0] for columns in sentence]
    pos = [columns[1] for columns in sentence] if len(sentence[0]) > 2 else None
    tokens = []
    for t, word in enumerate(words):
        token = {"bias": True, "word": word.lower(), "shape": shape_of(word)}
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
        tokens.append(token)
    return tokens
