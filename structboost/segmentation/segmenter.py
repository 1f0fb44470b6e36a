"""From photographs and masks to a model that segments new photographs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from structboost._typing import FloatArray, IntArray
from structboost.runtime.blas_threads import one_blas_thread
from structboost.segmentation.crf_model import CRFModel
from structboost.segmentation.crf_training import CRFSettings, fit_crf, tuned
from structboost.segmentation.descriptors import DescribedImage, describe
from structboost.segmentation.feature_cache import FeatureCache, describe_in_turn
from structboost.segmentation.image_files import (
    VOID,
    Mask,
    Photograph,
    ReadWhenUsed,
    fitted,
    mask_of,
    resized_mask,
)
from structboost.segmentation.labelled_folder import WHITE_IS_FOREGROUND, Meaning, n_labels_of
from structboost.segmentation.potentials import PotentialScale, superpixel_graph, unary_potentials
from structboost.segmentation.scribbles import (
    BACKGROUND,
    OBJECT,
    scribble_answers,
    scribbled_labels,
)
from structboost.segmentation.segmenter_file import read_segmenter, write_segmenter
from structboost.segmentation.superpixels import label_counts
from structboost.segmentation.unaries import UnaryClassifiers, UnarySettings, fit_unaries
from structboost.tasks.superpixel_crf import SuperpixelGraph
from structboost.vision.images import as_rgb, checked_image


@dataclass
class Segmenter:
    """Segments photographs by superpixels, boosted unary potentials and a learned CRF.

    StructBoost, sections 3.6 and 4.5.

    Parameters
    ----------
    n_segments : int
        Approximate number of superpixels per image.
    longest : int
        Longest side in pixels: larger photographs are shrunk to it first.  Masks come out at full
        size.
    C : float or None
        Weight of the loss.  None chooses it: by cross-validation for two labels, 0.3 for more
        (:func:`.crf_training.tuned`).
    crf : CRFSettings
        How the CRF is trained.
    unaries : UnarySettings
        How the classifiers of superpixels are trained.
    random_state : int
        Seed for folds, samples and visual words.
    n_jobs : int or None
        Number of processes; the result does not depend on it.
    cache : str or path, optional
        Folder that keeps the features of images.
    verbose : int
        1 reports progress on standard error.
    meaning : Meaning
        What the values of mask files stand for.

    Attributes
    ----------
    n_labels_ : int
        Number of classes.
    classifiers_ : UnaryClassifiers or None
        Classifiers of superpixels; None for a model of scribbles.
    crf_model_ : CRFModel
    history_ : list of dict
        Records of the CRF's training (primal, bound, gap), one per round.
    interrupted_ : bool
        Whether Ctrl-C ended the training of the CRF.  An earlier Ctrl-C leaves no model and raises
        KeyboardInterrupt.
    C_ : float
        The C that was used.
    validation_ : list of (float, float)
        Each C that was tried with its mean IoU; empty where C was given.
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
        self,
        images: Sequence[Photograph],
        masks: Sequence[Mask],
        scribbles: Sequence[Mask] | None = None,
    ) -> Segmenter:
        """Train on photographs and masks.

        Parameters
        ----------
        images : sequence of ndarray of uint8, shape (height, width, 3), or of PIL.Image.Image
            RGB of any size, or grey of shape (height, width).
        masks : sequence of ndarray of uint8, shape (height, width), or of PIL.Image.Image
            Class indices, 255 where void.  In masks that hold only 0 and 255, 255 is the
            foreground, class 1.
        scribbles : sequence of ndarray of uint8, shape (height, width), optional
            1 on the object, 2 on the background, 0 elsewhere.  The model then segments by
            scribbles into two classes.

        Raises
        ------
        ValueError
            If there are fewer than two images or classes, lengths or sizes differ, or an image or
            a mask cannot be used.  The message gives the number of the image.
        """
        shapes, values = _checked_pairs(images, masks, scribbles)
        meaning = self._meaning_of(values)
        n_labels = 2 if meaning.white_is_foreground else n_labels_of(values)
        described = list(self._described(images, verbose=bool(self.verbose)))
        counts = []
        for i, d in enumerate(described):
            labels = meaning.labels(mask_of(masks[i], f"masks[{i}]"))
            counts.append(label_counts(d.labels, resized_mask(labels, d.labels.shape), n_labels))
        if scribbles is None:
            return self.fit_described(described, counts)
        strokes = [
            _resized_strokes(scribbles[i], shapes[i], d, f"scribbles[{i}]")
            for i, d in enumerate(described)
        ]
        return self.fit_described(described, counts, strokes)

    def fit_described(
        self,
        images: Sequence[DescribedImage],
        counts: Sequence[IntArray],
        scribbles: Sequence[Mask] | None = None,
    ) -> Segmenter:
        """Train as :meth:`fit`, from described images and pixel counts of their superpixels.

        Parameters
        ----------
        images : sequence of DescribedImage
        counts : sequence of ndarray of int64, shape (n_superpixels, n_labels)
            Pixels of each class in each superpixel.
        scribbles : sequence of ndarray of uint8, optional
            Scribbles at the sizes of the described images.
        """
        with one_blas_thread():
            self._fit(images, counts, scribbles)
        return self

    def predict(self, image: Photograph, scribbles: Mask | None = None) -> Mask:
        """Class of each pixel, at the size of the image.

        Parameters
        ----------
        image : ndarray of uint8, shape (height, width, 3), or PIL.Image.Image
            RGB, or grey of shape (height, width).
        scribbles : ndarray of uint8, shape (height, width), optional
            1 on the object, 2 on the background, 0 elsewhere; these pixels keep their label.
            Required by a model that was trained with scribbles, optional otherwise.

        Raises
        ------
        ValueError
            If the image is not 8-bit, or scribbles are missing or do not fit the image.
        """
        pixels = _photograph(image, "image")
        described = describe(fitted(pixels, self.longest), self.n_segments)
        return self._mask(described, pixels.shape, scribbles)

    def predict_in_turn(
        self, images: Sequence[Photograph], scribbles: Sequence[Mask] | None = None
    ) -> Iterator[Mask]:
        """Masks of many images, one by one: features come from the cache or from processes."""
        for i, described in enumerate(self._described(images)):
            shape = _photograph(images[i], f"images[{i}]").shape
            strokes = None if scribbles is None else scribbles[i]
            yield self._mask(described, shape, strokes, f"scribbles[{i}]")

    def superpixel_labels(self, image: DescribedImage, scribbles: Mask | None = None) -> IntArray:
        """Class of each superpixel; scribbles have the size of the described image."""
        graph = self.graph(image, scribbles)
        known = None if scribbles is None else scribbled_labels(image, scribbles)
        return self.crf_model_.labels(graph, known)

    def graph(self, image: DescribedImage, scribbles: Mask | None = None) -> SuperpixelGraph:
        """The CRF of an image: potentials of its superpixels and edges."""
        self._check_fitted()
        with one_blas_thread():
            return self._graph(image, self._answers(image, scribbles))

    @property
    def needs_scribbles(self) -> bool:
        """Whether the model was trained with scribbles."""
        return self.classifiers_ is None

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file: all of it or nothing.

        Raises
        ------
        NotFittedError
            If there is no model.
        OSError
            If the file cannot be written.
        """
        self._check_fitted()
        write_segmenter(path, vars(self))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Segmenter:
        """Read a model that :meth:`save` wrote; no code of the file is run.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ModelFileError
            If it is not a segmenter, is damaged, or is of another version.
        """
        segmenter = cls()
        vars(segmenter).update(read_segmenter(path))
        return segmenter

    def _check_fitted(self) -> None:
        if not hasattr(self, "crf_model_"):
            raise NotFittedError("This Segmenter is not fitted yet; call fit(images, masks) first.")

    def _fit(
        self,
        images: Sequence[DescribedImage],
        counts: Sequence[IntArray],
        scribbles: Sequence[Mask] | None,
    ) -> None:
        # An interrupted fit leaves nothing of the last one.
        self.__dict__.pop("crf_model_", None)
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
            if self.n_labels_ != 2:
                raise ValueError(
                    "Scribbles tell object from background, but the masks hold "
                    f"{self.n_labels_} classes."
                )
            answers = [
                self._answers(image, strokes, f"scribbles[{i}]")
                for i, (image, strokes) in enumerate(zip(images, scribbles, strict=True))
            ]
        pairs = list(zip(images, answers, strict=True))
        self.scale_ = PotentialScale.of(
            [
                unary_potentials(image, found, appearance=not self.needs_scribbles)
                for image, found in pairs
            ]
        )
        graphs = [self._graph(image, found) for image, found in pairs]
        settings, self.validation_ = self.crf, []
        if self.C is not None:
            self.C_ = float(self.C)
        else:
            self._say("C, by threefold cross-validation")
            settings, self.C_, scores = tuned(
                graphs, counts, self.crf, random_state=self.random_state
            )
            self.validation_ = sorted(scores.items())
        self._say(f"CRF with C = {self.C_:g}")
        trainer = fit_crf(graphs, counts, settings, self.C_)
        self.history_, self.interrupted_ = list(trainer.history_), trainer.interrupted_
        self.crf_model_ = CRFModel.of(trainer)

    def _meaning_of(self, values: set[int]) -> Meaning:
        """What these values of masks mean; foreground and background are kept for output files."""
        if values == {0, VOID} and self.meaning.foreground is None:
            self._say(str(WHITE_IS_FOREGROUND))
            self.meaning = WHITE_IS_FOREGROUND
            return self.meaning
        if self.meaning.white_is_foreground and max(values - {VOID}, default=0) > 1:
            self.meaning = Meaning()  # that of an earlier fit
        return Meaning()

    def _graph(self, image: DescribedImage, answers: FloatArray) -> SuperpixelGraph:
        return superpixel_graph(image, answers, self.scale_, appearance=not self.needs_scribbles)

    def _answers(
        self, image: DescribedImage, scribbles: Mask | None, name: str = "scribbles"
    ) -> FloatArray:
        """Log-probabilities of the labels, shape (n_superpixels, n_classifiers, n_labels)."""
        if self.classifiers_ is not None:
            return self.classifiers_.log_probabilities(image)
        if scribbles is None:
            raise ValueError("The model was trained with scribbles; give scribbles for each image.")
        return scribble_answers(image, scribbled_labels(image, scribbles, name))

    def _mask(
        self,
        described: DescribedImage,
        shape: tuple[int, ...],
        scribbles: Mask | None,
        name: str = "scribbles",
    ) -> Mask:
        """Classes at the size of the image."""
        strokes = None if scribbles is None else _resized_strokes(scribbles, shape, described, name)
        labels = self.superpixel_labels(described, strokes).astype(np.uint8)
        return resized_mask(labels[described.labels], shape)

    def _described(
        self, images: Sequence[Photograph], verbose: bool = False
    ) -> Iterator[DescribedImage]:
        small = ReadWhenUsed(
            range(len(images)),
            lambda i: fitted(_photograph(images[i], f"images[{i}]"), self.longest),
        )
        cache = None if self.cache is None else FeatureCache(self.cache)
        return describe_in_turn(
            small, self.n_segments, cache=cache, n_jobs=self.n_jobs, verbose=verbose
        )

    def _say(self, text: str) -> None:
        if self.verbose:
            sys.stderr.write(f"{text}\n")


def _photograph(image: Any, name: str) -> Photograph:
    return as_rgb(checked_image(image, name))


def _checked_pairs(
    images: Sequence[Photograph], masks: Sequence[Mask], scribbles: Sequence[Mask] | None
) -> tuple[list[tuple[int, ...]], set[int]]:
    """Height and width of each image, and all values of the masks."""
    for name, others in (("masks", masks), ("scribbles", scribbles)):
        if others is not None and len(images) != len(others):
            raise ValueError(
                f"There are {len(images)} images and {len(others)} {name}; give one of each."
            )
    if len(images) < 2:
        raise ValueError(f"{len(images)} image is too few to train on; give at least 2, better 20.")
    shapes: list[tuple[int, ...]] = []
    values: set[int] = set()
    for i in range(len(images)):
        shape = checked_image(images[i], f"images[{i}]").shape[:2]
        mask = mask_of(masks[i], f"masks[{i}]")
        if shape != mask.shape:
            raise ValueError(
                f"images[{i}] has {shape[1]} x {shape[0]} pixels, masks[{i}] "
                f"{mask.shape[1]} x {mask.shape[0]}; they must be of one size."
            )
        shapes.append(shape)
        values.update(np.unique(mask).tolist())
    return shapes, values


def _resized_strokes(
    given: Mask, image_shape: tuple[int, ...], described: DescribedImage, name: str
) -> Mask:
    """Scribbles at the size of the described image.

    No stroke is lost; a pixel under both kinds is the object.
    """
    scribbles = mask_of(given, name)
    if scribbles.shape != image_shape[:2]:
        raise ValueError(
            f"{name} has shape {scribbles.shape}, the image {image_shape[:2]}; "
            "they must be of one size."
        )
    shape = described.labels.shape
    if scribbles.shape == shape:
        return scribbles
    out = np.zeros(shape, np.uint8)
    for value in (BACKGROUND, OBJECT):
        y, x = np.nonzero(scribbles == value)
        out[y * shape[0] // scribbles.shape[0], x * shape[1] // scribbles.shape[1]] = value
    return out
