"""Integral features against sums over pixels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost.tracking.box_features import (
    COLOUR_GRID,
    GRADIENT_GRID,
    GREY_GRID,
    N_GREY,
    N_ORIENTATIONS,
    ColourPalette,
    box_features,
    frame_planes,
)

IMAGE = np.random.default_rng(0).integers(0, 256, size=(50, 60)).astype(np.uint8)
BRIGHT = np.full((260, 300), 250, np.uint8)  # squares of all pixels: beyond 32 bits
BRIGHT[200:240, 230:280] = IMAGE[:40, :50]
BOXES = np.array([[3.0, 4.0, 20.0, 21.0], [30.0, 20.0, 25.0, 13.0], [10.0, 10.0, 30.0, 24.0]])


def planes_of(image, **parameters):
    return frame_planes(image, np.zeros(2), np.array(image.shape[1::-1]), **parameters)


def plain_gradients(image):
    """Lengths by orientation of each pixel, shape (height, width, 9); mirrored at the edges."""
    padded = np.pad(image.astype(float), 1, mode="reflect")
    gx = padded[1:-1, 2:] - padded[1:-1, :-2]
    gy = padded[2:, 1:-1] - padded[:-2, 1:-1]
    length = np.hypot(gx, gy)
    angle = np.arctan2(gy, gx) / np.pi * N_ORIENTATIONS
    out = np.zeros((*image.shape, N_ORIENTATIONS))
    low = np.floor(angle).astype(int)
    rows, columns = np.indices(image.shape)
    np.add.at(out, (rows, columns, low % N_ORIENTATIONS), (1 - (angle - low)) * length)
    np.add.at(out, (rows, columns, (low + 1) % N_ORIENTATIONS), (angle - low) * length)
    return out, length


def planes_of_gradients(image):
    """What the integral planes hold of each pixel, like :func:`plain_gradients`."""
    # Differences of sums that wrap around are right.
    pixels = np.diff(np.diff(planes_of(image).sums, axis=1), axis=2)[2:] / 8
    return pixels[1:].transpose(1, 2, 0), pixels[0]


def plain_features(image, box, palette):
    """Means over the cells' pixels."""
    x, y, w, h = box
    orientations, lengths = planes_of_gradients(image)

    def mean(plane, grid, column, row, size=1):
        """Mean over ``size`` cells of a grid each way, 0 without pixels."""
        left, right = (max(int(x + c / grid * w + 0.5), 0) for c in (column, column + size))
        top, bottom = (max(int(y + r / grid * h + 0.5), 0) for r in (row, row + size))
        cell = plane[top:bottom, left:right]
        return cell.mean(axis=(0, 1)) if cell.size else np.nan * plane[0, 0]

    grey = image.astype(float)
    whole = mean(grey, 1, 0, 0)
    std = np.sqrt(max(mean(grey**2, 1, 0, 0) - whole**2, 0.0))
    colours = np.eye(palette.n_colours)[palette.labels(image)]
    out = [
        (mean(grey, GREY_GRID, c, r) - whole) / (std + 4.0)
        for r, c in np.ndindex(GREY_GRID, GREY_GRID)
    ]
    for r, c in np.ndindex(GRADIENT_GRID + 2, GRADIENT_GRID + 2):
        around = mean(lengths, GRADIENT_GRID, c - 2, r - 2, 3) + 4.0
        out += list(mean(orientations, GRADIENT_GRID, c - 1, r - 1) / around)
    for r, c in np.ndindex(COLOUR_GRID + 2, COLOUR_GRID + 2):
        out += list(mean(colours, COLOUR_GRID, c - 1, r - 1))
    return np.nan_to_num(out) * np.isfinite(whole)


@pytest.mark.parametrize("image", [IMAGE, IMAGE // 16, BRIGHT])
def test_gradients_are_rounded_to_an_eighth_of_a_grey_level(image):
    shares, lengths = planes_of_gradients(image)
    exact_shares, exact_lengths = plain_gradients(image)
    assert np.abs(lengths - exact_lengths).max() <= 1 / 16 + 1e-12
    assert np.abs(shares - exact_shares).max() <= 1 / 8 + 1e-12
    assert (shares.sum(axis=2) == lengths).all()


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.floats(-8, 45), st.floats(-8, 40), st.floats(5, 40), st.floats(5, 40))
def test_features_are_means_over_pixels(x, y, w, h):
    palette = ColourPalette(IMAGE, 8, 0)
    # The second one is beyond where sums wrap around.
    for image, box in (
        (IMAGE, np.array([x, y, w, h])),
        (BRIGHT, np.array([x + 230, y + 200, w, h])),
    ):
        planes = planes_of(image, palette=palette)
        assert (planes.sums < 0).any() == (image is BRIGHT)
        found = box_features(planes, box[None])[0]
        assert planes.n_features == len(found)
        wanted = plain_features(image, box, palette)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_frame_of_twice_the_size_has_the_same_features_at_half_scale():
    palette = ColourPalette(IMAGE, 8, 0)
    large = np.repeat(np.repeat(IMAGE, 2, axis=0), 2, axis=1)
    boxes = np.array([[8.0, 6.0, 24.0, 24.0], [20.0, 12.0, 30.0, 24.0]])
    half = box_features(planes_of(large, scale=0.5, palette=palette), 2 * boxes)
    whole = box_features(planes_of(IMAGE, palette=palette), boxes)
    np.testing.assert_allclose(half, whole, atol=1e-4)


def test_a_palette_names_the_nearest_colour():
    image = np.zeros((20, 30, 3), np.uint8)
    image[:, 10:20] = (0, 0, 250)
    image[:, 20:] = (0, 250, 0)
    palette = ColourPalette(image, 8, 0)
    assert palette.is_coloured
    assert palette.n_colours == 3
    labels = palette.labels(image)
    assert len(np.unique(labels)) == 3
    assert all((labels[:, k : k + 10] == labels[0, k]).all() for k in (0, 10, 20))
    # A little darker, and in a frame that turns grey: still a label for every pixel.
    np.testing.assert_array_equal(palette.labels((image * 0.95).astype(np.uint8)), labels)
    assert palette.labels(IMAGE).shape == IMAGE.shape
    assert not ColourPalette(np.repeat(IMAGE[:, :, None], 3, axis=2), 8, 0).is_coloured


def test_a_region_gives_the_same_features_inside():
    boxes = np.array([[20.0, 15.0, 12.0, 14.0], [22.5, 17.0, 10.0, 9.0]])
    part = frame_planes(IMAGE, np.array([11.5, 7.0]), np.array([47.5, 90.0]))
    assert (part.left, part.top, part.sums.shape[1:]) == (11, 7, (44, 38))
    whole = box_features(planes_of(IMAGE), boxes)
    np.testing.assert_allclose(box_features(part, boxes), whole, atol=1e-4)


def test_selected_features_equal_those_of_all_and_of_a_grey_picture_in_colour():
    planes = planes_of(IMAGE)
    every = box_features(planes, BOXES)
    which = np.array([5, planes.n_features - 1, N_GREY, 0])
    np.testing.assert_array_equal(box_features(planes, BOXES, which), every[:, which])
    colour = planes_of(np.repeat(IMAGE[:, :, None], 3, axis=2))
    np.testing.assert_allclose(box_features(colour, BOXES), every, atol=1e-5)
