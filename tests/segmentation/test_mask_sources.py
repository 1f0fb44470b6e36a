"""Masks as they come: two values, colours, palettes, COCO, LabelMe, other names."""

from __future__ import annotations

import json
import os
import runpy
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from structboost.segmentation import LabelMap, Segmenter, make_synthetic_images
from structboost.segmentation.drawing import draw_segmentation
from structboost.segmentation.feature_cache import FeatureCache
from structboost.segmentation.image_files import ImageFileError, read_mask, write_png
from structboost.segmentation.labelled_folder import read_folder, read_groups
from structboost.segmentation.masks import check_hard_edges, coco_mask, meaning_of, read_classes

EXAMPLES = Path(__file__).parents[2] / "examples"
SHAPE = (8, 12)


@pytest.fixture
def root(tmp_path):
    """Two photographs, and a folder for masks."""
    (tmp_path / "images").mkdir()
    (tmp_path / "masks").mkdir()
    for number, name in enumerate("ab"):
        write_png(tmp_path / f"images/{name}.png", np.full((*SHAPE, 3), 90 + number, np.uint8))
    return tmp_path


def halves(left, right):
    mask = np.full(SHAPE, left, np.uint8)
    mask[:, 6:] = right
    return mask


def read(root, **settings):
    return read_folder(root / "images", root / "masks", strict=True, **settings)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ((0, 1), (0, 1)),
        ((0, 255), (0, 1)),
        ((1, 2), (0, 1)),
        ((0, 128), (0, 1)),
        ((7, 255), (0, 1)),
        ((1, 255), (1, 255)),  # the object and void of other masks
    ],
)
def test_two_values_are_two_classes(root, values, labels):
    for name in "ab":
        write_png(root / f"masks/{name}.png", halves(*values))
    found = read(root)
    np.testing.assert_array_equal(found.images[0].mask, halves(*labels))
    np.testing.assert_array_equal(found.meaning.values(halves(*labels)), halves(*values))


def test_void_beside_two_values_stays_void_and_more_values_are_indices():
    two = meaning_of({3, 9, 255})
    np.testing.assert_array_equal(two.labels(np.array([[3, 9, 255]], np.uint8)), [[0, 1, 255]])
    assert meaning_of({0, 3, 9, 255}) == LabelMap(has_void=True)
    assert meaning_of({3, 9}, n_labels=12) == LabelMap()
    assert meaning_of({0}, LabelMap(classes=(0, 128))).classes == (0, 128)  # all background


def test_void_of_training_stays_void_in_masks_of_0_and_255():
    known = meaning_of({0, 1, 255})
    assert meaning_of({0, 255}, known) == known
    assert meaning_of({0, 255}, meaning_of({0, 1})).classes == (0, 255)


def test_masks_with_soft_edges_raise_an_error(root):
    soft = np.zeros((8, 12), np.uint8)
    soft[2:6, 3:9], soft[2:6, 2], soft[2:6, 9], soft[1, 3:9] = 255, 64, 128, 191
    for name in "ab":
        write_png(root / f"masks/{name}.png", soft)
    with pytest.raises(ImageFileError, match=r"a.png holds 5 values .*soft edges.*threshold it"):
        read(root)
    made = make_synthetic_images(2)
    masks = [cv2.GaussianBlur(255 * mask, (5, 5), 0) for mask in made.masks]
    with pytest.raises(ValueError, match=r"masks\[0\] holds \d+ values.*soft edges"):
        Segmenter(n_segments=20, C=1.0).fit(made.images, masks)
    # Classes beside a thin rim of void, as of many sets.
    classes = np.zeros((40, 40), np.uint8)
    classes[:10, :4], classes[:10, 4], classes[20:22, :9], classes[30:32, :5] = 3, 255, 15, 20
    check_hard_edges(classes, "mask")


@pytest.mark.slow
def test_a_segmenter_learns_from_any_two_values():
    made = make_synthetic_images(2)
    segmenter = Segmenter(n_segments=20, C=1.0).fit(
        made.images, [3 + 4 * mask for mask in made.masks], made.scribbles
    )
    assert segmenter.meaning_.classes == (3, 7)
    assert segmenter.n_labels_ == 2
    assert segmenter.meaning is None


def test_masks_of_colours_are_converted_and_colours_outside_the_table_are_named(root):
    table = root / "colours.txt"
    table.write_text("10 20 30 sky\n128 64 0 tree house\n0 0 0 void\n9 9 9 void\n")
    colours = np.array([[10, 20, 30], [128, 64, 0], [0, 0, 0], [9, 9, 9]], np.uint8)
    values = np.arange(96).reshape(SHAPE) % 4
    (root / "coloured").mkdir()
    for name in "ab":
        write_png(root / f"coloured/{name}.png", colours[values])
    convert = runpy.run_path(str(EXAMPLES / "colour_masks.py"))["main"]
    with pytest.raises(ImageFileError, match=r"a\.png is a colour picture"):
        read_folder(root / "images", root / "coloured", strict=True)
    convert(table, root / "coloured", root / "masks")
    found = read(root, classes=root / "masks/classes.txt")
    np.testing.assert_array_equal(found.images[1].mask, np.array([0, 1, 255, 255])[values])
    assert [found.meaning.name(label) for label in (0, 1)] == ["sky", "tree house"]
    assert found.meaning.colour(1) == (128, 64, 0)
    colours[2] = 77
    write_png(root / "coloured/b.png", colours[values])
    with pytest.raises(SystemExit, match=r"b\.png has the colour \[77, 77, 77\]"):
        convert(table, root / "coloured", root / "masks")


@pytest.mark.parametrize(("text", "line"), [("0 a\n0 b\n", 2), ("300 x\n", 1), ("x y\n", 1)])
def test_a_line_that_is_no_class_is_named(tmp_path, text, line):
    (tmp_path / "classes.txt").write_text(text)
    with pytest.raises(ImageFileError, match=f"line {line}"):
        read_classes(tmp_path / "classes.txt")


def test_predictions_are_written_in_the_colours_of_the_palette(root):
    palette = [0, 0, 0, 200, 10, 10, 10, 200, 10]
    for name in "ab":
        picture = Image.fromarray(halves(1, 2), mode="P")
        picture.putpalette(palette)
        picture.save(root / f"masks/{name}.png")
    table = root / "classes.txt"
    table.write_text("0 sky images=3\n1 cow images=2\n2 sheep\n")
    found = read(root, classes=table, n_labels=3)
    assert found.meaning.colours[:3] == ((0, 0, 0), (200, 10, 10), (10, 200, 10))
    assert [found.meaning.name(label) for label in range(3)] == ["sky", "cow", "sheep"]
    write_png(root / "out.png", halves(1, 2), found.meaning.colours)
    np.testing.assert_array_equal(read_mask(root / "out.png"), halves(1, 2))
    with Image.open(root / "out.png") as written:
        assert written.convert("RGB").getpixel((11, 0)) == (10, 200, 10)


def test_coco_polygons_and_run_lengths_become_masks_become_masks_become_masks(root):
    square = [[2.0, 1.0, 6.0, 1.0, 6.0, 5.0, 2.0, 5.0]]
    inner = np.zeros(SHAPE, bool)
    inner[2:4, 3:5] = True
    runs = np.flatnonzero(np.diff(np.r_[0, inner.ravel(order="F").astype(int), 0]))
    counts = np.diff(np.r_[0, runs, inner.size]).tolist()
    content = {
        "images": [
            {"id": 5, "file_name": "sub/a.png", "height": 8, "width": 12},
            {"id": 6, "file_name": "b.png", "height": 8, "width": 12},
        ],
        "categories": [{"id": 30, "name": "dog"}, {"id": 7, "name": "cat"}],
        "annotations": [
            {
                "image_id": 5,
                "category_id": 30,
                "segmentation": {"size": list(SHAPE), "counts": counts},
            },
            {"image_id": 5, "category_id": 7, "segmentation": square},
        ],
    }
    file = root / "coco.json"
    file.write_text(json.dumps(content))
    found = read_folder(root / "images", file, strict=True)
    wanted = np.zeros(SHAPE, np.uint8)
    wanted[1:5, 2:6] = 1
    wanted[inner] = 2  # the smaller one is on top
    np.testing.assert_array_equal(found.images[0].mask, wanted)
    assert not found.images[1].mask.any()
    assert found.meaning.names == ("background", "cat", "dog")
    content["annotations"][1]["category_id"] = 8
    file.write_text(json.dumps(content))
    with pytest.raises(ImageFileError, match=r"an annotation of a cannot be used \(KeyError: 8"):
        read_folder(root / "images", file, strict=True)
    file.write_text("[]")
    with pytest.raises(ImageFileError, match="no annotations"):
        read_folder(root / "images", file)


def test_run_lengths_in_the_text_of_coco_are_decoded():
    # Numbers below 16 are one character each, behind "0".
    runs = coco_mask({"size": [3, 4], "counts": "363"}, (3, 4))
    np.testing.assert_array_equal(runs, [[0, 1, 1, 0]] * 3)
    # Each number from the fourth on is a difference to the last but one; negative ones have bit 5.
    values = [40, 3, 100, 1, 60, 500]

    def text(number):
        out, more = "", True
        while more:
            bits, number = number & 31, number >> 5
            more = number != (-1 if bits & 16 else 0)
            out += chr(48 + (bits | 32 * more))
        return out

    written = [v - values[i - 2] if i > 2 else v for i, v in enumerate(values)]
    encoded = "".join(map(text, written))
    found = coco_mask({"size": [22, 32], "counts": encoded}, (22, 32))
    want = np.repeat([0, 1, 0, 1, 0, 1], values).reshape((22, 32), order="F")
    np.testing.assert_array_equal(found, want)
    with pytest.raises(ValueError, match="do not fit"):
        coco_mask({"size": [22, 31], "counts": encoded}, (22, 31))


def test_labelme_shapes_become_masks(root):
    def write(name, shapes):
        content = {"shapes": shapes, "imageHeight": 8, "imageWidth": 12}
        (root / f"masks/{name}.json").write_text(json.dumps(content))

    box = {"label": "dog", "shape_type": "rectangle", "points": [[1, 1], [5, 4]]}
    lost = {"label": "__ignore__", "points": [[8, 0], [12, 0], [12, 8], [8, 8]]}
    write("a", [box, lost])
    write("b", [{"label": "cat", "shape_type": "circle", "points": [[6, 4], [6, 6]]}])
    found = read(root)
    wanted = np.zeros(SHAPE, np.uint8)
    wanted[1:4, 1:5] = 2
    wanted[:, 8:] = 255
    np.testing.assert_array_equal(found.images[0].mask, wanted)
    assert found.meaning.names == ("background", "cat", "dog")
    y, x = np.nonzero(found.images[1].mask == 1)
    assert (np.hypot(x - 5.5, y - 3.5) < 2).all()
    assert len(x) == 12
    write("b", [{"label": "cat", "shape_type": "line", "points": [[6, 4], [6, 6]]}])
    with pytest.raises(ImageFileError, match=r"b\.json: a shape cannot be used .*'line'"):
        read(root)
    (root / "masks/b.json").write_text("{")
    found = read_folder(root / "images", root / "masks")
    assert [image.name for image in found.images] == ["a"]
    assert "b.json cannot be read as annotations" in found.problems[0]


def test_masks_of_other_names_may_lie_beside_the_photographs(root):
    for name in "ab":
        write_png(root / f"images/{name}_mask.png", halves(0, 1))
    found = read_folder(root / "images", root / "images", mask_name="{name}_mask", strict=True)
    assert [image.name for image in found.images] == ["a", "b"]
    with pytest.raises(ImageFileError, match=r"with \{name\} in it"):
        read_folder(root / "images", root / "images", mask_name="mask")


def test_several_classes_are_the_foreground(root):
    for name in "ab":
        write_png(root / f"masks/{name}.png", np.arange(96).reshape(SHAPE).astype(np.uint8) % 5)
    found = read(root, foreground=[1, 3])
    np.testing.assert_array_equal(found.images[0].mask, np.arange(96).reshape(SHAPE) % 5 % 2)
    assert found.meaning.n_labels({0, 1, 2, 3, 4}) == 2


def test_masks_with_an_alpha_channel_are_read(root):
    values = Image.fromarray(halves(0, 255))
    for name in "ab":
        values.convert("LA").save(root / f"masks/{name}.png")
    np.testing.assert_array_equal(read(root).images[0].mask, halves(0, 1))


@pytest.mark.parametrize(("folder", "what"), [("images", "the image"), ("masks", "the mask of")])
def test_two_files_of_one_name_are_left_out(root, folder, what):
    for name in "ab":
        write_png(root / f"masks/{name}.png", halves(0, 1))
    Image.open(root / f"{folder}/a.png").save(root / f"{folder}/a.tif")
    found = read_folder(root / "images", root / "masks")
    assert [image.name for image in found.images] == ["b"]
    assert "a.png and" in found.problems[0]
    assert f"a.tif are both {what} a; remove or rename one." in found.problems[0]
    with pytest.raises(ImageFileError, match="are both"):
        read(root)


def test_photographs_may_have_the_format_of_masks_in_the_same_folder(tmp_path):
    Image.fromarray(np.full((*SHAPE, 3), 90, np.uint8)).save(tmp_path / "a.bmp")
    write_png(tmp_path / "a.png", halves(0, 1))
    (found,) = read_folder(tmp_path, tmp_path, strict=True).images
    assert (found.image_file.name, found.mask_file.name) == ("a.bmp", "a.png")


def test_side_files_of_other_systems_are_ignored(root):
    for name in "ab":
        write_png(root / f"masks/{name}.png", halves(0, 1))
    (root / "images/._a.png").write_bytes(b"side")
    assert [image.name for image in read(root).images] == ["a", "b"]


def test_error_of_a_missing_mask_names_its_pattern(root):
    write_png(root / "masks/a_m.png", halves(0, 1))
    found = read_folder(root / "images", root / "masks", mask_name="{name}_m")
    assert found.problems == [f"{root}/images/b.png has no mask {root}/masks/b_m.png."]


def test_groups_come_from_names_or_a_file(tmp_path):
    names = ["walk01", "walk02", "run01"]
    assert read_groups("^[a-z]+", names) == ["walk", "walk", "run"]
    assert read_groups(r"([a-z])\w*\d", names) == ["w", "w", "r"]
    file = tmp_path / "groups.txt"
    file.write_text("walk01 x\nwalk02 y\nrun01 x\n")
    assert read_groups(file, names) == ["x", "y", "x"]
    file.write_text("a walk 01 x\nwalk02\ty\n")
    assert read_groups(file, ["a walk 01", "walk02"]) == ["x", "y"]
    file.write_text("walk01 x\nwalk01 y\n")
    with pytest.raises(ImageFileError, match=r"line 2 is 'walk01 y'; give .* each ID once"):
        read_groups(file, names)
    for given, message in (("walk", "run01 has no group"), ("(", "no regular expression")):
        with pytest.raises(ImageFileError, match=message):
            read_groups(given, names)
    file.write_bytes(b"walk01 \xff")
    with pytest.raises(ImageFileError, match="cannot be read as groups of images"):
        read_groups(file, names)


def test_overlays_leave_the_background_unpainted_and_a_legend_names_the_colours():
    image = np.full((90, 200, 3), 120, np.uint8)
    mask = np.zeros((90, 200), np.uint8)
    mask[:, 100:150], mask[:, 150:] = 1, 2
    drawn = draw_segmentation(image, mask, 3)
    np.testing.assert_array_equal(drawn[:, :98], image[:, :98])
    assert not np.array_equal(drawn[5, 120], drawn[5, 180])
    assert (draw_segmentation(image, mask, 3, background=None)[5, 5] != 120).any()
    assert (draw_segmentation(image, mask, 3, background=1)[5, 5] != 120).any()
    meaning = LabelMap(names=("sky", "cow", "sheep"), colours=((0, 0, 0), (250, 0, 0), (0, 0, 250)))
    with_legend = draw_segmentation(image, mask, 3, meaning=meaning, legend=True)
    assert with_legend.shape[0] > 90
    np.testing.assert_array_equal(
        with_legend[:90], draw_segmentation(image, mask, 3, meaning=meaning)
    )
    strip = with_legend[90:].reshape(-1, 3)
    assert (strip == (250, 0, 0)).all(axis=1).any()
    assert (strip == (0, 0, 250)).all(axis=1).any()
    assert draw_segmentation(image, mask // 2, 2, legend=True).shape == image.shape


def test_feature_cache_deletes_the_files_that_were_not_used_for_longest(tmp_path):
    images = [np.full((20, 20 + i, 3), 9 * i, np.uint8) for i in range(3)]
    cache = FeatureCache(tmp_path, 10**9)
    for image in images[:2]:
        cache.describe(image, 4)
    sizes = sum(path.stat().st_size for path in tmp_path.iterdir())
    old = cache.path(images[1], 4)
    for path in tmp_path.iterdir():
        age = 10 if path == old else 20
        os.utime(path, (path.stat().st_atime - age, path.stat().st_mtime - age))
    cache.describe(images[0], 4)  # used now
    FeatureCache(tmp_path, int(1.3 * sizes)).describe(images[2], 4)
    assert not old.exists()
    assert cache.path(images[0], 4).exists()
    assert cache.path(images[2], 4).exists()


@pytest.mark.slow
def test_a_meaning_that_is_given_to_a_segmenter_says_which_value_is_the_object():
    made = make_synthetic_images(2)
    masks = [np.where(mask, 9, 4).astype(np.uint8) for mask in made.masks]
    meaning = LabelMap(classes=(9, 4))
    turned = Segmenter(n_segments=20, C=1.0, meaning=meaning).fit(made.images, masks)
    assert turned.meaning_ == meaning
    usual = Segmenter(n_segments=20, C=1.0).fit(made.images, [1 - mask for mask in made.masks])
    image = made.images[0]
    np.testing.assert_array_equal(turned.predict(image), usual.predict(image))
