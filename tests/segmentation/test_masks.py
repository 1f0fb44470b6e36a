"""Masks as they come, alone and in folders, and their scores and drawings."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from sklearn.metrics import accuracy_score, balanced_accuracy_score, confusion_matrix, jaccard_score

from structboost.segmentation import LabelMap, Segmenter
from structboost.segmentation.crf import superpixel_scores
from structboost.segmentation.descriptors import label_counts
from structboost.segmentation.drawing import contact_sheet, draw_segmentation
from structboost.segmentation.image_files import (
    ImageFileError,
    read_mask,
    read_photograph,
    resized_mask,
    shrink_to,
    write_png,
)
from structboost.segmentation.labelled_folder import read_folder, read_groups, read_split
from structboost.segmentation.masks import (
    check_hard_edges,
    coco_mask,
    meaning_of,
    n_labels_of,
    read_classes,
)
from structboost.segmentation.scores import (
    SegmentationScores,
    break_even,
    confusion,
    evaluation,
    summary,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
SHAPE = (8, 12)
FOUR = np.random.default_rng(0).choice([0, 1, 3, 255], size=SHAPE).astype(np.uint8)


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


def write_masks(root, mask, pattern="masks/{}.png"):
    for name in "abc":
        write_png(root / pattern.format(name), mask)


def read(root, **settings):
    return read_folder(root / "images", root / "masks", **{"strict": True, **settings})


def names(found):
    return [image.name for image in found.images]


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
    write_masks(root, halves(*values))
    found = read(root)
    assert_array_equal(found.images[0].mask, halves(*labels))
    assert_array_equal(found.meaning.values(halves(*labels)), halves(*values))


def test_the_meaning_of_values_is_that_of_training_where_they_allow_it():
    two, background, known = (
        meaning_of({3, 9, 255}), LabelMap(classes=(0, 128)), meaning_of({0, 1, 255}),
    )  # fmt: skip
    assert_array_equal(two.labels(np.array([[3, 9, 255]], np.uint8)), [[0, 1, 255]])
    for found, wanted in (
        (meaning_of({0, 3, 9, 255}), LabelMap(has_void=True)),
        (meaning_of({3, 9}, n_labels=12), LabelMap()),
        (meaning_of({0}, background), background),
        (meaning_of({0, 255}, known), known),
        (meaning_of({0, 255}, meaning_of({0, 1})), LabelMap(classes=(0, 255))),
    ):
        assert found == wanted
    for values, message in (({0, 255}, "at least two"), ({255}, "void")):
        with pytest.raises(ValueError, match=message):
            n_labels_of(values)


def test_masks_with_soft_edges_raise_an_error(root):
    soft = np.zeros(SHAPE, np.uint8)
    soft[2:6, 3:9], soft[2:6, 2], soft[2:6, 9], soft[1, 3:9] = 255, 64, 128, 191
    write_masks(root, soft)
    with pytest.raises(ImageFileError, match=r"a.png holds 5 values .*soft edges.*threshold it"):
        read(root)
    with pytest.raises(ValueError, match=r"masks\[0\] holds \d+ values.*soft edges"):
        Segmenter().fit([np.dstack([soft] * 3)] * 2, [soft] * 2)
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
    write_masks(root, colours[values], "coloured/{}.png")
    convert = runpy.run_path(str(EXAMPLES / "colour_masks.py"))["main"]
    with pytest.raises(ImageFileError, match=r"a\.png is a colour picture"):
        read_folder(root / "images", root / "coloured", strict=True)
    convert(table, root / "coloured", root / "masks")
    found = read(root, classes=root / "masks/classes.txt")
    assert_array_equal(found.images[1].mask, np.array([0, 1, 255, 255])[values])
    assert [found.meaning.name(label) for label in (0, 1)] == ["sky", "tree house"]
    assert found.meaning.colour(1) == (128, 64, 0)
    colours[2] = 77
    write_png(root / "coloured/b.png", colours[values])
    with pytest.raises(SystemExit, match=r"b\.png has the colour \[77, 77, 77\]"):
        convert(table, root / "coloured", root / "masks")


def test_predictions_are_written_in_the_colours_of_the_palette(root):
    picture = Image.fromarray(halves(1, 2), mode="P")
    picture.putpalette([0, 0, 0, 200, 10, 10, 10, 200, 10])
    for name in "abc":
        picture.save(root / f"masks/{name}.png")
    table = root / "classes.txt"
    table.write_text("0 sky images=3\n1 cow images=2\n2 sheep\n")
    found = read(root, classes=table, n_labels=3)
    assert found.meaning.colours[:3] == ((0, 0, 0), (200, 10, 10), (10, 200, 10))
    assert [found.meaning.name(label) for label in range(3)] == ["sky", "cow", "sheep"]
    write_png(root / "out.png", halves(1, 2), found.meaning.colours)
    assert_array_equal(read_mask(root / "out.png"), halves(1, 2))
    with Image.open(root / "out.png") as written:
        assert written.convert("RGB").getpixel((11, 0)) == (10, 200, 10)


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
        return read_folder(root / "images", file, strict=True)

    found = read_coco(json.dumps(content))
    assert_array_equal(found.images[0].mask, wanted)
    assert not found.images[1].mask.any()
    assert found.meaning.names == ("background", "cat", "dog")
    content["annotations"][1]["category_id"] = 8
    for text, message in (
        (json.dumps(content), r"an annotation of a .* \(KeyError: 8"),
        ("[]", "no annotations"),
        ("{}", "not in COCO's"),
        ("{", "cannot be"),
    ):
        with pytest.raises(ImageFileError, match=message):
            read_coco(text)


def test_run_lengths_in_the_text_of_coco_are_decoded():
    # A difference to the last but one stands for each number from the fourth on: 1 - 3, 60 - 100.
    values = [40, 3, 100, 1, 60, 500]
    coded = [[32 + 8, 1], [3], [32 + 4, 3], [30], [32 + 24, 30], [32 + 19, 15]]
    text = "".join(chr(48 + bits) for number in coded for bits in number)
    found = coco_mask({"size": [22, 32], "counts": text}, (22, 32))
    want = np.repeat([0, 1, 0, 1, 0, 1], values).reshape((22, 32), order="F")
    assert_array_equal(found, want)
    with pytest.raises(ValueError, match="do not fit"):
        coco_mask({"size": [22, 31], "counts": text}, (22, 31))


def test_labelme_shapes_become_masks(root):
    def write(name, *shapes):
        content = {"shapes": shapes, "imageHeight": 8, "imageWidth": 12}
        (root / f"masks/{name}.json").write_text(json.dumps(content))

    box = {"label": "dog", "shape_type": "rectangle", "points": [[1, 1], [5, 4]]}
    lost = {"label": "__ignore__", "points": [[8, 0], [12, 0], [12, 8], [8, 8]]}
    disc = {"label": "cat", "shape_type": "circle", "points": [[6, 4], [6, 6]]}
    write("a", box, lost)
    write("b", disc)
    write("c")
    found = read(root)
    wanted = np.zeros(SHAPE, np.uint8)
    wanted[1:4, 1:5] = 2
    wanted[:, 8:] = 255
    assert_array_equal(found.images[0].mask, wanted)
    assert found.meaning.names == ("background", "cat", "dog")
    y, x = np.nonzero(found.images[1].mask == 1)
    assert (np.hypot(x - 5.5, y - 3.5) < 2).all()
    assert len(x) == 12
    write("b", {**disc, "shape_type": "line"})
    with pytest.raises(ImageFileError, match=r"b\.json: a shape cannot be used .*'line'"):
        read(root)
    (root / "masks/b.json").write_text("{")
    found = read(root, strict=False)
    assert names(found) == ["a", "c"]
    assert "b.json cannot be read as annotations" in found.problems[0]


def test_classes_are_taken_together_against_the_rest(root):
    write_masks(root, FOUR)
    found = read(root)
    assert found.problems == []
    assert "indices" in str(found.meaning)
    for foreground in (3, [1, 3]):
        found = read(root, foreground=foreground)
        wanted = np.where(FOUR == 255, 255, np.isin(FOUR, foreground))
        assert_array_equal(found.images[0].mask, wanted)
        assert found.meaning.n_labels({0, 1, 3, 255}) == 2
        assert found.meaning.name(0) == "rest"
        with pytest.raises(ValueError, match="give values that occur"):
            found.meaning.n_labels({0, 2})


BREAKS = {
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
    r"holds the values \[9\]": lambda image, mask: write_png(mask, np.full(SHAPE, 9, np.uint8)),
    r"b.png and .*b.tif are both the image b; remove": (
        lambda image, mask: Image.open(image).save(image.with_suffix(".tif"))
    ),
    r"b.png and .*b.tif are both the mask of b; remove": (
        lambda image, mask: Image.open(mask).save(mask.with_suffix(".tif"))
    ),
}


@pytest.mark.parametrize("message", BREAKS)
def test_bad_files_of_a_folder_are_named_and_left_out_or_refused(root, message):
    write_masks(root, FOUR)
    BREAKS[message](root / "images/b.png", root / "masks/b.png")
    found = read(root, n_labels=4, strict=False)
    assert names(found) == ["a", "c"]
    assert len(found.problems) == 1
    with pytest.raises(ImageFileError, match=message) as caught:
        read(root, n_labels=4)
    assert "b" in str(caught.value)


def test_masks_may_have_other_names_or_lie_beside_the_photographs(root, tmp_path):
    write_masks(root, halves(0, 1), "images/{}_mask.png")
    (root / "images/._a.png").write_bytes(b"side file of another system")
    where = root / "images", root / "images"
    found = read_folder(*where, mask_name="{name}_mask", strict=True)
    assert names(found) == ["a", "b", "c"]
    with pytest.raises(ImageFileError, match=r"with \{name\} in it"):
        read_folder(*where, mask_name="mask")
    (root / "images/b_mask.png").unlink()
    found = read_folder(*where, mask_name="{name}_mask")
    assert found.problems == [f"{root}/images/b.png has no mask {root}/images/b_mask.png."]
    (tmp_path / "both").mkdir()
    Image.fromarray(np.full((*SHAPE, 3), 90, np.uint8)).save(tmp_path / "both/a.bmp")
    write_png(tmp_path / "both/a.png", halves(0, 1))
    (found,) = read_folder(tmp_path / "both", tmp_path / "both", strict=True).images
    assert (found.image_file.name, found.mask_file.name) == ("a.bmp", "a.png")


def test_folder_without_usable_masks_raises_an_error(root):
    with pytest.raises(ImageFileError, match=r"No image in .* First of 3 problems"):
        read(root, strict=False)
    for images, masks in (("nowhere", "masks"), ("images", "nowhere")):
        with pytest.raises(ImageFileError, match="There is no folder"):
            read_folder(root / images, root / masks)


@pytest.mark.parametrize(
    ("reader", "text", "message"),
    [
        (read_split, "a trian\n", "line 1"),
        (read_split, "", "empty"),
        (read_split, "a train\na test\n", "line 2 is 'a test'"),
        (read_classes, "0 a\n0 b\n", "line 2"),
        (read_classes, "x y\n", "line 1"),
        (lambda path: read_groups(path, ["a"]), "a x\na y\n", "line 2 is 'a y'.* each ID once"),
        (lambda path: read_groups(path, ["b"]), "a x\n", "b has no group"),
        (lambda path: read_groups(path, ["a"]), b"a \xff", "cannot be read as groups of images"),
    ],
)
def test_a_line_of_another_form_is_named(tmp_path, reader, text, message):
    path = tmp_path / "lines.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ImageFileError, match=message):
        reader(path)


def test_splits_and_groups_come_from_files_or_names(root):
    path = root / "lines.txt"
    path.write_text("a\ttrain\nmy photo test\n\nzz train\n")
    assert read_split(path) == {"a": "train", "my photo": "test", "zz": "train"}
    write_masks(root, FOUR)
    found = read(root, names=["a", "zz"], strict=False)
    assert names(found) == ["a"]
    assert "zz has no image file" in found.problems[0]
    assert names(read(root, names="aba")) == ["a", "b", "a"]
    walks = ["walk01", "walk02", "run01"]
    assert read_groups("^[a-z]+", walks) == ["walk", "walk", "run"]
    assert read_groups(r"([a-z])\w*\d", walks) == ["w", "w", "r"]
    path.write_text("a walk 01 x\nwalk02\ty\n")
    assert read_groups(path, ["a walk 01", "walk02"]) == ["x", "y"]
    for pattern, message in (("walk", "run01 has no group"), ("(", "no regular expression")):
        with pytest.raises(ImageFileError, match=message):
            read_groups(pattern, walks)


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
        (Image.fromarray((65535 * (values > 1)).astype(np.uint16)), bits),
    ):
        stored.save(tmp_path / "m.png")
        assert_array_equal(read_mask(tmp_path / "m.png"), expected)
    Image.fromarray(257 * values.astype(np.uint16)).save(tmp_path / "f.png")
    with pytest.raises(ImageFileError, match="values from 0 to 65535"):
        read_mask(tmp_path / "f.png")


def test_written_pictures_are_read_back_unchanged(tmp_path):
    photograph = np.random.default_rng(0).integers(0, 256, size=(30, 60, 3)).astype(np.uint8)
    write_png(tmp_path / "x.png", photograph)
    assert_array_equal(read_photograph(tmp_path / "x.png"), photograph)
    assert shrink_to(photograph, 20).shape == (10, 20, 3)
    assert shrink_to(photograph, 100) is photograph
    assert shrink_to(photograph[:1], 10).shape == (1, 10, 3)
    mask = np.arange(8, dtype=np.uint8).reshape(2, 4)
    assert_array_equal(resized_mask(resized_mask(mask, (4, 8)), (2, 4)), mask)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_scores_are_those_of_scikit_learn_without_void(n_labels):
    rng = np.random.default_rng(0)
    superpixels = rng.integers(0, 6, size=(20, 20))
    truth = rng.choice([*range(n_labels), 255], size=(20, 20)).astype(np.uint8)
    labels = np.arange(6) % n_labels
    predicted = labels[superpixels].astype(np.uint8)
    matrix = confusion(truth, predicted, n_labels)
    pair = truth[truth < 255], predicted[truth < 255]
    assert_array_equal(matrix, confusion_matrix(*pair))
    iou, accuracy = jaccard_score(*pair, average=None), accuracy_score(*pair)
    expected = {"iou_foreground": iou[1], "iou_background": iou[0], "accuracy": accuracy}
    if n_labels == 3:
        expected = {"mean_iou": iou.mean(), "global_accuracy": accuracy}
        expected["class_accuracy"] = balanced_accuracy_score(*pair)
    scores = SegmentationScores.of([matrix, matrix])
    assert_allclose(scores.iou, iou)
    assert scores.as_record() == pytest.approx(expected)
    line = summary(evaluation({"a": matrix}, list("xyz")[:n_labels]))
    assert all(f"{value:.4f}" in line for value in (*iou, *expected.values()))
    counts = label_counts(superpixels.astype(np.int32), truth, n_labels)
    assert_array_equal(superpixel_scores([counts], [labels]).confusion, matrix)


def test_mean_scores_ignore_classes_that_do_not_occur():
    truth = np.array([[0, 0, 2, 2, 2, 255]], np.uint8)
    found = np.array([[0, 2, 2, 2, 0, 1]], np.uint8)
    record = SegmentationScores(confusion(truth, found, 4)).as_record()
    assert record["class_accuracy"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert record["mean_iou"] == pytest.approx((1 / 3 + 2 / 4) / 2)
    record = SegmentationScores([[4, 0], [0, 0]]).as_record()
    assert record == {"iou_foreground": None, "iou_background": 1.0, "accuracy": 1.0}
    for n_labels in (2, 3):
        void = confusion(0 * truth + 255, found % 2, n_labels)
        assert set(SegmentationScores(void).as_record().values()) == {None}


def test_break_even_is_where_precision_equals_recall():
    truth = np.array([[0, 4], [2, 2], [4, 0], [4, 0]])
    # The two best hold 8 pixels, 6 of them foreground: at 6 pixels taken, 4 + 1 are hit.
    margins, areas = np.array([3.0, 2.0, 1.0, 0.0]), truth.sum(axis=1)
    assert break_even(truth, margins, areas) == pytest.approx(5 / 6)
    assert break_even(truth, margins[::-1], areas) == 0.0
    assert np.isnan(break_even(np.array([[3, 0]]), np.zeros(1), np.full(1, 3)))
    with pytest.raises(ValueError, match="give"):
        break_even(truth, margins[1:], areas)


def test_confusion_refuses_other_shapes_and_classes():
    with pytest.raises(ValueError, match="must be equal"):
        confusion(np.zeros((2, 2), int), np.zeros((2, 3), int), 2)
    with pytest.raises(ValueError, match="class 7"):
        confusion(np.zeros((2, 2), np.uint8), np.full((2, 2), 7, np.uint8), 2)


def test_drawings_show_the_classes_and_a_legend_names_their_colours():
    image = np.full((90, 200, 3), 120, np.uint8)
    mask = np.repeat([0, 1, 2], [100, 50, 50]).astype(np.uint8) * np.ones((90, 1), np.uint8)
    two = draw_segmentation(image, mask // 2, legend=True)
    assert (two[5, 180] == 120).all()
    assert (two[5, 5] < 120).all()
    drawn = draw_segmentation(image, mask, 3)
    assert_array_equal(drawn[:, :98], image[:, :98])
    assert not np.array_equal(drawn[5, 120], drawn[5, 180])
    for background in (None, 1):
        assert (draw_segmentation(image, mask, 3, background=background)[5, 5] != 120).any()
    meaning = LabelMap(names=("sky", "cow", "sheep"), colours=((0, 0, 0), (250, 0, 0), (0, 0, 250)))
    plain, with_legend = (
        draw_segmentation(image, mask, 3, meaning=meaning, legend=legend)
        for legend in (False, True)
    )
    assert_array_equal(with_legend[:90], plain)
    for colour in meaning.colours[1:]:
        assert (with_legend[90:] == colour).all(axis=2).any()
    with pytest.raises(ValueError, match="one size"):
        draw_segmentation(image, mask[1:])


def test_a_contact_sheet_has_a_column_for_each_segmentation():
    photograph = np.full((20, 30, 3), 200, np.uint8)
    mask = np.indices((20, 30))[1].astype(np.uint8) // 20
    rows = [("x", photograph, {"truth": mask, "found": 1 - mask})] * 2
    assert contact_sheet(rows, tile_width=60).shape == (22 + 2 * 44, 3 * 60 + 2 * 4, 3)
    one, two = ([("x", photograph, {"truth": k * mask})] for k in (1, 2))
    assert (contact_sheet(two, 3) != contact_sheet(one)).any()
    with pytest.raises(ValueError, match="no segmentation named"):
        contact_sheet([*one, ("y", photograph, {})])
    with pytest.raises(TypeError, match="rows"):
        contact_sheet([])


@pytest.mark.parametrize(
    "wrong",
    [{"foreground": ["x"]}, {"n_labels": 0}, {"strict": 2}, {"meaning": 3}, {"verbose": "a"}],
)
def test_settings_of_folders_of_another_type_are_named(root, wrong):
    with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
        read(root, **wrong)


@pytest.mark.parametrize(
    "wrong", [{"classes": (0, 256)}, {"foreground": 3}, {"names": (1,)}, {"colours": ((1, 2),)}]
)
def test_a_meaning_of_other_values_is_refused(wrong):
    with pytest.raises(TypeError, match=f"{next(iter(wrong))} is .*give a tuple of"):
        LabelMap(**wrong)
