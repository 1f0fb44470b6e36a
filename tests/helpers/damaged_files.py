"""Damaged and crafted variants of every kind of file.

``python -m tests.helpers.damaged_files 12000`` makes so many, in processes that may crash, and
prints what came of them.
"""

from __future__ import annotations

import collections
import copy
import io
import json
import subprocess
import sys
import tempfile
import warnings
import zipfile
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris

from structboost import (
    BinnedTable,
    BinnedTableError,
    Checkpoint,
    CheckpointError,
    Choose,
    ModelFileError,
    MulticlassTask,
    PredictThenOptimize,
    StructBoost,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
    StructuredSVM,
    TaskError,
)
from structboost.files import archive
from structboost.segmentation.crf_training import CRFSettings
from structboost.segmentation.descriptors import describe
from structboost.segmentation.feature_cache import FeatureCache
from structboost.segmentation.made_images import made_images
from structboost.segmentation.segmenter import Segmenter
from structboost.segmentation.unaries import UnarySettings
from structboost.weak.patch import PatchFamily

# TaskError: the file is of another task than it is loaded for.
ERRORS = (ModelFileError, CheckpointError, BinnedTableError, TaskError)
X, Y = load_iris(return_X_y=True)
X, Y = X[::5], Y[::5]
PIXELS = np.random.default_rng(0).random((30, 64))


@dataclass(frozen=True)
class Kind:
    """A kind of file: how one is made in a folder, which file is damaged, and what it is used
    for."""

    make: object
    file: str
    use: object


def classifier(**parameters):
    def make(folder):
        StructBoostClassifier(C=50, max_rounds=3, **parameters).fit(X, Y).save(folder / "file")

    def use(folder):
        loaded = StructBoostClassifier.load(folder / "file")
        stages = [scores.tolist() for scores in loaded.staged_decision_function(X)]
        return [
            loaded.predict(X).tolist(),
            stages,
            loaded.feature_importances_.tolist(),
            loaded.history_,
        ]

    return Kind(make, "file", use)


def make_patches(folder):
    family = partial(PatchFamily, image_shape=(8, 8), side=3, grid=2, overlap=1, n_candidates=5)
    task = MulticlassTask(3)
    StructBoost(task, C=20, max_rounds=2, weak_learner=family, formulation="m_slack").fit(
        PIXELS, Y
    ).save(folder / "file")


def use_patches(folder):
    model = StructBoost.load(folder / "file", MulticlassTask(3)).model_
    return [model.scores(PIXELS).tolist(), model.feature_importances().tolist()]


def mixed_table():
    """Flowers as a frame: two columns of numbers with gaps, and one of categories."""
    length = pd.cut(X[:, 0], 4, labels=["tiny", "short", "long", "huge"])
    width = np.where(np.arange(len(X)) % 7 == 0, np.nan, X[:, 2])
    return pd.DataFrame({"length": length, "width": width, "petal": X[:, 3]})


def make_default(folder):
    StructBoostClassifier(max_rounds=3).fit(mixed_table(), Y).save(folder / "file")


def use_default(folder):
    loaded = StructBoostClassifier.load(folder / "file")
    table = mixed_table()
    return [
        loaded.predict_proba(table).tolist(),
        loaded.feature_importances_.tolist(),
        loaded.history_,
    ]


def sentences(is_of_dicts):
    tokens = [["a", "dog", "ran"], ["dogs"], ["the", "dog", "saw", "a", "cat"]] * 4
    tags = [["D", "N", "V"], ["N"], ["D", "N", "V", "D", "N"]] * 4
    if is_of_dicts:
        return [[{"word": w, "end": w[-1]} for w in words] for words in tokens], tags
    return [[[len(w), w[-1] == "s", w[0] == "d"] for w in words] for words in tokens], tags


def tagger(is_of_dicts, **parameters):
    inputs, outputs = sentences(is_of_dicts)

    def make(folder):
        settings = {"C": 10, "max_rounds": 4, "forbidden": [("D", "V")]} | parameters
        StructBoostTagger(**settings).fit(inputs, outputs).save(folder / "file")

    def use(folder):
        loaded = StructBoostTagger.load(folder / "file")
        return [
            loaded.predict(inputs),
            loaded.predict_marginals(inputs),
            loaded.transitions_.tolist(),
            loaded.history_,
        ]

    return Kind(make, "file", use)


def sets_of_labels(**parameters):
    labels = np.column_stack((X[:, 0] > 6, X[:, 2] > 3, Y > 0)).astype(int)

    def make(folder):
        StructBoostMultiLabelClassifier(C=10, max_rounds=3, **parameters).fit(X, labels).save(
            folder / "file"
        )

    def use(folder):
        loaded = StructBoostMultiLabelClassifier.load(folder / "file")
        return [
            loaded.predict(X).tolist(),
            loaded.model_.scores(X, next(iter(loaded.model_.kinds))).tolist(),
            loaded.history_,
        ]

    return Kind(make, "file", use)


def make_ranker(folder):
    StructBoostRanker(C=10, max_rounds=3, loss="ndcg@2").fit(X, Y, group=[30]).save(folder / "file")


def use_ranker(folder):
    loaded = StructBoostRanker.load(folder / "file")
    return [loaded.predict(X).tolist(), loaded.history_]


def svm(task, inputs, outputs):
    def make(folder):
        StructuredSVM(task, tol=0.1).fit(inputs, outputs).save(folder / "file")

    def use(folder):
        loaded = StructuredSVM.load(folder / "file", task)
        rows = loaded.scores(inputs).rows
        return [{kind: own.tolist() for kind, own in rows.items()}, loaded.history_]

    return Kind(make, "file", use)


def decisions(inputs, **parameters):
    costs = 5 + PIXELS[:, :3] @ PIXELS[:3, :4] + PIXELS[:, 3:7]

    def make(folder):
        PredictThenOptimize(Choose(4, 2), C=1.0, tol=0.1, **parameters).fit(inputs, costs).save(
            folder / "file"
        )

    def use(folder):
        loaded = PredictThenOptimize.load(folder / "file", Choose(4, 2))
        return [loaded.predict_costs(inputs).tolist(), loaded.history_, loaded.path_]

    return Kind(make, "file", use)


def checkpoint(made=None, data=(X, Y), **parameters):
    if made is None:
        made = partial(StructBoost, MulticlassTask(3), C=50, tol=1e-6)

    def fit(folder, max_rounds):
        file = Checkpoint(folder / "file", rounds=1)
        return made(max_rounds=max_rounds, checkpoint=file, **parameters).fit(*data)

    def use(folder):
        fitted = fit(folder, 5)
        return [
            [{**record, "seconds": 0} for record in fitted.history_],
            fitted.model_.weights.tolist(),
            np.asarray(fitted.predict(data[0]), dtype=object).tolist(),
        ]

    return Kind(lambda folder: fit(folder, 4), "file", use)


def use_table(folder):
    trainer = StructBoost(MulticlassTask(3), C=50, max_rounds=2).fit(
        BinnedTable.open(folder / "table"), Y
    )
    return [trainer.objective_, trainer.model_.scores(X).tolist()]


def table(file):
    return Kind(
        lambda folder: BinnedTable.from_array(folder / "table", X), f"table/{file}", use_table
    )


@cache
def made():
    images = made_images(3)
    return [image[::2, ::2] for image in images.images], [mask[::2, ::2] for mask in images.masks]


@cache
def described():
    return describe(np.ascontiguousarray(made()[0][0]), 15)


def segmenter(**crf):
    def make(folder):
        quick = UnarySettings(n_folds=2, group_rounds=2)
        Segmenter(n_segments=60, C=1.0, crf=CRFSettings(max_rounds=2, **crf), unaries=quick).fit(
            *made()
        ).save(folder / "file")

    def use(folder):
        loaded = Segmenter.load(folder / "file")
        settings = [
            loaded.meaning_,
            loaded.crf,
            loaded.unaries,
            loaded.n_segments,
            loaded.longest,
            loaded.C_,
        ]
        return [
            loaded.superpixel_labels(described()).tolist(),
            str(settings),
            loaded.history_,
            loaded.validation_,
        ]

    return Kind(make, "file", use)


def cache_file(folder):
    return FeatureCache(folder).path(made()[0][0], 15)


def make_cache(folder):
    FeatureCache(folder).describe(made()[0][0], 15)
    cache_file(folder).rename(folder / "file")


def use_cache(folder):
    (folder / "file").rename(cache_file(folder))
    found = FeatureCache(folder).describe(made()[0][0], 15)
    alone = {name: array for name, array in vars(found).items() if name != "features"}
    return [
        (name, array.dtype, array.tolist())
        for name, array in sorted((alone | found.features).items())
    ]


KINDS = {
    "stumps": classifier(),
    "trees": classifier(weak_learner="tree"),
    "hyperplanes": classifier(weak_learner="lda"),
    "features": classifier(weak_learner="feature"),
    "pieces": classifier(weak_learner="piecewise"),
    "patches": Kind(make_patches, "file", use_patches),
    "taxonomy": classifier(taxonomy=[[0, 1], [2]]),
    "default classifier": Kind(make_default, "file", use_default),
    "union": classifier(weak_learner=["linear", "stump", "tree"]),
    "tagger of dicts": tagger(True, formulation="log"),
    "tagger of arrays": tagger(False, weak_learner="linear", max_rounds=50),
    "sets of labels": sets_of_labels(loss="f1"),
    "sets in a hierarchy": sets_of_labels(hierarchy=[(0, 2), (1, 2)]),
    "sets seen": sets_of_labels(loss="subset", outputs="seen", pairs=True),
    "ranker": Kind(make_ranker, "file", use_ranker),
    "svm": svm(MulticlassTask(3), X, Y),
    "decisions": decisions(PIXELS[:, :3]),
    "boosted decisions": decisions(
        PIXELS[:, :12].reshape(-1, 4, 3), weak_learner=["linear", "stump"], start="least_squares"
    ),
    "checkpoint": checkpoint(),
    "checkpoint of trees": checkpoint(weak_learner="tree"),
    "checkpoint of the default": checkpoint(StructBoostClassifier),
    "checkpoint of the default tagger": checkpoint(StructBoostTagger, sentences(False)),
    "table": table("bins.npz"),
    "codes of a table": table("codes.npy"),
    "segmenter": segmenter(),
    "linear segmenter": segmenter(learner="ssvm"),
    "segmenter of trees": segmenter(weak_learner="tree"),
    "described image": Kind(make_cache, "file", use_cache),
}

# -- variants -------------------------------------------------------------------------------------

NUMBERS = [
    -1,
    0,
    1,
    2,
    3,
    255,
    10**6,
    10**9,
    1 << 40,
    (1 << 63) - 1,
    -(1 << 63),
    np.nan,
    np.inf,
    -np.inf,
    1e300,
    0.5,
]
JUNK = [
    None,
    True,
    "x",
    "",
    [],
    {},
    -1,
    0,
    1,
    10**6,
    10**30,
    -(10**30),
    0.5,
    np.nan,
    np.inf,
    [[[]]],
    ["a"],
    {"a": 1},
]


def flipped(content, random):
    changed = bytearray(content)
    for place in random.integers(len(changed), size=random.integers(1, 4)):
        changed[place] ^= int(random.integers(1, 256))
    return bytes(changed)


def cut(content, random):
    return content[: random.integers(len(content))]


def extended(content, random):
    return content + random.bytes(random.integers(1, 200))


def blanked(content, random):
    first, length = int(random.integers(len(content))), int(random.integers(1, 200))
    return content[:first] + bytes(length) + content[first + length :]


def moved(content, random):
    a, b = sorted(random.integers(len(content), size=2))
    return content[:a] + content[b:] + content[a:b]


DAMAGES = (flipped, cut, extended, blanked, moved)


def taken_apart(content):
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays.pop("header").tobytes().decode())
    header.pop("checksum", None)
    return header, arrays


def put_together(header, arrays, *, sealed):
    """A file of today's layout with the right checksum, or of the layout that had none."""
    plain = json.loads(json.dumps(header))
    if sealed:
        plain = {**plain, "checksum": archive._checksum(plain, arrays)}
    out = io.BytesIO()
    archive._write(out, json.dumps(plain).encode(), arrays, compressed=True)
    return out.getvalue()


def other_entries(arrays, name, random):
    array = arrays[name]
    if not array.size:
        return
    flat = array.reshape(-1).copy()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = np.array(NUMBERS[random.integers(len(NUMBERS))]).astype(array.dtype)
    if random.random() < 0.3:
        flat[:] = value
    else:
        flat[random.integers(flat.size, size=random.integers(1, 4))] = value
    arrays[name] = flat.reshape(array.shape)


def shuffled(arrays, name, random):
    array = arrays[name].reshape(-1)
    arrays[name] = random.permutation(array).reshape(arrays[name].shape)


def other_shape(arrays, name, random):
    array = arrays[name]
    if not array.ndim:
        arrays[name] = np.repeat(array, 3)
        return
    axis = int(random.integers(array.ndim))
    changes = [
        lambda a: np.repeat(a, 3, axis=axis),
        lambda a: np.delete(a, range(a.shape[axis] // 2, a.shape[axis]), axis=axis),
        lambda a: a[None],
        lambda a: a.T,
        lambda a: a.reshape(-1),
        lambda a: np.zeros((0, *a.shape[1:]), a.dtype),
        lambda a: np.concatenate((a, a[-1:])),
    ]
    arrays[name] = changes[random.integers(len(changes))](array)


def other_type(arrays, name, random):
    with np.errstate(all="ignore"):
        arrays[name] = arrays[name].astype(
            random.choice(["float32", "int8", ">i8", "float64", "U3", "complex64"])
        )


def missing(arrays, name, random):
    del arrays[name]


def doubled(arrays, name, random):
    arrays[name + "x"] = arrays[name]


def swapped(arrays, name, random):
    other = list(arrays)[random.integers(len(arrays))]
    arrays[name], arrays[other] = arrays[other], arrays[name]


CRAFTS = (
    other_entries,
    other_entries,
    other_entries,
    shuffled,
    other_shape,
    other_type,
    missing,
    doubled,
    swapped,
)


def other_header(header, random):
    """One value somewhere in the header is another."""
    header = copy.deepcopy(header)
    place = header
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = keys[random.integers(len(keys))]
        if not isinstance(place[key], dict | list) or not place[key] or random.random() < 0.2:
            break
        place = place[key]
    if isinstance(place, dict) and random.random() < 0.1:
        del place[key]
    else:
        place[key] = JUNK[random.integers(len(JUNK))]
    return header


def huge(content, random):
    """A member that declares, or is, far larger than the file."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        names = old.namelist()
        chosen = names[random.integers(len(names))]
        for name in names:
            data = old.read(name)
            if name == chosen:
                declared = io.BytesIO()
                shape = [(1 << 62,), (1 << 40, 1 << 40), (-1,), (1 << 33, 0), (1 << 31,)][
                    random.integers(5)
                ]
                np.lib.format.write_array_header_1_0(
                    declared, {"descr": "<f8", "fortran_order": False, "shape": shape}
                )
                data = declared.getvalue() + data[128:]
            new.writestr(name, data)
    return out.getvalue()


def variant(content, random):
    """A damaged file, what was done, and whether a file that loads must be the one that was
    saved."""
    is_archive = content[:2] == b"PK"
    if not is_archive or random.random() < 0.4:
        damage = DAMAGES[random.integers(len(DAMAGES)) if random.random() < 0.5 else 0]
        return damage(content, random), damage.__name__, True
    if random.random() < 0.05:
        return huge(content, random), "huge", True
    header, arrays = taken_apart(content)
    if random.random() < 0.3:
        header, name = other_header(header, random), "other_header"
    else:
        craft = CRAFTS[random.integers(len(CRAFTS))]
        craft(arrays, list(arrays)[random.integers(len(arrays))], random)
        name = craft.__name__
    return put_together(header, arrays, sealed=bool(random.random() < 0.5)), name, False


# -- outcomes -------------------------------------------------------------------------------------


class Originals:
    """Files as they were saved, made once each, and what they are used for."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.files = {}

    def of(self, name):
        if name not in self.files:
            kind, own = KINDS[name], self.folder / name
            own.mkdir()
            kind.make(own)
            files = {
                str(path.relative_to(own)): path.read_bytes()
                for path in own.rglob("*")
                if path.is_file()
            }
            self.files[name] = files, self.used(name, files)
        return self.files[name]

    def used(self, name, files):
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            for path, content in files.items():
                target = Path(folder) / path
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(content)
            return repr(KINDS[name].use(Path(folder)))


def outcome(originals, name, seed):
    """What comes of one variant: ``refused``, ``the same``, ``another``, or what must not be."""
    files, expected = originals.of(name)
    random = np.random.default_rng(seed)
    content, how, must_be_equal = variant(files[KINDS[name].file], random)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = originals.used(name, {**files, KINDS[name].file: content})
    except ERRORS:
        return "refused", how
    except Exception as error:
        return f"RAW {type(error).__name__}: {str(error)[:150]}", how
    if found == expected:
        return "the same", how
    return ("DIFFERENT" if must_be_equal else "another"), how


def _run(name, first, last):
    with tempfile.TemporaryDirectory() as folder:
        originals = Originals(folder)
        for seed in range(first, last):
            sys.stdout.write(json.dumps([seed, *outcome(originals, name, seed)]) + "\n")
            sys.stdout.flush()


def main(n):
    counts = {name: collections.Counter() for name in KINDS}
    bad = []
    slow = [name for name in KINDS if "segmenter" in name or name == "described image"]
    for name in KINDS:
        # The slow ones get 40 percent of what the others get.
        share = int(np.ceil(n / (len(KINDS) - 0.6 * len(slow)) * (0.4 if name in slow else 1.0)))
        first = 0
        while first < share:
            command = [
                sys.executable,
                "-m",
                "tests.helpers.damaged_files",
                "--run",
                name,
                str(first),
                str(share),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            for line in done.stdout.splitlines():
                seed, result, how = json.loads(line)
                counts[name][result.split(":")[0]] += 1
                if result[0].isupper():
                    bad.append((name, seed, how, result))
                first = seed + 1
            if done.returncode:
                bad.append((name, first, "", f"CRASH {done.returncode} {done.stderr[-300:]}"))
                counts[name]["CRASH"] += 1
                first += 1
        print(name, dict(counts[name]), flush=True)  # noqa: T201
    print("all", dict(sum(counts.values(), collections.Counter())))  # noqa: T201
    for entry in bad[:60]:
        print(entry)  # noqa: T201
    return int(bool(bad))


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        _run(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        sys.exit(main(int(sys.argv[1])))
