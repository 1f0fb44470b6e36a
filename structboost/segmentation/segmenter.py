"""Segmenter, which learns from photographs and masks to segment new photographs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from os import PathLike
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from structboost._typing import FloatArray, IntArray, override
from structboost.files.saved import LoadedFromFile
from structboost.progress import Phase
from structboost.runtime.blas import one_blas_thread
from structboost.runtime.documentation import Documented
from structboost.runtime.fitted_state import committed
from structboost.segmentation.crf_model import CRFModel, calibrated_sharpness
from structboost.segmentation.crf_training import CRFSettings, fit_tuned, images_of_search
from structboost.segmentation.descriptors import DescribedImage, label_counts
from structboost.segmentation.feature_cache import (
    Describing,
    FeatureCache,
    StoredImages,
    describe_in_turn,
    fill_cache,
)
from structboost.segmentation.image_files import (
    Mask,
    Photograph,
    ReadWhenUsed,
    check_one_size,
    mask_of,
    photograph,
    resized_mask,
    shrink_to,
)
from structboost.segmentation.masks import LabelMap, check_hard_edges, meaning_of
from structboost.segmentation.potentials import PotentialScale, superpixel_graph, unary_potentials
from structboost.segmentation.refinement import refine_mask
from structboost.segmentation.scores import SegmentationScores, confusion
from structboost.segmentation.scribbles import (
    resized_strokes,
    scribble_log_probabilities,
    scribbled_labels,
)
from structboost.segmentation.segmenter_file import read_segmenter, write_segmenter
from structboost.segmentation.unaries import (
    OwnClassifiers,
    OwnUnaries,
    UnaryClassifiers,
    UnarySettings,
)
from structboost.segmentation.unary_training import fit_unaries
from structboost.tasks.superpixel_crf import SuperpixelGraph
from structboost.validation import (
    checked_n_jobs,
    checked_positive,
    checked_seed,
    checked_whole_number,
    group_indices_by_name,
    shown,
)
from structboost.vision.images import checked_image


def one_photograph(image: Any) -> Photograph:
    """Return the pixels of a single image as RGB."""
    if isinstance(image, list | tuple) or getattr(image, "ndim", 2) == 4:
        raise ValueError(
            f"image is a {type(image).__name__} of {len(image)}; give one image, "
            "or use predict_in_turn for many."
        )
    return photograph(image, "image")


def check_lengths(images: Sequence[Photograph], **others: Sequence[Any] | None) -> None:
    """Raise TypeError or ValueError unless there is one of each for every image."""
    _check_list(images, "images")
    for name, listed in others.items():
        if listed is not None or name == "masks":
            _check_list(listed, name)
        if listed is not None and len(images) != len(listed):
            raise ValueError(
                f"There are {len(images)} images and {len(listed)} {name}; give one of each."
            )


def _check_list(listed: Any, name: str) -> None:
    """Raise TypeError unless a value may be a list of pictures or of groups."""
    is_list = hasattr(listed, "__len__") and hasattr(listed, "__getitem__")
    if not is_list or isinstance(listed, Mapping | Set | str | bytes | type):
        what = f"one {type(listed).__name__}" if listed is not None else "None"
        raise TypeError(f"{name} is {what}; give a list with one for each image.")
    shape: Any = getattr(listed, "shape", ()) if isinstance(listed, np.ndarray) else ()
    n_axes = len(shape)
    if n_axes == 2 or (n_axes == 3 and name == "images" and shape[2] in (3, 4)):
        raise ValueError(
            f"{name} is an array of shape {shape}, one picture; give a list, such as [{name}]."
        )


def checked_pairs(
    images: Sequence[Photograph],
    masks: Sequence[Mask],
    scribbles: Sequence[Mask] | None,
    groups: Sequence[Any] | None,
    *,
    is_known: bool,
    verbose: bool = False,
) -> tuple[list[tuple[int, ...]], set[int]]:
    """Check pairs and return the shape of each image and all values of the masks."""
    check_lengths(images, masks=masks, scribbles=scribbles, groups=groups)
    if len(images) < 2:
        raise ValueError(f"{len(images)} image is too few to train on; give at least 2, better 20.")
    shapes: list[tuple[int, ...]] = []
    values: set[int] = set()
    with Phase("images and masks checked", len(images), verbose) as line:
        for i in range(len(images)):
            shape = checked_image(images[i], f"images[{i}]").shape[:2]
            mask = mask_of(masks[i], f"masks[{i}]")
            check_one_size(f"images[{i}]", shape, f"masks[{i}]", mask.shape)
            if not is_known:
                check_hard_edges(mask, f"masks[{i}]")
            shapes.append(shape)
            values.update(np.unique(mask).tolist())
            line.step()
    return shapes, values


def indices_of_groups(groups: Sequence[Any] | None) -> list[int] | None:
    """Return the index of each image's group.

    ValueError if one is missing, or there is only one, without which no fold could be trained.
    """
    if groups is None:
        return None
    indices = group_indices_by_name(np.asarray(groups), "groups").tolist()
    if max(indices, default=1) == 0:
        raise ValueError(
            f"All {len(indices)} images are of the group {groups[0]}; give at least two groups, "
            "as the images of a group are held out together."
        )
    return [int(index) for index in indices]


Floats32 = NDArray[np.float32]
_SCALED = 200  # largest number of images for the scale of the potentials


@dataclass(eq=False, repr=False)
class Segmenter(LoadedFromFile, Documented, BaseEstimator):
    """Segmenter of photographs by superpixels, boosted unary potentials and a learned CRF.

    See sections 3.6 and 4.5 of StructBoost.  The class is an estimator of scikit-learn, with
    ``clone``, ``get_params``, ``set_params`` and ``score``.

    Parameters
    ----------
    n_segments : int
        Approximate number of superpixels per image.
    longest : int
        Longest side in pixels, to which larger photographs are shrunk first.  Masks have the full
        size, with outlines that follow the photograph (:mod:`structboost.segmentation.refinement`).
    C : float or None
        Weight of the loss.  None chooses it, by cross-validation for two labels, and 0.3 for more
        (:func:`.crf_training.tuned`).
    crf : CRFSettings
        Settings of the training of the CRF.
    unaries : UnarySettings or OwnUnaries
        Settings of the classifiers of superpixels, or a user's classifier.
    superpixels : callable, optional
        ``superpixels(image)`` returns the index of the superpixel of each pixel, shape (height,
        width), from RGB pixels.  The default is SLIC with ``n_segments``.
    random_state : int
        Seed for folds, samples and visual words.
    n_jobs : int or None
        Number of processes; the result does not depend on it.
    cache : str or path, optional
        Folder that keeps the features of images.
    verbose : int
        1 reports progress on standard error.
    meaning : LabelMap, optional
        Meaning of the values of masks.  By default two values are two classes, of which the
        larger is the foreground; more values are class indices, and 255 is void.

    Attributes
    ----------
    n_labels_ : int
        Number of classes.
    classifiers_ : UnaryClassifiers or None
        Classifiers of superpixels; None for a model of scribbles.
    crf_model_ : CRFModel
        The trained CRF.
    sharpness_ : float
        Factor that turns differences of energies into those of log-probabilities; it makes the
        training labels most likely.
    meaning_ : LabelMap
        Meaning of the values of masks, for files of predictions.
    history_ : list of dict
        Records of the CRF's training (primal, bound, gap), one per round.
    interrupted_ : bool
        Whether Ctrl-C ended the training of the CRF.  An earlier Ctrl-C leaves no model and raises
        KeyboardInterrupt.
    C_ : float
        C of the trained CRF.
    sizes_ : (int, int)
        ``n_segments`` and ``longest`` of the training.
    validation_ : list of (float, float)
        Each C that was tried with its mean IoU; empty where the user set C.

    Examples
    --------
    >>> from structboost.segmentation import Segmenter, make_synthetic_images
    >>> synthetic = make_synthetic_images(4)
    >>> segmenter = Segmenter(n_segments=40, C=1.0).fit(synthetic.images, synthetic.masks)
    >>> segmenter.predict(synthetic.images[0]).shape == synthetic.masks[0].shape
    True
    """

    _public_package = "structboost.segmentation"

    n_segments: int = 300
    longest: int = 512
    C: float | None = None
    crf: CRFSettings = field(default_factory=CRFSettings)
    unaries: UnarySettings | OwnUnaries = field(default_factory=UnarySettings)
    superpixels: Callable[[Photograph], Any] | None = None
    random_state: int = 0
    n_jobs: int | None = None
    cache: str | PathLike[str] | None = None
    verbose: int = 0
    meaning: LabelMap | None = None

    @committed
    def fit(
        self,
        images: Sequence[Photograph],
        masks: Sequence[Mask],
        scribbles: Sequence[Mask] | None = None,
        groups: Sequence[Any] | None = None,
    ) -> Segmenter:
        """Train on photographs and masks.

        Parameters
        ----------
        images : sequence of ndarray of uint8, shape (height, width, 3), or of PIL.Image.Image
            RGB of any size, or grey of shape (height, width).
        masks : sequence of ndarray of uint8, shape (height, width), or of PIL.Image.Image
            Class indices, 255 where void; in masks of two values, the larger one is class 1.
            ``meaning`` overrides both.
        scribbles : sequence of ndarray of uint8, shape (height, width), optional
            1 on the object, 2 on the background, 0 elsewhere.  The model then segments by
            scribbles into two classes.
        groups : sequence, optional
            Group of each image, such as the name of its video.  Images of a group are always in
            the same fold; by default each image is a separate group.

        Raises
        ------
        ValueError, TypeError
            If a parameter is bad, there are fewer than two images, classes or groups, lengths or
            sizes differ, or an image or a mask cannot be used.  The message gives the index of the
            image.
        """
        self._check_parameters()
        indices_of_groups(groups)
        is_known = self.meaning is not None
        shapes, values = checked_pairs(
            images, masks, scribbles, groups, is_known=is_known, verbose=bool(self.verbose)
        )
        meaning = meaning_of(values) if self.meaning is None else self.meaning
        n_labels = meaning.n_labels(values)
        self.meaning_ = meaning
        if self.meaning is None and meaning.classes:
            self._print_line(str(meaning))
        with TemporaryDirectory(prefix="structboost-") as folder:
            describing = self._describing(self.cache or folder)
            small = self._small(images)
            fill_cache(small, describing, n_jobs=self.n_jobs, verbose=bool(self.verbose))
            stored = StoredImages(small, describing)
            counts, strokes = [], []
            with Phase("classes of superpixels", len(images), bool(self.verbose)) as line:
                for i, d in enumerate(stored):
                    labels = meaning.labels(mask_of(masks[i], f"masks[{i}]"))
                    small_mask, shape = resized_mask(labels, d.labels.shape), d.labels.shape
                    counts.append(label_counts(d.labels, small_mask, n_labels))
                    if scribbles is not None:
                        name = f"scribbles[{i}]"
                        strokes.append(resized_strokes(scribbles[i], shapes[i], shape, name))
                    line.step()
            with one_blas_thread():
                self._fit(
                    stored,
                    counts,
                    None if scribbles is None else strokes,
                    indices_of_groups(groups),
                )
        return self

    def predict(self, image: Photograph, scribbles: Mask | None = None) -> Mask:
        """Predict the class of each pixel, at the size of the image.

        Parameters
        ----------
        image : ndarray of uint8, shape (height, width, 3), or PIL.Image.Image
            RGB, or grey of shape (height, width).
        scribbles : ndarray of uint8, shape (height, width), optional
            1 on the object, 2 on the background, 0 elsewhere; these pixels have fixed labels.
            Required by a model that was trained with scribbles, where both kinds are needed;
            optional otherwise.

        Returns
        -------
        mask : ndarray of uint8, shape (height, width)
            Class of each pixel.

        Raises
        ------
        ValueError
            If the image is not 8-bit, scribbles are missing or do not fit the image, or the model
            has more than two classes, of which none is the object.
        """
        self._check_fitted()
        pixels = one_photograph(image)
        described = self._describe(pixels)
        return self._mask(described, pixels, scribbles)

    def predict_proba(self, image: Photograph, scribbles: Mask | None = None) -> Floats32:
        """Predict the probability of each class at each pixel, at the size of the image.

        For each superpixel the energies of its labels, with the best labels of all others, become
        probabilities by a factor that was calibrated in training.  The class of :meth:`predict`
        has the largest one, except along outlines of images larger than ``longest``.

        Parameters
        ----------
        image, scribbles
            As for :meth:`predict`.

        Returns
        -------
        probabilities : ndarray of float32, shape (height, width, n_labels)
            The probabilities of a pixel sum to 1.
        """
        return self.mask_and_probabilities(image, scribbles)[1]

    def mask_and_probabilities(
        self, image: Photograph, scribbles: Mask | None = None
    ) -> tuple[Mask, Floats32]:
        """Return the results of :meth:`predict` and :meth:`predict_proba` in one step.

        Parameters
        ----------
        image, scribbles
            As for :meth:`predict`.

        Returns
        -------
        mask : ndarray of uint8, shape (height, width)
            Class of each pixel.
        probabilities : ndarray of float32, shape (height, width, n_labels)
            The probabilities of a pixel sum to 1.
        """
        self._check_fitted()
        pixels = one_photograph(image)
        described = self._describe(pixels)
        probabilities = self._probabilities(described, pixels.shape, scribbles).astype(np.float32)
        mask = self._mask(described, pixels, scribbles)
        return mask, resized_mask(probabilities[described.labels], pixels.shape)

    def score(
        self,
        images: Sequence[Photograph],
        masks: Sequence[Mask],
        scribbles: Sequence[Mask] | None = None,
    ) -> float:
        """Return the mean intersection over union of the classes, over all pixels.

        Parameters
        ----------
        images, masks, scribbles
            As for :meth:`fit`; classes that occur nowhere do not count.

        Returns
        -------
        score : float
            From 0 to 1.

        Raises
        ------
        ValueError
            If lengths differ, and from :meth:`predict`.
        """
        self._check_fitted()
        check_lengths(images, masks=masks, scribbles=scribbles)
        predicted = self.predict_in_turn(images, scribbles)
        truth = (self.meaning_.labels(mask_of(masks[i], f"masks[{i}]")) for i in range(len(images)))
        counts = [confusion(*pair, self.n_labels_) for pair in zip(truth, predicted, strict=True)]
        return SegmentationScores.of(counts).mean_iou

    def predict_in_turn(
        self, images: Sequence[Photograph], scribbles: Sequence[Mask] | None = None
    ) -> Iterator[Mask]:
        """Yield the masks of many images, with features from the cache or from processes.

        Parameters
        ----------
        images : sequence of ndarray of uint8, shape (height, width, 3), or of PIL.Image.Image
            RGB, or grey of shape (height, width).
        scribbles : sequence of ndarray of uint8, shape (height, width), optional
            As for :meth:`predict`, one for each image.

        Yields
        ------
        mask : ndarray of uint8, shape (height, width)
            Class of each pixel, at the size of the image.

        Raises
        ------
        ValueError
            From :meth:`predict`; the message gives the index of the image.
        NotFittedError
            If there is no model.
        """
        check_lengths(images, scribbles=scribbles)
        for i, described in enumerate(self._describe_in_turn(images)):
            pixels = photograph(images[i], f"images[{i}]")
            strokes = None if scribbles is None else scribbles[i]
            yield self._mask(described, pixels, strokes, f"scribbles[{i}]")

    def superpixel_labels(self, image: DescribedImage, scribbles: Mask | None = None) -> IntArray:
        """Predict the class of each superpixel.

        Parameters
        ----------
        image : DescribedImage
            Superpixels, edges and features of the image.
        scribbles : ndarray of uint8, optional
            Scribbles at the size of the described image.

        Returns
        -------
        labels : ndarray of int64, shape (n_superpixels,)
            Class of each superpixel.
        """
        graph = self.graph(image, scribbles)
        return self.crf_model_.labels(graph, self._fixed_labels(image, scribbles))

    def graph(self, image: DescribedImage, scribbles: Mask | None = None) -> SuperpixelGraph:
        """Build the CRF of an image, with potentials of its superpixels and edges.

        Parameters
        ----------
        image, scribbles
            As for :meth:`superpixel_labels`.

        Returns
        -------
        graph : SuperpixelGraph
            An input of the task.
        """
        self._check_fitted()
        with one_blas_thread():
            return self._graph(image, self._log_probabilities(image, scribbles))

    @property
    def needs_scribbles(self) -> bool:
        """Whether the model was trained with scribbles."""
        return self.classifiers_ is None

    @override
    def save(self, path: str | PathLike[str]) -> None:
        self._check_fitted()
        if self.superpixels is not None or isinstance(self.unaries, OwnUnaries):
            raise ValueError(
                "A segmenter with a user's superpixels or unaries is code, which its files do "
                "not hold; keep it with joblib.dump, and load only files that you trust."
            )
        n_segments, longest = self._sizes()
        write_segmenter(path, {**vars(self), "n_segments": n_segments, "longest": longest})

    @override
    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        segmenter = cls()
        segmenter.__dict__.update(read_segmenter(path))
        segmenter.sizes_ = segmenter.n_segments, segmenter.longest
        return segmenter

    def _check_parameters(self) -> None:
        checked_whole_number(self.n_segments, "n_segments")
        checked_whole_number(self.longest, "longest")
        checked_seed(self.random_state, "random_state")
        checked_n_jobs(self.n_jobs)
        if self.C is not None:
            checked_positive(self.C, "C")
        if not isinstance(self.crf, CRFSettings):
            raise TypeError(f"crf is {shown(self.crf)}; give CRFSettings.")
        if not isinstance(self.unaries, (UnarySettings, OwnUnaries)):
            raise TypeError(f"unaries is {shown(self.unaries)}; give UnarySettings or OwnUnaries.")
        if not (self.superpixels is None or callable(self.superpixels)):
            raise TypeError(
                f"superpixels is {shown(self.superpixels)}; give a function of an image, or None."
            )
        if not isinstance(self.meaning, LabelMap | None):
            raise TypeError(f"meaning is {shown(self.meaning)}; give a LabelMap, or None.")
        if not isinstance(self.cache, str | PathLike | None):
            raise TypeError(f"cache is {shown(self.cache)}; give the path of a folder, or None.")

    def _check_fitted(self) -> None:
        if not hasattr(self, "crf_model_"):
            raise NotFittedError("This Segmenter is not fitted yet; call fit(images, masks) first.")

    def _fit(
        self,
        images: Sequence[DescribedImage],
        counts: Sequence[IntArray],
        scribbles: Sequence[Mask] | None,
        groups: Sequence[int] | None,
    ) -> None:
        self.n_labels_ = int(counts[0].shape[1])
        self.classifiers_: UnaryClassifiers | OwnClassifiers | None = None
        if scribbles is None:
            self.classifiers_, log_probabilities = fit_unaries(
                images,
                counts,
                self.unaries,
                random_state=self.random_state,
                n_jobs=self.n_jobs,
                verbose=bool(self.verbose),
                groups=groups,
            )
        else:
            if self.n_labels_ != 2:
                raise ValueError(
                    "Scribbles separate object and background, but the masks hold "
                    f"{self.n_labels_} classes."
                )
            log_probabilities = [
                self._log_probabilities(image, strokes, f"scribbles[{i}]")
                for i, (image, strokes) in enumerate(zip(images, scribbles, strict=True))
            ]
        with Phase("potentials", len(images), bool(self.verbose)) as line:
            geometries = []
            for image in images:
                geometries.append(image.geometry())
                line.step()
            pairs = list(zip(geometries, log_probabilities, strict=True))
            self.scale_ = PotentialScale.of(
                [
                    unary_potentials(image, rows, appearance=not self.needs_scribbles)
                    for image, rows in pairs[:: -(-len(pairs) // _SCALED)]
                ]
            )
            graphs = [self._graph(*pair) for pair in pairs]
        trainer, self.C_, self.validation_ = fit_tuned(
            graphs,
            counts,
            self.crf,
            self.C,
            random_state=self.random_state,
            groups=groups,
            verbose=bool(self.verbose),
        )
        self.history_, self.interrupted_ = list(trainer.history_), trainer.interrupted_
        # Parameters may change later.
        self.sizes_ = self.n_segments, self.longest
        model = CRFModel.of(trainer)
        some = images_of_search(len(graphs), self.crf.search_images, groups, self.random_state)
        costs = [model.label_costs(graphs[i]) for i in some]
        self.sharpness_ = calibrated_sharpness(costs, [counts[i] for i in some])
        self.crf_model_ = model

    def _graph(self, image: DescribedImage, log_probabilities: FloatArray) -> SuperpixelGraph:
        return superpixel_graph(
            image, log_probabilities, self.scale_, appearance=not self.needs_scribbles
        )

    def _log_probabilities(
        self, image: DescribedImage, scribbles: Mask | None, name: str = "scribbles"
    ) -> FloatArray:
        """Return log-probabilities, shape (n_superpixels, n_classifiers, n_labels)."""
        if self.classifiers_ is not None:
            return self.classifiers_.log_probabilities(image)
        if scribbles is None:
            raise ValueError("The model was trained with scribbles; give scribbles for each image.")
        return scribble_log_probabilities(image, scribbled_labels(image, scribbles, name))

    def _mask(
        self,
        described: DescribedImage,
        pixels: Photograph,
        scribbles: Mask | None,
        name: str = "scribbles",
    ) -> Mask:
        """Return classes at the size of the image, with outlines that follow it."""
        strokes = self._strokes(scribbles, pixels.shape, described, name)
        labels = self.superpixel_labels(described, strokes).astype(np.uint8)
        return refine_mask(pixels, labels[described.labels])

    def _strokes(
        self,
        scribbles: Mask | None,
        shape: tuple[int, ...],
        described: DescribedImage,
        name: str,
    ) -> Mask | None:
        if scribbles is None:
            return None
        self._check_fitted()
        if self.n_labels_ != 2:
            raise ValueError(
                f"{name} separates object and background, but the model has {self.n_labels_} "
                "classes; leave it out, or train a model of one class against the others "
                "(LabelMap(foreground=...), --foreground)."
            )
        return resized_strokes(scribbles, shape, described.labels.shape, name)

    def _fixed_labels(self, described: DescribedImage, strokes: Mask | None) -> IntArray | None:
        if strokes is None:
            return None
        return scribbled_labels(described, strokes, of_both_kinds=self.needs_scribbles)

    def _probabilities(
        self, described: DescribedImage, shape: tuple[int, ...], scribbles: Mask | None
    ) -> FloatArray:
        """Compute the probability of each class for each superpixel."""
        strokes = self._strokes(scribbles, shape, described, "scribbles")
        fixed = self._fixed_labels(described, strokes)
        costs = self.crf_model_.label_costs(self.graph(described, strokes), fixed)
        return np.asarray(softmax(-self.sharpness_ * costs, axis=1), np.float64)

    def _describe(self, pixels: Photograph) -> DescribedImage:
        return self._describing(self.cache)(shrink_to(pixels, self._sizes()[1]))

    def _describe_in_turn(self, images: Sequence[Photograph]) -> Iterator[DescribedImage]:
        return describe_in_turn(
            self._small(images), self._describing(self.cache), n_jobs=self.n_jobs
        )

    def _small(self, images: Sequence[Photograph]) -> ReadWhenUsed:
        """Return a sequence of the photographs, each checked and shrunk when it is used."""
        return ReadWhenUsed(
            range(len(images)),
            lambda i: shrink_to(photograph(images[i], f"images[{i}]"), self._sizes()[1]),
        )

    def _describing(self, folder: str | PathLike[str] | None) -> Describing:
        features = self.unaries.features if isinstance(self.unaries, OwnUnaries) else None
        cache = None if folder is None else FeatureCache(folder)
        return Describing(self._sizes()[0], cache, self.superpixels, features)

    def _sizes(self) -> tuple[int, int]:
        """Return the number of superpixels and the longest side, of training if there was one."""
        sizes: tuple[int, int] = getattr(self, "sizes_", (self.n_segments, self.longest))
        return sizes

    def _print_line(self, text: str) -> None:
        if self.verbose:
            sys.stderr.write(f"{text}\n")
