"""Pictures, masks and lists of them that a segmenter takes or refuses by name."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from structboost.segmentation import CRFSettings, Segmenter, UnarySettings, make_synthetic_images

MADE = make_synthetic_images(4)
IMAGES = [np.ascontiguousarray(image[:48, :48]) for image in MADE.images]
MASKS = [np.ascontiguousarray(mask[:48, :48]) for mask in MADE.masks]
IMAGE, MASK = IMAGES[0], MASKS[1]


def segmenter(**parameters):
    unaries = UnarySettings(n_folds=2, group_rounds=3, group_rows=300, joint_rows=300)
    crf = CRFSettings(max_rounds=3, tol=0.5)
    return Segmenter(n_segments=20, C=0.3, unaries=unaries, crf=crf, **parameters)


@pytest.fixture(scope="module")
def fitted():
    return segmenter().fit(IMAGES, MASKS)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (IMAGE.astype(int), r"image is int64 .* np\.asarray\(image, np\.uint8\)"),
        (IMAGE / 255, r"np\.rint\(255 \* image\)"),
        (IMAGE.astype(">u2"), r"image >> 8"),
        (IMAGE[:, :, 0] > 128, r"255 \* image\.astype"),
        (IMAGE.tolist(), "one image"),
        ([IMAGE], "one image"),
        (IMAGE[None], "one image"),
        ("a.png", r"image is 'a\.png'; read the file first"),
        (Path("a.png"), r"image is 'a\.png'; read the file first"),
        (None, "image is object of shape"),
    ],
)
def test_other_pictures_are_refused_with_the_remedy(fitted, image, message):
    with pytest.raises((TypeError, ValueError), match=message):
        fitted.predict(image)


@pytest.mark.slow
def test_equal_pictures_of_any_type_have_equal_masks(fitted):
    expected = fitted.predict(IMAGE)
    alpha = np.full(IMAGE.shape[:2], 255, np.uint8)
    for image in (Image.fromarray(IMAGE), np.asfortranarray(IMAGE), np.dstack((IMAGE, alpha))):
        np.testing.assert_array_equal(fitted.predict(image), expected)
    for masks in (
        [mask.tolist() for mask in MASKS],
        [mask > 0 for mask in MASKS],
        [Image.fromarray(mask) for mask in MASKS],
        np.stack(MASKS),
    ):
        for images in (tuple(IMAGES), np.stack(IMAGES)):
            model = segmenter().fit(images, masks)
            np.testing.assert_array_equal(model.predict(IMAGE), expected)


@pytest.mark.parametrize("name", ["images", "masks"])
@pytest.mark.parametrize(
    ("listed", "message"),
    [
        (lambda pictures: dict(enumerate(pictures)), "one dict; give a list"),
        (lambda pictures: (picture for picture in pictures), "one generator; give a list"),
        (lambda pictures: "abcd", "one str; give a list"),
        (lambda pictures: {1, 2, 3, 4}, "one set; give a list"),
        (lambda pictures: pictures[0], "one picture; give a list"),
        (lambda pictures: pictures[:3], "There are"),
        (lambda pictures: [*pictures[:2], None, pictures[3]], r"\[2\] (is object|has shape)"),
        (lambda pictures: [*pictures[:2], "a.png", pictures[3]], r"\[2\] is 'a\.png'; read"),
        (lambda pictures: [*pictures[:2], pictures[2] / 2, pictures[3]], r"\[2\] is float64"),
    ],
)
def test_other_lists_are_refused_and_the_old_model_stays(name, listed, message, fitted):
    before = dict(vars(fitted))
    pairs = {"images": IMAGES, "masks": MASKS}
    pairs[name] = listed(pairs[name])
    with pytest.raises((TypeError, ValueError), match=message):
        fitted.fit(**pairs)
    with pytest.raises((TypeError, ValueError), match=message):
        fitted.score(**pairs)
    assert vars(fitted) == before


def test_images_in_turn_are_a_list_with_scribbles_for_each(fitted):
    for images in (IMAGE, (image for image in IMAGES), dict(enumerate(IMAGES)), None):
        with pytest.raises((TypeError, ValueError), match="give a list"):
            next(fitted.predict_in_turn(images))
    with pytest.raises(ValueError, match="There are 4 images and 1 scribbles"):
        next(fitted.predict_in_turn(IMAGES, [MASK]))
    with pytest.raises(ValueError, match=r"images\[1\] is object"):
        list(fitted.predict_in_turn([IMAGE, None]))


def test_an_error_of_a_users_superpixels_names_the_image():
    def superpixels(image):
        if np.array_equal(image, IMAGES[2]):
            raise RuntimeError("no segments")
        return np.arange(image.shape[0] * image.shape[1]).reshape(image.shape[:2]) // 97

    with pytest.raises(RuntimeError, match="no segments") as caught:
        segmenter(superpixels=superpixels).fit(IMAGES, MASKS)
    assert "Raised for images[2]." in caught.value.__notes__


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("meaning", "coins"), ("cache", 3), ("verbose", "yes"), ("superpixels", 5), ("crf", {})],
)
def test_a_parameter_of_another_type_is_named(parameter, value):
    with pytest.raises(TypeError, match=f"{parameter} is"):
        segmenter().set_params(**{parameter: value}).fit(IMAGES, MASKS)
