"""Images that users pass in: arrays and pictures of Pillow."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image, ImageOps

from structboost.vision.images import as_rgb, checked_image, mask_of, read_mask, read_photograph
from tests.helpers.refusals import refused

RGB = np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)
GREY = np.ascontiguousarray(RGB[:, :, 0])
PICTURE = Image.fromarray(RGB)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png"])
def test_images_are_rotated_by_their_exif_orientation(orientation, suffix, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = orientation
    values = np.arange(0, 240, 40, np.uint8).reshape(2, 3)
    path, mask = tmp_path / f"photo.{suffix}", tmp_path / "mask.png"
    blocks = Image.fromarray(np.kron(values, np.ones((8, 8), np.uint8)))
    blocks.convert("RGB").save(path, exif=exif, quality=100)
    blocks.save(mask, exif=exif)
    with Image.open(path) as picture, Image.open(mask) as labels:
        shown = np.asarray(ImageOps.exif_transpose(labels))
        assert shown.shape == ((24, 16) if orientation > 4 else (16, 24))
        assert_allclose(checked_image(picture)[:, :, 1], shown, atol=3)
        assert_array_equal(mask_of(labels, "mask"), shown)
    assert_allclose(read_photograph(path)[:, :, 1], shown, atol=3)
    assert_array_equal(read_mask(mask), shown)


@pytest.mark.parametrize(
    "mode", ["RGB", "RGBA", "RGBX", "P", "PA", "CMYK", "YCbCr", "HSV", "LAB", "1", "L", "LA"]
)
def test_modes_of_8_bits_are_converted_as_pillow_shows_them(mode):
    picture = Image.new("LAB", (3, 2), 90)
    if mode != "LAB":
        picture = PICTURE.convert("P" if mode == "PA" else mode).convert(mode)
    wanted = np.asarray(picture.convert("RGB"))
    assert_array_equal(as_rgb(checked_image(picture, "x")), wanted)


def test_checked_image_accepts_grey_and_alpha():
    assert checked_image(RGB) is RGB
    for image, wanted in ((GREY, GREY), (GREY[:, :, None], GREY), (np.dstack((RGB, GREY)), RGB)):
        assert_array_equal(checked_image(image), wanted)
    assert_array_equal(as_rgb(GREY), np.dstack([GREY] * 3))


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (RGB / 255.0, r"is float64 of shape \(20, 30, 3\); .*np.rint\(255 \* image\)"),
        (GREY.astype(np.uint16), r"is uint16 .*image >> 8"),
        (GREY > 9, "is bool"),
        (np.zeros((4, 5, 2), np.uint8), r"is uint8 of shape \(4, 5, 2\); give uint8 of shape"),
        (np.zeros((0, 5), np.uint8), r"is uint8 of shape \(0, 5\)"),
        (np.zeros((1, 4, 5, 3), np.uint8), r"is uint8 of shape \(1, 4, 5, 3\)"),
        (None, r"is object of shape \(\)"),
        ("photo.jpg", r"is 'photo\.jpg'; read the file first"),
        (Image.fromarray(GREY.astype(np.uint16)), "is uint16"),
        (Image.fromarray(GREY.astype(np.float32)), "is float32"),
        (Image.new("RGB", (0, 3)), r"is uint8 of shape \(3, 0, 3\)"),
    ],
)
def test_checked_image_names_bad_images(image, message):
    refused(r"images\[3\] " + message, checked_image, image, "images[3]")


def test_masks_of_other_integers_and_pictures_are_accepted():
    labels = np.array([[0, 1, 255]], np.uint8)
    indexed = Image.fromarray(labels, "L").copy()
    indexed.putpalette([0] * 768)
    for mask, wanted in (
        *((mask, labels) for mask in (labels, labels.astype(int), labels.astype(np.int16))),
        *((picture, labels) for picture in (Image.fromarray(labels), indexed)),
        (labels > 0, labels > 0),
        (Image.fromarray(labels > 0), 255 * (labels > 0)),
    ):
        found = mask_of(mask, "x")
        assert found.dtype == np.uint8
        assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.zeros((4, 5, 3), np.uint8), r"masks\[1\] has shape \(4, 5, 3\); give"),
        (np.zeros((4, 5)), r"masks\[1\] is float64; give class indices"),
        (np.full((4, 5), 300), r"masks\[1\] has values from 300 to 300; give class indices 0..254"),
        (np.full((4, 5), -1), r"masks\[1\] has values from -1 to -1"),
        (None, r"masks\[1\] has shape \(\)"),
    ],
)
def test_bad_masks_raise_errors_that_name_them(mask, message):
    refused(message, mask_of, mask, "masks[1]")
