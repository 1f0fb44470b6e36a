"""Files of the segmenter, and of its cache of described images."""

from __future__ import annotations

from functools import cache

import numpy as np

from structboost.segmentation.crf_training import CRFSettings
from structboost.segmentation.descriptors import describe
from structboost.segmentation.feature_cache import FeatureCache
from structboost.segmentation.segmenter import Segmenter
from structboost.segmentation.synthetic_images import make_synthetic_images
from structboost.segmentation.unaries import UnarySettings
from tests.helpers.damaged_files.kind import Kind


@cache
def made():
    images = make_synthetic_images(3)
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
    "segmenter": segmenter(),
    "linear segmenter": segmenter(learner="ssvm"),
    "segmenter of trees": segmenter(weak_learner="tree"),
    "described image": Kind(make_cache, "file", use_cache),
}
