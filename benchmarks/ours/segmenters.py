"""`Segmenter` as users train it: with classifiers of their own, on scenes, on many photographs."""

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.ours.strokes import drawn
from benchmarks.runner.limits import Report, peak_memory, reset_peak_memory
from benchmarks.runner.protocol import cpu_timed
from benchmarks.runner.units import Result
from structboost import StructBoostClassifier
from structboost.segmentation import OwnUnaries, Segmenter, make_synthetic_images, read_folder
from structboost.segmentation.image_files import ReadWhenUsed
from structboost.segmentation.labelled_folder import LabelledImage
from structboost.segmentation.unaries import UnarySettings

CACHE = Path(".bench") / "features"
OURS, FOREST, BUILT_IN = "StructBoostClassifier", "forest and linear", "built in"
IN_A_ROW, EVERY = 20, 3  # frames of a scene; of which every third is taken
CAR = 8


def _forest(seed: int) -> Any:
    """The classifier of the guide."""
    trees = ExtraTreesClassifier(
        150, min_samples_leaf=4, max_samples=0.5, bootstrap=True, random_state=seed
    )
    linear = make_pipeline(StandardScaler(), LogisticRegression(C=1e-3, max_iter=60))
    return VotingClassifier([("trees", trees), ("linear", linear)], voting="soft")


UNARIES = {
    BUILT_IN: lambda seed: UnarySettings(),
    OURS: lambda seed: OwnUnaries(StructBoostClassifier(random_state=seed)),
    FOREST: lambda seed: OwnUnaries(_forest(seed)),
}


def with_own_unaries(method: str, root: Path, n: int, seed: int) -> Result:
    """Mean IoU on photographs drawn from the test part, after training on as many others."""
    train, test = (drawn(root, part, n, seed) for part in ("train", "test"))
    segmenter = Segmenter(C=0.3, unaries=UNARIES[method](seed), random_state=seed, cache=CACHE)
    with threadpool_limits(1):
        segmenter.fit(*_pairs(train))
        return {"value": segmenter.score(*_pairs(test))}


def on_scenes(method: str, root: Path, seed: int) -> Result:
    """Cars against all else: validation beside a test on a third of the scenes, drawn at random."""
    frames = read_folder(root / "images", root / "masks", foreground=CAR, strict=True).images
    scenes = _scenes([frame.name for frame in frames])
    names = np.unique(scenes)
    tested = np.random.default_rng(seed).permutation(names)[: len(names) // 3]
    parts: tuple[list[int], list[int]] = [], []
    for number in range(0, len(frames), EVERY):
        parts[scenes[number] in tested].append(number)
    train, test = ([frames[number] for number in part] for part in parts)
    groups = [scenes[number] for number in parts[0]] if method == "groups" else None
    segmenter = Segmenter(random_state=seed, cache=CACHE)
    with threadpool_limits(1):
        segmenter.fit(*_pairs(train), groups=groups)
        test_value = segmenter.score(*_pairs(test))
    validation = dict(segmenter.validation_)[segmenter.C_]
    return {"value": test_value, "validation": validation, "C": segmenter.C_}


def _scenes(names: list[str]) -> list[str]:
    """Up to 20 frames in a row of each drive."""
    drives = [name.rpartition("_")[0] for name in names]
    return [f"{d} {(k - drives.index(d)) // IN_A_ROW}" for k, d in enumerate(drives)]


def on_many(report: Report, roots: list[Path], n: int) -> Result:
    """Peak memory and CPU seconds of training on all photographs of some sets, then mirrored."""
    found = [image for root in roots for image in read_folder(*_folders(root), strict=True).images]
    chosen = [(image, mirrored) for mirrored in (False, True) for image in found][:n]
    images, masks = (
        ReadWhenUsed(chosen, lambda one, what=what: _seen(getattr(one[0], what), one[1]))
        for what in ("image", "mask")
    )
    with threadpool_limits(1):
        made = make_synthetic_images(4)
        Segmenter(n_segments=60, C=0.3).fit(made.images, made.masks)  # compiles
        report({})
        reset_peak_memory()
        segmenter, seconds = cpu_timed(Segmenter().fit, images, masks)
    validation = dict(segmenter.validation_)[segmenter.C_]
    return {"value": validation, "peak": peak_memory(), "seconds": seconds / len(chosen)}


def _seen(pixels: np.ndarray, mirrored: bool) -> np.ndarray:
    return np.ascontiguousarray(pixels[:, ::-1]) if mirrored else pixels


def _folders(root: Path) -> tuple[Path, Path]:
    return root / "images", root / "masks"


def _pairs(found: list[LabelledImage]) -> tuple[ReadWhenUsed, ReadWhenUsed]:
    """Photographs and masks, each read when it is used."""
    return ReadWhenUsed(found, lambda one: one.image), ReadWhenUsed(found, lambda one: one.mask)
