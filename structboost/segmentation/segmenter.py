"""From photographs and masks to a model that segments new photographs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from structboost.segmentation.crf_model import CRFModel
from structboost.segmentation.crf_training import CRFSettings, fit_crf, tuned
from structboost.segmentation.descriptors import DescribedImage, describe
from structboost.segmentation.feature_cache import FeatureCache, describe_all, describe_in_turn
from structboost.segmentation.image_files import VOID, Mask, Photograph, ReadWhenUsed, fitted, resized_mask
from structboost.segmentation.labelled_folder import Meaning
from structboost.segmentation.potentials import PotentialScale, superpixel_graph, unary_potentials
from structboost.segmentation.scribbles import BACKGROUND, OBJECT, scribble_answers, scribbled_labels
from structboost.segmentation.superpixels import label_counts
from structboost.segmentation.unaries import UnaryClassifiers, UnarySettings, fit_unaries
from structboost.tasks.superpixel_crf import SuperpixelGraph


@dataclass
class Segmenter:
    """Learns to segment photographs: superpixels, boosted unary potentials, and a CRF whose weights are learned.

    StructBoost, sections 3.6 and 4.5.

    Parameters
    ----------
    n_segments : int
        Superpixels of an image, about.
    longest : int
        Photographs are brought to this longer side, in pixels, before anything else; masks come out at full size.
    C : float or None
        Weight of the loss; None: by cross-validation for two labels, else 0.3 (:func:`.crf_training.tuned`).
    crf : CRFSettings
    unaries : UnarySettings
    random_state : int
    n_jobs : int or None
        Processes; the result does not depend on it.
    cache : str or path, optional
        Folder where features of images are kept.
    verbose : int
        1 shows what is done.
    meaning : Meaning
        What the values of the masks stood for, when they were read from files.

    Attributes
    ----------
    n_labels_ : int
    classifiers_ : UnaryClassifiers or None
        None for a model of scribbles.
    crf_model_ : CRFModel
    history_ : list of dict
        Of the training of the CRF: primal, bound, gap, one a round.
    C_ : float
    validation_ : list of (float, float)
        Each C that was tried, and its mean IoU, if C was chosen.
    """

    n_segments: int = 300
    longest: int = 512
    C: float | None = None
    crf: CRFSettings = field(default_factory=CRFSettings)
    unaries: UnarySettings = field(default_factory=UnarySettings)
    random_state: int = 0
    n_jobs: int | None = None
    cache: str | PathLike[str] | None = None
    verbose: int = 0
    meaning: Meaning = field(default_factory=Meaning)

    def fit(
        self, images: Sequence[Photograph], masks: Sequence[Mask], scribbles: Sequence[Mask] | None = None
    ) -> Segmenter:
        """Train on photographs and masks.

        Parameters
        ----------
        images : sequence of ndarray of uint8, shape (height, width, 3)
            RGB, any sizes.
        masks : sequence of ndarray of uint8, shape (height, width)
            Class indices, 255 where void.
        scribbles : sequence of ndarray of uint8, shape (height, width), optional
            1 on the object, 2 on the background, 0 elsewhere: then the model segments by scribbles, two classes.

        Raises
        ------
        ValueError
            If there are fewer than two images, lengths or sizes differ, or there is only one class.
        """
        _check_pairs(images, masks)
        n_labels = _n_labels(masks)
        described = self._describe(images)
        counts = [
            label_counts(d.labels, resized_mask(mask, d.labels.shape), n_labels)
            for d, mask in zip(described, masks, strict=True)
        ]
        strokes = None
        if scribbles is not None:
            pairs = zip(scribbles, images, described, strict=True)
            strokes = [_resized_strokes(of_image, image, d) for of_image, image, d in pairs]
        return self.fit_described(described, counts, strokes)

    def fit_described(
        self,
        images: Sequence[DescribedImage],
        counts: Sequence[NDArray[np.int64]],
        scribbles: Sequence[Mask] | None = None,
    ) -> Segmenter:
        """As :meth:`fit`, from described images and the pixels of each class in each superpixel."""
        self.n_labels_ = int(counts[0].shape[1])
        self.classifiers_: UnaryClassifiers | None = None
        if scribbles is None:
            self.classifiers_, answers = fit_unaries(
                images,
                counts,
                self.unaries,
                random_state=self.random_state,
                n_jobs=self.n_jobs,
                report=self._say,
            )
        else:
            _check_scribbled(images, scribbles, self.n_labels_)
            answers = [self._answers(image, strokes) for image, strokes in zip(images, scribbles, strict=True)]
        pairs = list(zip(images, answers, strict=True))
        self.scale_ = PotentialScale.of(
            [unary_potentials(image, found, appearance=not self.needs_scribbles) for image, found in pairs]
        )
        graphs = [self._graph(image, found) for image, found in pairs]
        settings, self.validation_ = self.crf, []
        if self.C is not None:
            self.C_ = float(self.C)
        else:
            self._say("C, by threefold cross-validation")
            settings, self.C_, scores = tuned(graphs, counts, self.crf, random_state=self.random_state)
            self.validation_ = sorted(scores.items())
        self._say(f"CRF with C = {self.C_:g}")
        trainer = fit_crf(graphs, counts, settings, self.C_)
        self.history_ = list(trainer.history_)
        self.crf_model_ = CRFModel.of(trainer)
        return self

    def predict(self, image: Photograph, scribbles: Mask | None = None) -> Mask:
        """Class of each pixel, at the size of the image.

        Parameters
        ----------
        image : ndarray of uint8, shape (height, width, 3)
            RGB.
        scribbles : ndarray of uint8, shape (height, width), optional
            1 object, 2 background, 0 nothing: what lies under them has that label.  A model that was trained with
            scribbles needs them, and spreads them over the image; others need them not.

        Raises
        ------
        ValueError
            If the model needs scribbles and there are none, or they do not fit the image.
        """
        return self._mask(describe(fitted(image, self.longest), self.n_segments), image, scribbles)

    def predict_in_turn(self, images: Sequence[Photograph], scribbles: Sequence[Mask] | None = None) -> Iterator[Mask]:
        """As :meth:`predict`, for many images: features come from the cache, or from processes side by side."""
        for number, described in enumerate(describe_in_turn(self._small(images), self.n_segments, **self._how())):
            yield self._mask(described, images[number], None if scribbles is None else scribbles[number])

    def superpixel_labels(self, image: DescribedImage, scribbles: Mask | None = None) -> NDArray[np.int64]:
        """Class of each superpixel; scribbles at the size of the described image."""
        graph = self.graph(image, scribbles)
        known = None if scribbles is None else scribbled_labels(image, scribbles)
        return self.crf_model_.labels(graph, known)

    def graph(self, image: DescribedImage, scribbles: Mask | None = None) -> SuperpixelGraph:
        """The CRF of an image: potentials of its superpixels and edges."""
        if not hasattr(self, "crf_model_"):
            raise NotFittedError("This Segmenter is not fitted yet; call fit(images, masks) first.")
        return self._graph(image, self._answers(image, scribbles))

    @property
    def needs_scribbles(self) -> bool:
        """Whether the model was trained with scribbles."""
        return self.classifiers_ is None

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file (:mod:`structboost.segmentation.segmenter_file`), atomically."""
        from structboost.segmentation.segmenter_file import save_segmenter

        save_segmenter(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Segmenter:
        """Read a model that :meth:`save` wrote; no code of the file is run."""
        from structboost.segmentation.segmenter_file import load_segmenter

        return load_segmenter(path)

    def _graph(self, image: DescribedImage, answers: NDArray[np.float64]) -> SuperpixelGraph:
        return superpixel_graph(image, answers, self.scale_, appearance=not self.needs_scribbles)

    def _answers(self, image: DescribedImage, scribbles: Mask | None) -> NDArray[np.float64]:
        """Log-probabilities of the labels, shape (n_superpixels, n_classifiers, n_labels)."""
        if self.classifiers_ is not None:
            return self.classifiers_.log_probabilities(image)
        if scribbles is None:
            raise ValueError("The model was trained with scribbles; give scribbles for each image.")
        return scribble_answers(image, scribbled_labels(image, scribbles))

    def _mask(self, described: DescribedImage, image: Photograph, scribbles: Mask | None) -> Mask:
        """Classes at the size of the image."""
        strokes = None if scribbles is None else _resized_strokes(scribbles, image, described)
        labels = self.superpixel_labels(described, strokes).astype(np.uint8)
        return resized_mask(labels[described.labels], image.shape)

    def _describe(self, images: Sequence[Photograph]) -> list[DescribedImage]:
        return describe_all(self._small(images), self.n_segments, verbose=bool(self.verbose), **self._how())

    def _small(self, images: Sequence[Photograph]) -> ReadWhenUsed:
        return ReadWhenUsed(images, lambda image: fitted(image, self.longest))

    def _how(self) -> dict[str, Any]:
        """Where features are kept and how many processes make them."""
        return {"cache": None if self.cache is None else FeatureCache(self.cache), "n_jobs": self.n_jobs}

    def _say(self, text: str) -> None:
        if self.verbose:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


def _check_pairs(images: Sequence[Photograph], masks: Sequence[Mask]) -> None:
    if len(images) != len(masks):
        raise ValueError(f"There are {len(images)} images and {len(masks)} masks; give one of each.")
    if len(images) < 2:
        raise ValueError(f"{len(images)} image is too few to train on; give at least 2, better 20.")
    for i, (image, mask) in enumerate(zip(images, masks, strict=True)):
        if image.shape[:2] != mask.shape:
            raise ValueError(f"images[{i}] has shape {image.shape}, masks[{i}] {mask.shape}; they must be of one size.")


def _check_scribbled(images: Sequence[DescribedImage], scribbles: Sequence[Mask], n_labels: int) -> None:
    if len(images) != len(scribbles):
        raise ValueError(f"There are {len(images)} images and {len(scribbles)} scribbles; give one of each.")
    if n_labels != 2:
        raise ValueError(f"Scribbles tell object from background, but the masks hold {n_labels} classes.")


def _n_labels(masks: Sequence[Mask]) -> int:
    present = np.unique(np.concatenate([np.unique(mask) for mask in masks]))
    present = present[present != VOID]
    if len(present) < 2:
        raise ValueError(f"The masks hold the classes {present.tolist()} only; give at least two to learn from.")
    return int(present.max()) + 1


def _resized_strokes(scribbles: Mask, image: Photograph, described: DescribedImage) -> Mask:
    """Scribbles at the size of the described image; none is lost; where both fall on one pixel, object wins."""
    if scribbles.shape != image.shape[:2]:
        raise ValueError(
            f"scribbles has shape {scribbles.shape}, the image {image.shape[:2]}; they must be of one size."
        )
    shape = described.labels.shape
    if scribbles.shape == shape:
        return scribbles
    out = np.zeros(shape, np.uint8)
    for value in (BACKGROUND, OBJECT):
        y, x = np.nonzero(scribbles == value)
        out[y * shape[0] // scribbles.shape[0], x * shape[1] // scribbles.shape[1]] = value
    return out
