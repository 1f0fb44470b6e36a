"""Segmenter, which learns from photographs and masks to segment new photographs, and its files.

Files have a JSON header and plain arrays, versioned and checked.  Loading never runs code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, Self

import joblib
import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from structboost._typing import IntArray, PathName, ShortArray, SingleArray, override
from structboost.errors import say
from structboost.files.archive import (
    ArchiveFormat,
    Array,
    Header,
    LoadedFromFile,
    Part,
    Schema,
    below,
    finite_number,
    prefixed,
    whole_number,
)
from structboost.progress import ProgressLine
from structboost.runtime.called_class import names_calls
from structboost.runtime.compiled import one_blas_thread
from structboost.runtime.fitted_state import committed
from structboost.segmentation.crf import (
    N_PAIRWISE,
    CRFModel,
    CRFSettings,
    PotentialScale,
    calibrated_sharpness,
    fit_tuned,
    images_of_search,
    n_unary_potentials,
    superpixel_graph,
    unary_potentials,
)
from structboost.segmentation.descriptors import (
    GROUP_WIDTHS,
    WORD_WIDTH,
    DescribedImage,
    Describing,
    describe,
    label_counts,
    stored_images,
)
from structboost.segmentation.masks import LabelMap, check_hard_edges, meaning_of
from structboost.segmentation.refinement import refine_mask
from structboost.segmentation.scores import SegmentationScores, confusion
from structboost.segmentation.scribbles import resized_strokes, scribbled_labels
from structboost.segmentation.unaries import (
    ALL,
    GROUPS,
    N_JOINT,
    WORDS,
    BoostedTrees,
    JointClassifier,
    OwnUnaries,
    UnaryClassifiers,
    UnarySettings,
    fit_unaries,
)
from structboost.validation import (
    check_sequence,
    checked_positive,
    checked_seed,
    group_indices_by_name,
    shown,
)
from structboost.vision.images import (
    VOID,
    Mask,
    Photograph,
    ReadWhenUsed,
    check_one_size,
    mask_of,
    photograph,
    resized_mask,
    shrink_to,
)

# Types of parameters that are no numbers.
_KINDS: dict[str, Any] = {
    "crf": (CRFSettings, "CRFSettings"),
    "unaries": (UnarySettings | OwnUnaries, "UnarySettings or OwnUnaries"),
    "superpixels": (Callable | None, "a function, or None"),
    "meaning": (LabelMap | None, "a LabelMap, or None"),
}
_SCALED = 200  # largest number of images for the scale of the potentials


@names_calls
@dataclass(eq=False, repr=False)
class Segmenter(LoadedFromFile, BaseEstimator):
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
        (:func:`.crf.tuned`).
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
    verbose : int
        1 reports progress on standard error.
    meaning : LabelMap, optional
        Meaning of the values of masks.  By default two values are two classes, of which the
        larger is the foreground; more values are class indices, and 255 is void.

    Attributes
    ----------
    n_labels_ : int
        Number of classes.
    classifiers_ : UnaryClassifiers
        Classifiers of superpixels.
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
    >>> import numpy as np
    >>> from skimage.data import coins
    >>> from structboost.segmentation import Segmenter
    >>> images = np.array_split(coins(), 3)
    >>> masks = [image > 120 for image in images]
    >>> segmenter = Segmenter(n_segments=60, C=1.0).fit(images, masks)
    >>> segmenter.predict(images[0]).shape
    (101, 384)
    """

    n_segments: int = 300
    longest: int = 512
    C: float | None = None
    crf: CRFSettings = field(default_factory=CRFSettings)
    unaries: UnarySettings | OwnUnaries = field(default_factory=UnarySettings)
    superpixels: Callable[[Photograph], Any] | None = None
    random_state: int = 0
    n_jobs: int | None = None
    verbose: int = 0
    meaning: LabelMap | None = None

    @committed
    def fit(
        self,
        images: Sequence[Photograph],
        masks: Sequence[Mask],
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
        for name, (kind, words) in _KINDS.items():
            if not isinstance(getattr(self, name), kind):
                raise TypeError(f"{name} is {shown(getattr(self, name))}; give {words}.")
        checked_seed(self.random_state, "random_state")
        if self.C is not None:
            checked_positive(self.C, "C")
        _check_lists(images, masks)
        n = len(images)
        if n < 2:
            raise ValueError(f"{n} image is too few to train on; give at least 2, better 20.")
        # Parameters may change later.
        self.sizes_, verbose = (self.n_segments, self.longest), bool(self.verbose)
        indices = range(n)
        if groups is not None:
            indices = group_indices_by_name(np.asarray(groups), "groups").tolist()
            if len(indices) != n or max(indices) == 0:
                raise ValueError(
                    f"groups has {len(indices)} entries and {max(indices) + 1} groups for {n} "
                    "images; give each image its group, at least two in all, as the images of a "
                    "group are held out together."
                )
        values = set()
        with ProgressLine("images and masks checked", n, verbose) as line:
            for i in range(n):
                shape = photograph(images[i], f"images[{i}]").shape
                mask = mask_of(masks[i], f"masks[{i}]")
                check_one_size(f"images[{i}]", shape, f"masks[{i}]", mask.shape)
                if self.meaning is None:
                    check_hard_edges(mask, f"masks[{i}]")
                values.update(np.unique(mask).tolist())
                line.step()
        meaning = self.meaning_ = meaning_of(values) if self.meaning is None else self.meaning
        self.n_labels_ = meaning.n_labels(values)
        if self.meaning is None and meaning.classes and verbose:
            say(str(meaning))
        with TemporaryDirectory(prefix="structboost-") as folder:
            small = ReadWhenUsed(
                range(n), lambda i: shrink_to(photograph(images[i], f"images[{i}]"), self.longest)
            )
            described = stored_images(small, self._describing(), folder, self.n_jobs, verbose)
            counts = []
            with ProgressLine("classes of superpixels", n, verbose) as line:
                for i, image in enumerate(described):
                    labels = meaning.labels(mask_of(masks[i], f"masks[{i}]"))
                    coarse = resized_mask(labels, image.labels.shape)
                    counts.append(label_counts(image.labels, coarse, self.n_labels_))
                    line.step()
            with one_blas_thread():
                self._fit(described, counts, indices)
        return self

    def predict(self, image: Photograph, scribbles: Mask | None = None) -> Mask:
        """Predict the class of each pixel, at the size of the image.

        Parameters
        ----------
        image : ndarray of uint8, shape (height, width, 3), or PIL.Image.Image
            RGB, or grey of shape (height, width).
        scribbles : ndarray of uint8, shape (height, width), optional
            1 on the object, 2 on the background, 0 elsewhere; these pixels have fixed labels.

        Returns
        -------
        mask : ndarray of uint8, shape (height, width)
            Class of each pixel.

        Raises
        ------
        ValueError
            If the image is not 8-bit, scribbles do not fit the image, or there are any and the
            model has more than two classes, of which none is the object.
        """
        return self._segmented(image, scribbles)[0]

    def predict_proba(self, image: Photograph, scribbles: Mask | None = None) -> SingleArray:
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
    ) -> tuple[Mask, SingleArray]:
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
        mask, probabilities, labels = self._segmented(image, scribbles)
        return mask, probabilities[resized_mask(labels, mask.shape)]

    def score(self, images: Sequence[Photograph], masks: Sequence[Mask]) -> float:
        """Return the mean intersection over union of the classes, over all pixels.

        Parameters
        ----------
        images, masks
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
        check_is_fitted(self, "crf_model_")
        _check_lists(images, masks)
        predicted = joblib.Parallel(self.n_jobs, return_as="generator")(
            joblib.delayed(self.predict)(photograph(images[i], f"images[{i}]"))
            for i in range(len(images))
        )
        counts = [
            confusion(self.meaning_.labels(mask_of(masks[i], f"masks[{i}]")), mask, self.n_labels_)
            for i, mask in enumerate(predicted)
        ]
        return SegmentationScores.of(counts).mean_iou

    @override
    def save(self, path: PathName) -> None:
        check_is_fitted(self, "crf_model_")
        if self.superpixels is not None or isinstance(self.unaries, OwnUnaries):
            raise ValueError(
                "A segmenter with a user's superpixels or unaries is code, which its files do "
                "not hold; keep it with joblib.dump, and load only files that you trust."
            )
        arrays = prefixed("crf/", self.crf_model_.to_arrays())
        arrays |= prefixed("scale/", vars(self.scale_))
        arrays["codebook"] = self.classifiers_.codebook
        for group, each in self.classifiers_.by_group.items():
            for fold, classifier in enumerate(each):
                arrays |= prefixed(f"{group}/{fold}/", classifier.to_arrays())
        header = {name: getattr(self, name) for name in (*_PLAIN, *_FLOATS)}
        header |= {name: asdict(getattr(self, name)) for name in _SETTINGS}
        FORMAT.write(path, header | {"folds": len(each)}, arrays)

    @override
    @classmethod
    def load(cls, path: PathName) -> Self:
        segmenter = cls()
        with FORMAT.opened(path) as (header, arrays):
            sizes = _sizes(header)
            values = {name: header[name] for name in _PLAIN}
            values |= {name: finite_number(header[name], name) for name in _FLOATS}
            values |= {name: kind(**header[name]) for name, kind in _SETTINGS.items()}
            values["sizes_"] = tuple(whole_number(size, "size", 1) for size in header["sizes_"])
            values["n_segments"], values["longest"] = values["sizes_"]
            values["validation_"] = [(float(C), float(score)) for C, score in header["validation_"]]
            values["history_"] = [dict(record) for record in header["history_"]]
            values["scale_"] = PotentialScale(**below("scale/", arrays))
            values["crf_model_"] = CRFModel.from_arrays(below("crf/", arrays), sizes)
            by_group = {
                group: [
                    kind.from_arrays(below(f"{group}/{fold}/", arrays), header["n_labels_"])
                    for fold in range(header["folds"])
                ]
                for group, kind in _CLASSIFIERS.items()
            }
            values["classifiers_"] = UnaryClassifiers(arrays["codebook"], by_group)
        segmenter.__dict__.update(values)
        return segmenter

    def _fit(
        self, images: Sequence[DescribedImage], counts: Sequence[IntArray], groups: Sequence[int]
    ) -> None:
        verbose = bool(self.verbose)
        settings: Any = {"random_state": self.random_state, "groups": groups, "verbose": verbose}
        self.classifiers_, log_probabilities = fit_unaries(
            images, counts, self.unaries, n_jobs=self.n_jobs, **settings
        )
        with ProgressLine("potentials", len(images), verbose) as line:
            pairs = []
            for image, of_image in zip(images, log_probabilities, strict=True):
                pairs.append((image.geometry(), of_image))
                line.step()
            self.scale_ = PotentialScale.of(
                [unary_potentials(*pair) for pair in pairs[:: -(-len(pairs) // _SCALED)]]
            )
            graphs = [superpixel_graph(*pair, self.scale_) for pair in pairs]
        trainer, self.C_, self.validation_ = fit_tuned(graphs, counts, self.crf, self.C, **settings)
        self.history_, self.interrupted_ = list(trainer.history_), trainer.interrupted_
        self.crf_model_ = CRFModel(trainer.model_)
        some = images_of_search(groups, self.random_state)
        costs = [self.crf_model_.labels_and_costs(graphs[i])[1] for i in some]
        self.sharpness_ = calibrated_sharpness(costs, [counts[i] for i in some])

    def _segmented(
        self, image: Any, scribbles: Mask | None
    ) -> tuple[Mask, SingleArray, ShortArray]:
        """Return the mask, and the probabilities and the index of superpixels."""
        check_is_fitted(self, "crf_model_")
        pixels = photograph(image, "image")
        described, fixed = self._describing()(shrink_to(pixels, self.sizes_[1])), None
        if scribbles is not None:
            if self.n_labels_ != 2:
                raise ValueError(
                    "scribbles separates object and background, but the model has "
                    f"{self.n_labels_} classes; leave it out, or train a model of one class "
                    "against the others (LabelMap(foreground=...), --foreground)."
                )
            strokes = resized_strokes(scribbles, pixels.shape, described.labels.shape)
            fixed = scribbled_labels(described, strokes, of_both_kinds=False)
        with one_blas_thread():
            log_probabilities = self.classifiers_.log_probabilities(described)
            graph = superpixel_graph(described, log_probabilities, self.scale_)
        labels, costs = self.crf_model_.labels_and_costs(graph, fixed)
        mask = refine_mask(pixels, labels.astype(np.uint8)[described.labels])
        probabilities = softmax(-self.sharpness_ * costs, axis=1).astype(np.float32)
        return mask, probabilities, described.labels

    def _describing(self) -> Describing:
        features = getattr(self.unaries, "features", None)
        return partial(
            describe,
            n_segments=self.sizes_[0],
            own_superpixels=self.superpixels,
            own_features=features,
        )


def _check_lists(images: Sequence[Photograph], masks: Sequence[Mask]) -> None:
    """Raise TypeError or ValueError unless there is a mask for every image."""
    for name, listed in (("images", images), ("masks", masks)):
        check_sequence(listed, name, "give a list with one for each image")
    if len(images) != len(masks):
        raise ValueError(f"There are {len(images)} images and {len(masks)} masks; give one each.")


# Entries of the header of a file, by their attributes.
_PLAIN = ("sizes_", "C", "random_state", "n_labels_", "history_", "validation_", "interrupted_")
_FLOATS = ("C_", "sharpness_")
_SETTINGS = {"crf": CRFSettings, "unaries": UnarySettings, "meaning_": LabelMap}
_MOST_FOLDS = 1000
_CLASSIFIERS: dict[str, Any] = {**dict.fromkeys(GROUPS, BoostedTrees), ALL: JointClassifier}


def _schema(header: Header, names: Collection[str]) -> Schema:
    sizes = _sizes(header)
    schema = {
        "crf/": Part(CRFModel.schema),
        "scale/": Part(PotentialScale.schema, {"n_unary": sizes["n_unary"]}),
        "": Part({"codebook": Array("float32", ("n_words", WORD_WIDTH))}),
    }
    widths: dict[str, Any] = {
        **GROUP_WIDTHS,
        WORDS: "n_words",
        ALL: f"n_words + n_words + {N_JOINT}",
    }
    for fold in range(whole_number(header["folds"], "number of folds", 1, _MOST_FOLDS)):
        for group, kind in _CLASSIFIERS.items():
            n_features = {"n_labels": sizes["n_labels"], "n_features": widths[group]}
            schema[f"{group}/{fold}/"] = Part(kind.schema, n_features)
    return schema


def _sizes(header: Header) -> dict[str, int]:
    n_labels = whole_number(header["n_labels_"], "number of labels", 2, VOID)
    n_unary = n_unary_potentials(len(GROUPS) + 1, n_labels)
    # The indicators of all labels but the first are potentials as well.
    return {
        "n_labels": n_labels,
        "n_unary": n_unary,
        "node": n_unary + n_labels - 1,
        "edge": N_PAIRWISE,
    }


FORMAT = ArchiveFormat(
    name="structboost-segmenter",
    version=7,  # raise it with every change of the values of the features, too
    what="structboost segmenter",
    schema=_schema,
)
