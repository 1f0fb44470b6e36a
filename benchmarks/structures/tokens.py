"""Tagged corpora, and features of their tokens as dicts that a tagger and CRFsuite both take."""

import gzip
from itertools import groupby
from typing import Any, NamedTuple

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
    sentences = [[]]
    encoding = "latin-1" if name == "spanish" else "utf-8"
    with gzip.open(path, "rt", encoding=encoding) as lines:
        for line in lines:
            columns = line.split()
            if columns:
                sentences[-1].append(columns)
            elif sentences[-1]:
                sentences.append([])
    first = [sentence for sentence in sentences if sentence]
    describe = of_chunks if name == "conll2000" else of_entities
    return Tagged(
        [describe(sentence) for sentence in first],
        [[columns[-1] for columns in sentence] for sentence in first],
    )


def of_chunks(sentence):
    """Words, affixes, shapes and one to three parts of speech around each token, and pairs."""
    outside = ["_", "_"]
    words, pos = ([*outside, *(token[k] for token in sentence), *outside] for k in (0, 1))
    shapes = [shape(word) for word in words]
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
        token = {"bias": True, "word": word.lower(), "shape": shape(word)}
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


def shape(word):
    """Kinds of letters of a word, repeated ones once: ``Aa-0`` for ``Boeing-747``."""
    kinds = (
        "A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in word
    )
    return "".join(kind for kind, _ in groupby(kinds))


def chunks(tags):
    """First token, end and type of each chunk."""
    ranges, start, kind = set(), -1, ""
    for t, tag in enumerate([*tags, "O"]):
        letter, _, own = tag.partition("-")
        if start >= 0 and (letter != "I" or own != kind):
            ranges.add((start, t, kind))
            start = -1
        if letter == "B" or (letter == "I" and start < 0):
            start, kind = t, own
    return ranges


def f1(true, predicted):
    """F1 over all chunks, in percent: a chunk is right with its borders and its type."""
    pairs = [(chunks(y), chunks(z)) for y, z in zip(true, predicted, strict=True)]
    right = sum(len(a & b) for a, b in pairs)
    return 200.0 * right / sum(len(a) + len(b) for a, b in pairs)
