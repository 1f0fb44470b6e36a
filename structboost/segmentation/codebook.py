"""Visual words: a codebook of gradient histograms, and the histogram of words around each superpixel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from threadpoolctl import threadpool_limits

from structboost.segmentation.descriptors import DescribedImage

N_WORDS = 200
NEIGHBOURHOOD = 2
_SAMPLE = 40_000


def learn_codebook(
    images: Sequence[DescribedImage], n_words: int = N_WORDS, random_state: int = 0
) -> NDArray[np.float32]:
    """Centres of k-means over the point descriptors of some images.

    Parameters
    ----------
    images : sequence of DescribedImage
    n_words : int
        Most words; there are fewer where there are fewer points.
    random_state : int

    Returns
    -------
    ndarray of float32, shape (n_words, 144)
    """
    random = np.random.default_rng(random_state)
    share = max(1, _SAMPLE // len(images))
    drawn = [image.point_descriptors[random.permutation(len(image.point_descriptors))[:share]] for image in images]
    points = np.concatenate(drawn).astype(np.float32)
    means = MiniBatchKMeans(
        min(n_words, len(points)), batch_size=4096, n_init=1, max_iter=30, random_state=random_state
    )
    with threadpool_limits(1):  # sums of several threads would be added in another order
        return np.asarray(means.fit(points).cluster_centers_, np.float32)


def word_histograms(image: DescribedImage, codebook: NDArray[np.float32]) -> NDArray[np.float32]:
    """Shares of the words in each superpixel and all superpixels at most two steps away.

    Fulkerson et al., ICCV 2009, whom StructBoost's section 4.5 follows; neighbourhood size 2.

    Returns
    -------
    ndarray of float32, shape (n_superpixels, n_words)
    """
    points = image.point_descriptors.astype(np.float32)
    # |a - b|^2 without |a|^2, which is the same for all words.
    with threadpool_limits(1):
        distances = (codebook**2).sum(axis=1) - 2.0 * points @ codebook.T
    words = np.argmin(distances, axis=1)
    n = image.n_superpixels
    counts = np.bincount(image.points * len(codebook) + words, minlength=n * len(codebook))
    reach = neighbourhood(image.edges, n, NEIGHBOURHOOD)
    around = reach @ counts.reshape(n, -1).astype(np.float32)
    return np.asarray(around / np.maximum(around.sum(axis=1, keepdims=True), 1.0), np.float32)


def neighbourhood(edges: NDArray[np.int64], n: int, steps: int) -> scipy.sparse.csr_array:
    """Which superpixels are at most ``steps`` edges apart: a matrix of zeros and ones, itself included."""
    ones = np.ones(len(edges), np.float32)
    near = scipy.sparse.csr_array((ones, (edges[:, 0], edges[:, 1])), shape=(n, n))
    near = near + near.T + scipy.sparse.eye_array(n, dtype=np.float32, format="csr")
    reach = near
    for _ in range(steps - 1):
        reach = reach @ near
    reach.data[:] = 1.0
    return reach.tocsr()
