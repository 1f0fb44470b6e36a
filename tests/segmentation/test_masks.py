"""Masks as they come, alone and in folders, and their scores and drawings."""

import json
import runpy
import shutil
import struct
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix, jaccard_score

from structboost.segmentation import LabelMap, Segmenter
from structboost.segmentation.crf import superpixel_scores
from structboost.segmentation.descriptors import label_counts
from structboost.segmentation.masks import (
    check_hard_edges,
    coco_mask,
    meaning_of,
    read_classes,
    read_folder,
    read_split,
)
from structboost.segmentation.scores import SegmentationScores, confusion
from structboost.vision.drawing import class_colours, draw_segmentation
from structboost.vision.images import read_mask, read_photograph, resized_mask, shrink_to, write_png
from tests.helpers.refusals import refused

EXAMPLES = Path(__file__).parents[2] / "examples"
SHAPE = (8, 12)
FOUR = default_rng(0).choice([0, 1, 3, 255], size=SHAPE).astype(np.uint8)


@pytest.fixture
def root(tmp_path):
    """Three photographs, and a folder for masks."""
    (tmp_path / "images").mkdir()
    (tmp_path / "masks").mkdir()
    for index, name in enumerate("abc"):
        write_png(tmp_path / f"images/{name}.png", np.full((*SHAPE, 3), 90 + index, np.uint8))
    return tmp_path


def halves(left, right):
    mask = np.full(SHAPE, left, np.uint8)
    mask[:, 6:] = right
    return mask


def read(root, mask=None, **settings):
    """Read the folders, after a mask of all photographs was written, if there is one."""
    for name in "abc" if mask is not None else "":
        write_png(root / f"masks/{name}.png", mask)
    return read_folder(root / "images", root / "masks", **settings)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ((0, 1), (0, 1)),
        ((0, 255), (0, 1)),
        ((0, 128), (0, 1)),
        ((7, 255), (0, 1)),
        ((1, 255), (1, 255)),  # the object and void of other masks
    ],
)
def test_two_values_are_two_classes(root, values, labels):
    found = read(root, halves(*values))
    assert_array_equal(found.images[0].mask, halves(*labels))
    assert_array_equal(found.meaning.values(halves(*labels)), halves(*values))


def test_values_of_masks_have_a_meaning():
    two = meaning_of({3, 9, 255})
    assert_array_equal(two.labels(np.array([[3, 9, 255]], np.uint8)), [[0, 1, 255]])
    assert meaning_of({0, 3, 9, 255}) == meaning_of({0, 1}) == LabelMap()
    three = LabelMap((0, 7, 9))
    assert [*map(three.name, range(3)), "[0, 7, 9]" in str(three)] == ["0", "7", "9", True]
    for values, message in (({0, 255}, "at least two"), ({255}, "void")):
        refused(message, LabelMap().n_labels, values)


@pytest.mark.parametrize(
    ("meaning", "mask", "message"),
    [
        (LabelMap(), halves(0, 2), r"holds the values \[2\]; the model has 0..1"),
        (LabelMap(), halves(0, 255), "0 and 255 only"),
        (LabelMap((0, 128)), halves(0, 255), "0 and 255 only"),
        (LabelMap((0, 255)), halves(0, 1), r"holds the values \[1\]; the model has 0 and 255"),
        (LabelMap(names=("a",)), halves(0, 1), None),
        (LabelMap((0, 255)), halves(0, 255), None),
        (LabelMap(foreground=(7,)), halves(3, 7), None),
    ],
)
def test_masks_must_have_the_meaning_of_those_of_a_model(root, meaning, mask, message):
    call = partial(read, root, mask, meaning=meaning, n_labels=2)
    if message:
        refused(message, call)
    else:
        assert_array_equal(call().images[0].mask, halves(0, 1))


def test_masks_with_soft_edges_raise_an_error(root):
    soft = np.zeros(SHAPE, np.uint8)
    soft[2:6, 3:9], soft[2:6, 2], soft[2:6, 9], soft[1, 3:9] = 255, 64, 128, 191
    refused(r"a.png holds 5 values .*soft edges.*threshold it", read, root, soft)
    refused(
        r"masks\[0\] holds \d+ values.*soft edges",
        Segmenter().fit,
        [np.dstack([soft] * 3)] * 2,
        [soft] * 2,
    )
    # Classes lie beside a thin rim of void, as of many sets.
    classes = np.zeros((40, 40), np.uint8)
    classes[:10, :4], classes[:10, 4], classes[20:22, :9], classes[30:32, :5] = 3, 255, 15, 20
    check_hard_edges(classes, "mask")


def test_masks_of_colours_are_converted_and_colours_outside_the_table_are_named(root):
    table = root / "colours.txt"
    table.write_text("10 20 30 sky\n128 64 0 tree house\n0 0 0 void\n9 9 9 void\n")
    colours = np.array([[10, 20, 30], [128, 64, 0], [0, 0, 0], [9, 9, 9]], np.uint8)
    values = np.arange(96).reshape(SHAPE) % 4
    (root / "coloured").mkdir()
    for name in "abc":
        write_png(root / f"coloured/{name}.png", colours[values])
    convert = runpy.run_path(str(EXAMPLES / "colour_masks.py"))["main"]
    refused(r"a\.png is a colour picture", read_folder, root / "images", root / "coloured")
    convert(table, root / "coloured", root / "masks")
    found = read(root, classes=root / "masks/classes.txt")
    assert_array_equal(found.images[1].mask, np.array([0, 1, 255, 255])[values])
    assert [found.meaning.name(label) for label in (0, 1)] == ["sky", "tree house"]
    colours[2] = 77
    write_png(root / "coloured/b.png", colours[values])
    with pytest.raises(SystemExit, match=r"b\.png has the colour \[77, 77, 77\]"):
        convert(table, root / "coloured", root / "masks")


def test_classes_have_the_names_of_a_table(root):
    (root / "classes.txt").write_text("0 sky\n\n1\tcow\n3 tree house\n255 void\n")
    meaning = read(root, FOUR, classes=root / "classes.txt").meaning
    assert [meaning.name(label) for label in range(4)] == ["sky", "cow", "2", "tree house"]


def test_coco_polygons_and_run_lengths_become_masks(root):
    wanted = np.zeros(SHAPE, np.uint8)
    wanted[1:5, 2:6] = 1
    wanted[2:4, 3:5] = 2  # the smaller one is on top
    ends = np.flatnonzero(np.diff(wanted.ravel(order="F") == 2, prepend=False))
    counts = np.diff([0, *ends, wanted.size]).tolist()
    square = [[2.0, 1.0, 6.0, 1.0, 6.0, 5.0, 2.0, 5.0]]
    images = [(5, "sub/a.png"), (6, "b.png"), (7, "c.png")]
    drawn = [(30, {"size": list(SHAPE), "counts": counts}), (7, square)]
    content = {
        "images": [{"id": i, "file_name": n, "height": 8, "width": 12} for i, n in images],
        "categories": [{"id": 30, "name": "dog"}, {"id": 7, "name": "cat"}],
        "annotations": [{"image_id": 5, "category_id": c, "segmentation": s} for c, s in drawn],
    }
    file = root / "coco.json"

    def read_coco(text):
        file.write_text(text)
        return read_folder(root / "images", file)

    found = read_coco(json.dumps(content))
    assert_array_equal(found.images[0].mask, wanted)
    assert not found.images[1].mask.any()
    assert found.meaning.names == ("background", "cat", "dog")
    refused(
        "and the model has",
        read_folder,
        root / "images",
        file,
        meaning=LabelMap(names=("background", "dog")),
    )
    content["annotations"][1]["category_id"] = 8
    for text, message in (
        (json.dumps(content), r"an annotation of a .* \(KeyError: 8"),
        ("[]", "not in COCO's"),
        ("{}", "not in COCO's"),
        ("{", "cannot be"),
    ):
        refused(message, read_coco, text)


def test_run_lengths_in_the_text_of_coco_are_decoded():
    # A difference to the last but one stands for each number from the fourth on: 1 - 3, 60 - 100.
    values = [40, 3, 100, 1, 60, 500]
    coded = [[32 + 8, 1], [3], [32 + 4, 3], [30], [32 + 24, 30], [32 + 19, 15]]
    text = "".join(chr(48 + bits) for number in coded for bits in number)
    found = coco_mask({"size": [22, 32], "counts": text}, (22, 32))
    want = np.repeat([0, 1, 0, 1, 0, 1], values).reshape((22, 32), order="F")
    assert_array_equal(found, want)
    refused("do not fit", coco_mask, {"size": [22, 31], "counts": text}, (22, 31))


def test_labelme_shapes_become_masks(root):
    def write(name, *shapes):
        content = {"shapes": shapes, "imageHeight": 8, "imageWidth": 12}
        (root / f"masks/{name}.json").write_text(json.dumps(content))

    box = {"label": "dog", "shape_type": "rectangle", "points": [[1, 1], [5, 4]]}
    lost = {"label": "__ignore__", "points": [[8, 0], [12, 0], [12, 8], [8, 8]]}
    other = {"label": "cat", "points": [[0, 0], [3, 0], [3, 3], [0, 3]]}
    write("a", box, lost)
    write("b", other)
    write("c")
    found = read(root)
    wanted = np.zeros(SHAPE, np.uint8)
    wanted[1:4, 1:5] = 2
    wanted[:, 8:] = 255
    assert_array_equal(found.images[0].mask, wanted)
    assert_array_equal(np.argwhere(found.images[1].mask == 1), list(np.ndindex(3, 3)))
    assert found.meaning.names == ("background", "cat", "dog")
    # A model has its classes, whatever occurs here.
    (root / "masks/b.json").unlink()
    (root / "images/b.png").unlink()
    again = read(root, meaning=found.meaning, n_labels=3)
    assert_array_equal(again.images[0].mask, wanted)
    for text, message in (
        (json.dumps({"shapes": [], "imageHeight": 8}), "not in LabelMe's"),
        ("{", "cannot be read as annotations"),
    ):
        (root / "masks/c.json").write_text(text)
        refused(f"c.json .*{message}", read, root)
    write("c", {**other, "shape_type": "line"})
    refused(r"c\.json: a shape cannot be used .*'line'", read, root)


def test_classes_are_taken_together_against_the_rest(root):
    found = read(root, FOUR)
    assert "indices" in str(found.meaning)
    for foreground in (3, [1, 3]):
        found = read(root, foreground=foreground)
        wanted = np.where(FOUR == 255, 255, np.isin(FOUR, foreground))
        assert_array_equal(found.images[0].mask, wanted)
        assert found.meaning.n_labels({0, 1, 3, 255}) == 2
        assert found.meaning.name(0) == "rest"
        refused("give values that occur", found.meaning.n_labels, {0, 2})


BREAKS = {
    "a.png has no mask in": lambda image, mask: [path.unlink() for path in mask.parent.iterdir()],
    "has no images": lambda image, mask: [path.unlink() for path in image.parent.iterdir()],
    "There is no folder .*images": lambda image, mask: shutil.rmtree(image.parent),
    "There is no folder .*masks": lambda image, mask: shutil.rmtree(mask.parent),
    "cannot be read as an image": lambda image, mask: image.write_bytes(b"this is no picture"),
    "cannot be read as a mask": lambda image, mask: mask.write_bytes(mask.read_bytes()[:40]),
    "has no mask": lambda image, mask: mask.unlink(),
    "mask without an image": lambda image, mask: image.unlink(),
    "6 x 5 pixels, its image b.png 12 x 8": lambda image, mask: write_png(mask, FOUR[:5, :6]),
    "8 x 12 pixels, its image b.png 12 x 8.*EXIF orientation.*exiftool": (
        lambda image, mask: write_png(mask, FOUR.T.copy())
    ),
    "values from 700 to 700": (
        lambda image, mask: Image.fromarray(np.full(SHAPE, 700, np.uint16)).save(mask)
    ),
    r"b.png and .*b.tif are both the image b; remove": (
        lambda image, mask: Image.open(image).save(image.with_suffix(".tif"))
    ),
    r"b.png and .*b.tif are both the mask of b; remove": (
        lambda image, mask: Image.open(mask).save(mask.with_suffix(".tif"))
    ),
}


@pytest.mark.parametrize("message", BREAKS)
def test_bad_files_of_a_folder_are_named(root, message):
    read(root, FOUR)
    BREAKS[message](root / "images/b.png", root / "masks/b.png")
    caught = refused(message, read, root)
    assert "b" in str(caught)


@pytest.mark.parametrize(
    ("reader", "text", "message"),
    [
        (read_split, "a trian\n", "line 1"),
        (read_split, "a\n", "line 1"),
        (read_split, b"a \xff", "cannot be read as text"),
        (read_split, "a train\na test\n", "line 2 is 'a test'"),
        (read_classes, "0 a\n0 b\n", "line 2"),
        (read_classes, "x y\n", "line 1"),
    ],
)
def test_a_line_of_another_form_is_named(tmp_path, reader, text, message):
    path = tmp_path / "lines.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(message, reader, path)


def test_splits_choose_images_by_name(root):
    path = root / "lines.txt"
    path.write_text("a\ttrain\nmy photo test\n\nzz train\n")
    assert read_split(path) == {"a": "train", "my photo": "test", "zz": "train"}
    refused("zz has no image file", read, root, FOUR, names=["a", "zz"])
    assert [image.name for image in read(root, names="aba").images] == ["a", "b", "a"]


def test_masks_with_palette_alpha_or_equal_channels_are_read_as_indices(tmp_path):
    values = np.array([[0, 1], [2, 255]], np.uint8)
    picture = Image.fromarray(values, mode="P")
    picture.putpalette(list(range(256)) * 3)
    bits = np.array([[0, 0], [255, 255]])
    for stored, expected in (
        (picture, values),
        (Image.fromarray(values).convert("LA"), values),
        (Image.fromarray(np.dstack([values] * 3)), values),
        (Image.fromarray(values > 1), bits),
    ):
        stored.save(tmp_path / "m.png")
        assert_array_equal(read_mask(tmp_path / "m.png"), expected)
    Image.fromarray(257 * values.astype(np.uint16)).save(tmp_path / "f.png")
    refused("values from 0 to 65535", read_mask, tmp_path / "f.png")
    data = (tmp_path / "f.png").read_bytes()
    (tmp_path / "f.png").write_bytes(data[:16] + struct.pack(">II", 1 << 20, 1 << 10) + data[24:])
    refused("cannot be read as a mask", read_mask, tmp_path / "f.png")


def test_written_pictures_are_read_back_unchanged(tmp_path):
    photograph = default_rng(0).integers(0, 256, size=(30, 60, 3)).astype(np.uint8)
    refused("pixels is None; give an array", write_png, tmp_path / "x.png", None)
    write_png(tmp_path / "x.png", photograph)
    assert_array_equal(read_photograph(tmp_path / "x.png"), photograph)
    assert shrink_to(photograph, 20).shape == (10, 20, 3)
    assert shrink_to(photograph, 100) is photograph
    assert shrink_to(photograph[:1], 10).shape == (1, 10, 3)
    mask = np.arange(8, dtype=np.uint8).reshape(2, 4)
    assert_array_equal(resized_mask(resized_mask(mask, (4, 8)), (2, 4)), mask)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_scores_are_those_of_scikit_learn_without_void(n_labels):
    rng = default_rng(0)
    superpixels = rng.integers(0, 6, size=(20, 20), dtype=np.int32)
    truth = rng.choice([*range(n_labels + 1), 255], size=(20, 20)).astype(np.uint8)
    labels = np.arange(6) % n_labels
    predicted = labels[superpixels].astype(np.uint8)
    matrix = confusion(truth, predicted, n_labels)
    pair = truth[truth < n_labels], predicted[truth < n_labels]
    assert_array_equal(matrix, confusion_matrix(*pair))
    iou, accuracy = jaccard_score(*pair, average=None), accuracy_score(*pair)
    expected = {"iou_foreground": iou[1], "iou_background": iou[0], "accuracy": accuracy}
    if n_labels == 3:
        expected = {"mean_iou": iou.mean(), "global_accuracy": accuracy}
        expected["class_accuracy"] = balanced_accuracy_score(*pair)
    scores = SegmentationScores.of([matrix, matrix])
    assert_allclose(scores.iou, iou)
    assert scores.as_record() == pytest.approx(expected)
    counts = label_counts(superpixels, truth, n_labels)
    assert_array_equal(superpixel_scores([counts], [labels]).confusion, matrix)


def test_mean_scores_ignore_classes_that_do_not_occur():
    truth = np.array([[0, 0, 2, 2, 2, 255]], np.uint8)
    found = np.array([[0, 2, 2, 2, 0, 1]], np.uint8)
    record = SegmentationScores(confusion(truth, found, 4)).as_record()
    assert record["class_accuracy"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert record["mean_iou"] == pytest.approx((1 / 3 + 2 / 4) / 2)
    for n_labels in (2, 3):
        void = confusion(0 * truth + 255, found % 2, n_labels)
        assert set(SegmentationScores(void).as_record().values()) == {None}


def test_confusion_refuses_other_shapes_and_classes():
    refused("must be equal", confusion, np.zeros((2, 2), int), np.zeros((2, 3), int), 2)
    refused("class 7", confusion, np.zeros((2, 2), np.uint8), np.full((2, 2), 7, np.uint8), 2)


def test_drawings_show_the_classes_and_a_legend_names_their_colours():
    image = np.full((90, 200, 3), 120, np.uint8)
    mask = np.repeat([0, 1, 2], [100, 50, 50]).astype(np.uint8) * np.ones((90, 1), np.uint8)
    two, drawn = draw_segmentation(image, mask // 2), draw_segmentation(image, mask, 3)
    assert (two[5, 180] == 120).all()
    assert (two[5, 5] < 120).all()
    assert_array_equal(drawn[:, :98], image[:, :98])
    assert not np.array_equal(drawn[5, 120], drawn[5, 180])
    with_legend = draw_segmentation(image, mask, 3, names=("sky", "cow", "sheep"))
    assert_array_equal(with_legend[:90], drawn)
    assert_array_equal(draw_segmentation(image, mask // 2, names=("sky", "cow")), two)
    for colour in class_colours(3)[1:]:
        assert (with_legend[90:] == colour).all(axis=2).any()
    refused("one size", draw_segmentation, image, mask[1:])


@pytest.mark.parametrize("wrong", [{"classes": (0, 256)}, {"foreground": (-1,)}])
def test_a_meaning_of_other_values_is_refused(wrong):
    refused(f"{next(iter(wrong))} is .*give whole numbers", LabelMap, **wrong)
