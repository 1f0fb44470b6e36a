"""Folders of images and masks: pairs, meaning of the values, and damaged files."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from structboost.segmentation.drawing import contact_sheet, draw_segmentation
from structboost.segmentation.image_files import (
    ImageFileError,
    ReadWhenUsed,
    read_mask,
    read_photograph,
    resized_mask,
    shrink_to,
    write_png,
)
from structboost.segmentation.labelled_folder import read_folder, read_split
from structboost.segmentation.masks import n_labels_of


@pytest.fixture
def folders(tmp_path):
    """Three photographs of 12 x 8 pixels with masks of the classes 0, 1, 3 and void."""
    images, masks = tmp_path / "images", tmp_path / "masks"
    images.mkdir()
    masks.mkdir()
    rng = np.random.default_rng(0)
    for name in ("a", "b", "c"):
        write_png(images / f"{name}.png", rng.integers(0, 256, size=(8, 12, 3)).astype(np.uint8))
        mask = rng.choice([0, 1, 3, 255], size=(8, 12)).astype(np.uint8)
        mask[0, :4] = [0, 1, 3, 255]
        write_png(masks / f"{name}.png", mask)
    return images, masks


def test_folders_of_images_and_masks_are_read_in_pairs(folders):
    found = read_folder(*folders)
    assert [image.name for image in found.images] == ["a", "b", "c"]
    assert found.problems == []
    assert n_labels_of(set(np.unique(found.images[0].mask).tolist())) == 4
    assert "indices" in str(found.meaning)


def test_masks_of_0_and_255_mean_foreground(folders):
    for path in folders[1].iterdir():
        write_png(path, np.where(read_mask(path) == 1, 255, 0).astype(np.uint8))
    found = read_folder(*folders)
    assert "255 is taken for the foreground" in str(found.meaning)
    assert set(np.unique(found.images[0].mask)) == {0, 1}
    np.testing.assert_array_equal(
        found.meaning.values(found.images[0].mask), read_mask(folders[1] / "a.png")
    )


def test_foreground_option_gives_one_class_against_the_rest(folders):
    found = read_folder(*folders, foreground=3)
    mask = read_mask(folders[1] / "a.png")
    np.testing.assert_array_equal(found.images[0].mask == 1, mask == 3)
    np.testing.assert_array_equal(found.images[0].mask == 255, mask == 255)


def break_one(folders, how):
    images, masks = folders
    if how == "unreadable image":
        (images / "b.png").write_bytes(b"this is no picture")
    elif how == "empty image":
        (images / "b.png").write_bytes(b"")
    elif how == "unreadable mask":
        (masks / "b.png").write_bytes((masks / "b.png").read_bytes()[:40])
    elif how == "no mask":
        (masks / "b.png").unlink()
    elif how == "no image":
        (images / "b.png").unlink()
    elif how == "other size":
        write_png(masks / "b.png", np.zeros((5, 6), np.uint8))
    elif how == "rotated mask":
        write_png(masks / "b.png", np.rot90(read_mask(masks / "b.png")).copy())
    elif how == "coloured mask":
        write_png(masks / "b.png", read_photograph(images / "b.png"))
    elif how == "16 bits":
        Image.fromarray(np.full((8, 12), 700, np.uint16)).save(masks / "b.png")
    elif how == "other values":
        write_png(masks / "b.png", np.full((8, 12), 9, np.uint8))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("unreadable image", "cannot be read as an image"),
        ("empty image", "cannot be read as an image"),
        ("unreadable mask", "cannot be read as a mask"),
        ("no mask", "has no mask"),
        ("no image", "mask without an image"),
        ("other size", "6 x 5 pixels, its image b.png 12 x 8"),
        ("rotated mask", "8 x 12 pixels, its image b.png 12 x 8.*EXIF orientation.*exiftool"),
        ("coloured mask", "colour picture"),
        ("16 bits", "values from 700 to 700"),
        ("other values", r"holds the values \[9\]"),
    ],
)
def test_bad_files_of_a_folder_are_named_and_left_out_or_refused(folders, how, message):
    break_one(folders, how)
    found = read_folder(*folders, n_labels=4)
    assert [image.name for image in found.images] == ["a", "c"]
    assert len(found.problems) == 1
    with pytest.raises(ImageFileError, match=message) as caught:
        read_folder(*folders, n_labels=4, strict=True)
    assert "b" in str(caught.value)


def test_folder_without_usable_masks_raises_an_error(folders, tmp_path):
    for path in folders[1].iterdir():
        path.unlink()
    with pytest.raises(ImageFileError, match=r"No image in .* First of 3 problems"):
        read_folder(*folders)
    with pytest.raises(ImageFileError, match="There is no folder"):
        read_folder(tmp_path / "nowhere", folders[1])
    with pytest.raises(ImageFileError, match="There is no folder"):
        read_folder(folders[0], tmp_path / "nowhere")


@pytest.mark.parametrize(("values", "message"), [({0, 255}, "at least two"), ({255}, "void")])
def test_masks_of_a_single_class_raise_an_error(values, message):
    with pytest.raises(ValueError, match=message):
        n_labels_of(values)


def test_pictures_are_read_when_they_are_used(folders):
    found = read_folder(*folders)
    read = []
    pictures = ReadWhenUsed(found.images, lambda image: read.append(image.name) or image.image)
    assert len(pictures) == 3
    assert read == []
    write_png(folders[0] / "b.png", np.full((8, 12, 3), 7, np.uint8))
    assert (pictures[1] == 7).all()
    assert read == ["b"]
    assert len(list(pictures)) == 3


def test_split_files_are_read_and_checked(folders, tmp_path):
    path = tmp_path / "split.txt"
    path.write_text("a\ttrain\nmy photo test\n\nzz train\n")
    split = read_split(path)
    assert split == {"a": "train", "my photo": "test", "zz": "train"}
    found = read_folder(*folders, names=["a", "zz"])
    assert [image.name for image in found.images] == ["a"]
    assert "zz has no image file" in found.problems[0]
    assert [image.name for image in read_folder(*folders, names="aba").images] == ["a", "b", "a"]
    for text, message in (
        ("a trian\n", "line 1"),
        ("train\n", "line 1"),
        ("", "empty"),
        ("a train\na test\n", "line 2 takes a for test, an earlier line for train"),
    ):
        path.write_text(text)
        with pytest.raises(ImageFileError, match=message):
            read_split(path)


def test_masks_with_palette_or_equal_channels_are_read_as_indices(tmp_path):
    values = np.array([[0, 1], [2, 255]], np.uint8)
    picture = Image.fromarray(values, mode="P")
    picture.putpalette(list(range(256)) * 3)
    picture.save(tmp_path / "p.png")
    np.testing.assert_array_equal(read_mask(tmp_path / "p.png"), values)
    write_png(tmp_path / "g.png", np.dstack([values] * 3))
    np.testing.assert_array_equal(read_mask(tmp_path / "g.png"), values)
    Image.fromarray(values > 1).save(tmp_path / "b.png")
    np.testing.assert_array_equal(read_mask(tmp_path / "b.png"), [[0, 0], [255, 255]])
    Image.fromarray((65535 * (values > 1)).astype(np.uint16)).save(tmp_path / "w.png")
    np.testing.assert_array_equal(read_mask(tmp_path / "w.png"), [[0, 0], [255, 255]])
    Image.fromarray(257 * values.astype(np.uint16)).save(tmp_path / "f.png")
    with pytest.raises(ImageFileError, match="values from 0 to 65535"):
        read_mask(tmp_path / "f.png")


def test_written_pictures_are_read_back_unchanged(tmp_path):
    photograph = np.random.default_rng(0).integers(0, 256, size=(30, 60, 3)).astype(np.uint8)
    write_png(tmp_path / "x.png", photograph)
    np.testing.assert_array_equal(read_photograph(tmp_path / "x.png"), photograph)
    assert shrink_to(photograph, 20).shape == (10, 20, 3)
    assert shrink_to(photograph, 100) is photograph
    assert shrink_to(photograph[:1], 10).shape == (1, 10, 3)
    mask = np.arange(8, dtype=np.uint8).reshape(2, 4)
    np.testing.assert_array_equal(resized_mask(resized_mask(mask, (4, 8)), (2, 4)), mask)


def test_drawn_segmentation_shows_the_foreground(tmp_path):
    photograph = np.full((20, 30, 3), 200, np.uint8)
    mask = np.zeros((20, 30), np.uint8)
    mask[5:15, 5:15] = 1
    drawn = draw_segmentation(photograph, mask)
    assert (drawn[8, 8] == 200).all()
    assert (drawn[1, 20] < 120).all()
    many = draw_segmentation(photograph, mask, 3)
    assert not np.array_equal(many[8, 8], many[1, 20])
    sheet = contact_sheet(
        [("x", photograph, {"truth": mask, "found": 1 - mask})] * 2, tile_width=60
    )
    assert sheet.shape == (22 + 2 * 44, 3 * 60 + 2 * 4, 3)
    several = [("x", photograph, {"truth": 2 * mask})]
    assert (contact_sheet(several, 3) != contact_sheet([("x", photograph, {"truth": mask})])).any()
    with pytest.raises(ValueError, match="one size"):
        draw_segmentation(photograph, mask[1:])
    with pytest.raises(ValueError, match="no segmentation named"):
        contact_sheet([("x", photograph, {"truth": mask}), ("y", photograph, {})])
