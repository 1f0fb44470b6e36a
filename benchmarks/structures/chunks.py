"""CoNLL-2000 chunks: a linear chain on sparse features against CRFsuite's, on the same features."""

import gzip
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.runner.records import Record, by
from benchmarks.runner.targets import Target, reach
from benchmarks.runner.units import Unit
from benchmarks.structures.rows import Row, Run, content_of, cpu_seconds, unit
from structboost import ChainTask, StructuredSVM
from structboost.weak import active_features

NAME = "conll2000"
DATASETS = (NAME,)
QUICK_DATASETS: tuple[str, ...] = ()
METRIC = "chunk F1"
OURS, CRFSUITE = "linear chain, hinge", "CRFsuite, L-BFGS"
QUICK_SENTENCES = 200
# Features that training sentences have less often are left out.
MIN_COUNT = 3
# C for each training sentence, and c2 of CRFsuite, the weight of the squared norm. With fewer
# features 0.1 was the best of four C on the held-out sentences, and 0.5 better than c2 = 1.
CS = (0.1, 0.2)
C2S = (0.5,)
TOL, MAX_PASSES = 0.02, 25
HELD_OUT = 0.2


class Sentences(NamedTuple):
    """Features of all tokens, a row each, and the tags of each sentence."""

    X: Any
    Y: list[list[str]]

    def take(self, numbers: Sequence[int]) -> "Sentences":
        """Some of the sentences."""
        starts = np.cumsum([0, *(len(y) for y in self.Y)])
        rows = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in numbers])
        return Sentences(self.X[rows], [self.Y[i] for i in numbers])


def read(folder: Path, *, quick: bool) -> tuple[Sentences, Sentences]:
    """Training and test sentences."""
    parts = [tokens_of(folder / f"{name}.txt.gz") for name in ("train", "test")]
    parts = [part[: QUICK_SENTENCES if quick else None] for part in parts]
    named = [[features for sentence in part for features in described(sentence)] for part in parts]
    counts = Counter(name for token in named[0] for name in token)
    number = {name: k for k, name in enumerate(sorted(n for n in counts if counts[n] >= MIN_COUNT))}
    made = []
    for part, tokens in zip(parts, named, strict=True):
        rows = [sorted(number[name] for name in token if name in number) for token in tokens]
        indptr = np.cumsum([0, *(len(row) for row in rows)])
        columns = np.concatenate([np.array(row, np.int64) for row in rows])
        X = sparse.csr_array((np.ones(len(columns)), columns, indptr), (len(rows), len(number)))
        made.append(Sentences(X, [[tag for _, _, tag in sentence] for sentence in part]))
    return made[0], made[1]


def tokens_of(path: Path) -> list[list[tuple[str, str, str]]]:
    """Word, part of speech and chunk tag of the tokens of each sentence."""
    sentences: list[list[tuple[str, str, str]]] = [[]]
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                word, pos, tag = line.split()
                sentences[-1].append((word, pos, tag))
            elif sentences[-1]:
                sentences.append([])
    return [sentence for sentence in sentences if sentence]


def described(sentence: Sequence[tuple[str, str, str]]) -> list[list[str]]:
    """Words, affixes, shapes and one to three parts of speech around each token, and pairs."""
    outside = ["_", "_"]
    words = [*outside, *(word for word, _, _ in sentence), *outside]
    pos = [*outside, *(pos for _, pos, _ in sentence), *outside]
    shapes = [shape(word) for word in words]
    out = []
    for t in range(2, len(words) - 2):
        found = [f"w{k} {words[t + k]}" for k in range(-2, 3)]
        found += [f"ww{k} {words[t + k]} {words[t + k + 1]}" for k in (-1, 0)]
        found.append(f"around {words[t - 1]} {words[t + 1]}")
        for n in (1, 2, 3):
            spans = range(-2, 4 - n)
            found += [f"p{n}{k} {' '.join(pos[t + k : t + k + n])}" for k in spans]
        found += [f"wp{k} {words[t]} {pos[t + k]}" for k in (-1, 0, 1)]
        found += [f"pw{k} {pos[t]} {words[t + k]}" for k in (-1, 1)]
        own = words[t].lower()
        found += [f"first {own[:n]}" for n in (2, 3)] + [f"last {own[-n:]}" for n in (2, 3, 4)]
        found += [f"shape{k} {shapes[t + k]}" for k in (-1, 0, 1)]
        out.append(list(dict.fromkeys(found)))
    return out


def shape(word: str) -> str:
    """Kinds of letters of a word, repeated ones once: ``Aa-0`` for ``Boeing-747``."""
    kinds = (
        "A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in word
    )
    return "".join(kind for kind, _ in groupby(kinds))


def chunks(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """First token, end and type of each chunk."""
    found, start, kind = set(), -1, ""
    for t, tag in enumerate([*tags, "O"]):
        letter, _, own = tag.partition("-")
        if start >= 0 and (letter != "I" or own != kind):
            found.add((start, t, kind))
            start = -1
        if letter == "B" or (letter == "I" and start < 0):
            start, kind = t, own
    return found


def f1(true: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> float:
    """F1 over all chunks, in percent: a chunk is right with its borders and its type."""
    pairs = [(chunks(y), chunks(z)) for y, z in zip(true, found, strict=True)]
    right = sum(len(a & b) for a, b in pairs)
    return 200.0 * right / sum(len(a) + len(b) for a, b in pairs)


def ours(train: Sentences, test: Sentences, C: float) -> tuple[float, dict[str, Any]]:
    """The linear structured SVM, to a certified gap."""
    tags = sorted({tag for y in train.Y for tag in y})
    number = {tag: k for k, tag in enumerate(tags)}
    rows = split(active_features(train.X), train.Y)
    Y = [np.array([number[tag] for tag in y]) for y in train.Y]
    facts: dict[str, Any] = {"C": C}
    settings = {"tol": TOL, "max_epochs": MAX_PASSES, "random_state": 0, "active": ["token"]}
    with cpu_seconds(facts):
        model = StructuredSVM(ChainTask(len(tags)), C=C * len(Y), **settings).fit(rows, Y)
    found = model.predict(split(active_features(test.X), test.Y))
    facts["gap"] = model.history_[-1]["gap"]
    return f1(test.Y, [[tags[k] for k in y] for y in found]), facts


def split(rows: np.ndarray, Y: Sequence[Sequence[str]]) -> list[np.ndarray]:
    return np.split(rows, np.cumsum([len(y) for y in Y])[:-1])


def crfsuite(train: Sentences, test: Sentences, c2: float) -> tuple[float, dict[str, Any]]:
    """CRFsuite, with a weight for each pair of tags, until it stops by itself."""
    import pycrfsuite

    def items(part: Sentences) -> list[Any]:
        names = np.array([str(k) for k in range(part.X.shape[1])])
        rows = np.split(names[part.X.indices], part.X.indptr[1:-1])
        ends = np.cumsum([0, *(len(y) for y in part.Y)])
        tokens = [row.tolist() for row in rows]
        return [pycrfsuite.ItemSequence(tokens[a:b]) for a, b in pairwise(ends)]

    facts: dict[str, Any] = {"c2": c2}
    given = items(train)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        with cpu_seconds(facts):
            trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
            for x, y in zip(given, train.Y, strict=True):
                trainer.append(x, y)
            trainer.set_params({"c2": c2, "feature.possible_transitions": True})
            trainer.train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        found = [tagger.tag(x) for x in items(test)]
        tagger.close()
    return f1(test.Y, found), facts


def tuned(
    method: str, fit: Any, values: Sequence[float], data: tuple[Sentences, Sentences], quick: bool
) -> list[Row]:
    """The value of the largest F1 on a fifth of the training sentences, then all of them."""
    train, test = data
    chosen, trials = values[0], {}
    if len(values) > 1 and not quick:
        order = np.random.RandomState(0).permutation(len(train.Y))
        n_kept = round((1 - HELD_OUT) * len(order))
        kept, held = train.take(order[:n_kept]), train.take(order[n_kept:])
        trials = {"validation": [fit(kept, held, value)[0] for value in values]}
        chosen = values[int(np.argmax(trials["validation"]))]
    found, facts = fit(train, test, chosen)
    return [Row(method, METRIC, found, facts | trials)]


RUNS = (
    Run("linear chain", partial(tuned, OURS, ours, CS)),
    Run("crfsuite", partial(tuned, CRFSUITE, crfsuite, C2S)),
)


def units(name: str, data_dir: Path, *, quick: bool = False) -> list[Unit]:
    folder = Path(data_dir) / "structures/chains/conll2000"
    content = " ".join(content_of(folder / f"{part}.txt.gz") for part in ("train", "test"))
    data = partial(read, folder, quick=quick)
    return [unit(__name__, name, content, data, run, quick) for run in RUNS]


def targets(made: Sequence[Record]) -> list[Target]:
    rows = {
        r["method"]: r for _, r in by(made, "dataset", "method").items() if r["dataset"] == NAME
    }
    ours, theirs = rows.get(OURS), rows.get(CRFSUITE)
    found = [reach("CoNLL-2000 chunks, F1", ours and ours["value"], ">=", 93.75, "{:.2f}")]
    if theirs is not None:
        wanted = f"the same: CPU seconds below CRFsuite's {theirs['seconds']:.0f}"
        found.append(reach(wanted, ours and ours["seconds"], "<", theirs["seconds"], "{:.0f}"))
    return found
