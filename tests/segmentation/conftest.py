"""Model that several test files share."""

import pytest

from examples.synthetic_images import make_synthetic_images
from structboost.segmentation.segmenter import Segmenter
from tests.helpers.photographs import QUICK


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A segmenter of two classes, and its file."""
    made = make_synthetic_images(8)
    segmenter = Segmenter(n_segments=100, C=1.0, unaries=QUICK).fit(made.images, made.masks)
    path = tmp_path_factory.mktemp("model") / "coins.model"
    segmenter.save(path)
    return segmenter, path
