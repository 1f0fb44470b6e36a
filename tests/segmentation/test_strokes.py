"""Strokes alone: what they give, and how they are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from structboost.cli import main
from structboost.segmentation import StrokeSegmenter, make_synthetic_images
from structboost.segmentation.image_files import read_mask, write_png
from structboost.segmentation.stroke_drawing import Event, StrokeSession

QUICK = StrokeSegmenter(n_segments=300)


def test_strokes_cut_out_an_object_of_their_colour():
    made = make_synthetic_images(4, random_state=5)
    found = [QUICK.predict(i, s) for i, s in zip(made.images, made.scribbles, strict=True)]
    assert np.mean([f == m for f, m in zip(found, made.masks, strict=True)]) > 0.93
    mask, chances = QUICK.mask_and_probabilities(made.images[0], made.scribbles[0])
    np.testing.assert_array_equal(mask, found[0])
    np.testing.assert_array_equal(chances.argmax(axis=2), mask)
    strokes = made.scribbles[0]
    assert (mask[strokes == 1] == 1).mean() > 0.9


def test_strokes_use_paths_where_colours_are_equal():
    """Two discs of one colour on grey: the one with the stroke is the object."""
    y, x = np.indices((100, 200))
    image = np.full((100, 200, 3), 128, np.uint8)
    discs = [np.hypot(x - centre, y - 50) < 30 for centre in (50, 150)]
    image[discs[0] | discs[1]] = (200, 40, 40)
    strokes = np.zeros((100, 200), np.uint8)
    strokes[48:52, 40:60] = 1
    strokes[48:52, 140:160] = 2
    strokes[5, 10:190] = 2
    found = QUICK.predict(image, strokes)
    assert (found[discs[0]] == 1).mean() > 0.95
    assert (found[discs[1]] == 0).mean() > 0.95


@pytest.mark.parametrize("shape", [(1, 2), (5, 300), (700, 40)])
def test_stroke_segmenter_accepts_images_of_any_size(shape):
    image = np.random.default_rng(0).integers(0, 256, size=(*shape, 3)).astype(np.uint8)
    strokes = np.zeros(shape, np.uint8)
    strokes[:, 0], strokes[:, -1] = 1, 2
    assert StrokeSegmenter(30, longest=500).predict(image, strokes).shape == shape
    with pytest.raises(ValueError, match="needs strokes on the object"):
        QUICK.predict(image, np.minimum(strokes, 1))
    with pytest.raises(ValueError, match="one size"):
        QUICK.predict(image, strokes[:, 1:])


class Hand:
    """A screen whose user does what a list says."""

    def __init__(self, events):
        self.waiting, self.shown = list(events), []

    def show(self, picture):
        self.shown.append(picture)

    def events(self):
        return [self.waiting.pop(0)]


def stroke(value, *places):
    yield Event("begin", places[0], value)
    for place in places[1:]:
        yield Event("move", place, value)
    yield Event("end", places[-1], value)


@pytest.mark.slow
def test_stroke_session_draws_corrects_and_saves(monkeypatch, tmp_path):
    image = np.full((60, 90, 3), 90, np.uint8)
    image[20:40, 30:60] = (220, 180, 30)
    session = StrokeSession(image, segmenter=QUICK)
    assert session.mask is None
    hand = Hand(
        [
            *stroke(1, (0.4, 0.5), (0.6, 0.5)),
            *stroke(1, (0.1, 0.1), (0.9, 0.1)),  # by mistake
            Event("undo"),
            *stroke(2, (0.1, 0.1), (0.9, 0.1)),
            Event("save"),
        ]
    )
    assert session.run(hand)
    truth = np.zeros((60, 90), np.uint8)
    truth[20:40, 30:60] = 1
    assert (session.mask == truth).mean() > 0.97
    assert (session.scribbles[5:7, 10:80] == 2).any()
    assert len(hand.shown) == 1 + 10
    assert not np.array_equal(hand.shown[-1], hand.shown[0])
    session.clear()
    session.update()
    assert session.mask is None
    assert not session.run(Hand([Event("leave")]))

    write_png(tmp_path / "x.png", image)
    again = [*stroke(1, (0.4, 0.5), (0.6, 0.5)), *stroke(2, (0.1, 0.1), (0.9, 0.1)), Event("save")]
    monkeypatch.setattr("structboost.segmentation.command.MouseScreen", lambda title: Hand(again))
    assert main(["segment", "draw", str(tmp_path / "x.png"), "--out", str(tmp_path / "o")]) == 0
    assert (read_mask(tmp_path / "o/x.png") == 255 * truth).mean() > 0.97
    assert set(np.unique(read_mask(tmp_path / "o/x-scribbles.png"))) == {0, 1, 2}
    monkeypatch.setattr(
        "structboost.segmentation.command.MouseScreen", lambda title: Hand([Event("leave")])
    )
    assert main(["segment", "draw", str(tmp_path / "x.png"), "--out", str(tmp_path / "o")]) == 1


def test_drawing_without_a_display_raises_a_clear_error(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("structboost.segmentation.stroke_drawing.has_display", lambda: False)
    write_png(tmp_path / "x.png", np.zeros((5, 5, 3), np.uint8))
    assert main(["segment", "draw", str(tmp_path / "x.png"), "--out", str(tmp_path / "o")]) == 2
    assert "predict --scribbles" in capsys.readouterr().err
