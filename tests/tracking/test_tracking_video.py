"""Frames in and out, boxes as text and drawn, and measures against counted pixels."""

from __future__ import annotations

import os

import av
import cv2
import numpy as np
import pytest
from av.video.stream import VideoStream
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal, assert_equal
from PIL import Image

from structboost.files.atomic_write import OutputError
from structboost.tracking import video
from structboost.tracking.drawing import TRUTH_COLOUR, contact_sheet, draw_box, tracker_colours
from structboost.tracking.synthetic_clip import make_synthetic_clip
from structboost.tracking.tracks import (
    PRECISION_THRESHOLDS,
    SUCCESS_THRESHOLDS,
    evaluate,
    read_boxes,
    write_boxes,
)
from structboost.tracking.video import VideoError, VideoWriter, open_frames
from structboost.vision.images import letter_boxed

N_FRAMES = 60


def picture(index, size=(64, 48)):
    """A smooth random picture, different for each index."""
    coarse = np.random.default_rng(index).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    return cv2.resize(coarse, size)


def write_video(path, n_frames=N_FRAMES):
    with VideoWriter(path, fps=20) as writer:
        for index in range(n_frames):
            writer.write(picture(index))
    return path


def read_until_error(source):
    """Number of frames given before the error, and the error."""
    indices = []

    def read():
        with open_frames(source) as frames:
            indices.extend(index for index, _ in frames)

    with pytest.raises(VideoError) as caught:
        read()
    assert str(source) in str(caught.value)
    assert indices == list(range(len(indices)))
    return len(indices), str(caught.value)


@pytest.mark.parametrize("suffix", [".avi", ".mkv", ".webm", ".MP4"])
def test_video_round_trip(tmp_path, suffix):
    path = write_video(tmp_path / f"clip{suffix}")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    with open_frames(path) as frames:
        assert abs(frames.frame_count - N_FRAMES) < 2
        assert frames.fps == pytest.approx(20)
        whole = [(index, image, frames.time) for index, image in frames]
    assert [index for index, _, _ in whole] == list(range(N_FRAMES))
    for index, image, seconds in whole:
        assert seconds == pytest.approx(index / 20, abs=2e-3)
        assert np.abs(image.astype(float) - picture(index)).mean() < 12  # the codec loses some
    with open_frames(path, start=55) as frames:
        for (index, image), wanted in zip(frames, whole[55:], strict=True):
            assert_equal((index, image, frames.time), wanted)
    with pytest.raises(VideoError, match="has 60 frames, so frame 61 cannot be read"):
        list(open_frames(path, start=61))
    frames = open_frames(path)
    next(frames)
    frames.close()
    assert list(frames) == []


@pytest.mark.skipif(
    not hasattr(VideoStream, "set_display_rotation"), reason="this PyAV writes no rotation"
)
@pytest.mark.parametrize("angle", [90, 180, -90])
def test_video_frames_are_rotated_by_the_metadata_of_the_camera(tmp_path, angle):
    path = tmp_path / "clip.mp4"
    with av.open(path, "w") as container:
        stream = container.add_stream("h264", rate=20)
        stream.width, stream.height = 64, 48
        stream.set_display_rotation(angle)
        for index in range(3):
            frame = av.VideoFrame.from_ndarray(picture(index), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    for index, image in open_frames(path):
        wanted = np.rot90(picture(index), angle // 90)
        assert np.abs(image.astype(float) - wanted).mean() < 12
    turned_by_opencv = cv2.VideoCapture(str(path)).read()[1]
    assert turned_by_opencv.shape == image.shape


def test_colours_are_rgb_in_and_out(tmp_path):
    red = np.full((48, 64, 3), (220, 0, 0), np.uint8)
    Image.fromarray(red).save(tmp_path / "0.png")
    with VideoWriter(tmp_path / "red.avi") as writer:
        writer.write(red)
    _, by_opencv = cv2.VideoCapture(str(tmp_path / "red.avi")).read()
    images = [next(open_frames(source))[1] for source in (tmp_path / "red.avi", tmp_path)]
    for image in (*images, by_opencv[..., ::-1]):
        assert image[..., 0].min() > image[..., 1:].max() + 100
    head = make_synthetic_clip(1).frames[0][:60, :80].mean(axis=(0, 1))
    assert head[0] > head[2]  # the coffee table is brown


def test_folders_and_patterns_of_images_are_read_in_natural_order(tmp_path):
    inner = tmp_path / "sequence" / "img"
    inner.mkdir(parents=True)
    for index in (10, 2, 1):
        image = picture(index, size=(64 + index, 48))
        assert cv2.imwrite(str(inner / f"{index}.png"), image[:, :, 0] if index == 2 else image)
    (inner / "notes.txt").write_text("not a frame")
    (inner / "._1.png").write_bytes(b"another system's side file")
    patterns = [str(inner / name) for name in ("%d.png", "%04d.png", "*.png", "[0-9]*.png")]
    for source in (inner, inner.parent, str(inner), *patterns):
        frames = open_frames(source)
        assert (frames.frame_count, frames.fps, frames.time) == (3, None, None)
        assert [image.shape for _, image in frames] == [(48, 65, 3), (48, 66), (48, 74, 3)]
        assert list(frames) == []  # each frame once
        assert [index for index, _ in open_frames(source, start=1)] == [1, 2]
    cv2.imwrite(str(inner / "a_1.png"), picture(0))
    assert open_frames(str(inner / "a_%d.png")).frame_count == 1


def zeros_in_frame_20(path):
    data = bytearray(path.read_bytes())
    # The first is in the header.
    frames = [at for at in range(len(data)) if data.startswith(b"00dc", at)][1:]
    data[frames[20] + 8 : frames[21]] = bytes(frames[21] - frames[20] - 8)
    path.write_bytes(data)


def zeros_in_the_middle(path):
    data = bytearray(path.read_bytes())
    with av.open(str(path)) as container:
        packets = list(container.demux(container.streams.video[0]))
    for packet in packets[30:33]:
        data[packet.pos : packet.pos + packet.size] = bytes(packet.size)
    path.write_bytes(data)


def zeros_at_the_end(path):
    """Keep the index of an .mp4, as in an incomplete download."""
    data = path.read_bytes()
    middle, index = data.index(b"moov") // 2, data.index(b"moov") - 4
    path.write_bytes(data[:middle] + bytes(index - middle) + data[index:])


def cut(path):
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * 0.4)])


@pytest.fixture(params=["one core", "all cores"])
def _cores(request):
    """The decoder has a thread for each core, and then holds that many frames more."""
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("the system does not let a thread choose its cores")
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores if request.param == "all cores" else {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


@pytest.mark.usefixtures("_cores")
@pytest.mark.parametrize(
    ("suffix", "damage", "fewest", "most"),
    [
        (".avi", cut, 11, 39),
        (".mkv", cut, 11, 39),
        (".avi", zeros_in_frame_20, 20, 20),
        (".mp4", zeros_in_the_middle, 21, 30),
        (".mp4", zeros_at_the_end, 11, 49),
    ],
)
def test_damaged_video_yields_the_frames_before_the_damage(tmp_path, suffix, damage, fewest, most):
    path = write_video(tmp_path / f"clip{suffix}")
    damage(path)
    n_frames, message = read_until_error(path)
    assert fewest <= n_frames <= most
    assert f"frame {n_frames} " in message
    assert "damaged" in message


@pytest.mark.parametrize(("first", "last"), [(10, N_FRAMES), (0, 35)])
def test_frames_hidden_by_an_edit_list_are_no_damage(tmp_path, first, last):
    """A phone gives an .mp4 an edit list that shows some of its frames only."""
    path = write_video(tmp_path / "clip.mp4")
    data = bytearray(path.read_bytes())
    edit, media, movie = (data.index(name) for name in (b"elst", b"mdhd", b"mvhd"))
    begin, movie_scale, media_scale = (
        int.from_bytes(data[at : at + 4], "big") for at in (edit + 16, movie + 16, media + 16)
    )
    length = (last - first) * movie_scale // 20
    start = begin + first * media_scale // 20
    for at, value in ((edit + 12, length), (edit + 16, start), (movie + 20, length)):
        data[at : at + 4] = value.to_bytes(4, "big")
    path.write_bytes(data)
    with open_frames(path) as frames:
        assert len(list(frames)) == last - first


def test_sources_without_a_frame_are_refused(tmp_path):
    path = write_video(tmp_path / "clip.mp4")
    cut(path)  # an .mp4 has its index at the end
    (tmp_path / "a" / "img").mkdir(parents=True)
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_bytes(b"no video at all " * 100)
    (tmp_path / "boxes.txt").write_bytes(b"1,2,3,4\n" * 500)
    for name, message in (
        ("clip.mp4", "frame 0 cannot be read"),
        ("empty.mp4", "frame 0 cannot be read"),
        ("text.mp4", "not a video"),
        ("boxes.txt", "holds text or sound only"),
        ("no.mp4", "does not exist, so frame 0"),
        ("a", "No image fits"),
        ("a/*.png", "No image fits"),
    ):
        assert message in read_until_error(tmp_path / name)[1]
    with pytest.raises(ValueError, match="start is -1; give a frame's index"):
        open_frames(tmp_path, start=-1)


def test_a_frame_in_two_formats_is_named(tmp_path):
    for name in ("1.png", "2.png", "2.jpg", "10.png"):
        cv2.imwrite(str(tmp_path / name), picture(0))
    for source in (tmp_path, tmp_path / "*"):
        with pytest.raises(VideoError, match=r"2.jpg and .*2.png may be the same frame; remove"):
            open_frames(source)
    assert [index for index, _ in open_frames(tmp_path / "*.png")] == [0, 1, 2]


@pytest.mark.parametrize("content", [b"", b"not an image", None])
def test_unreadable_image_is_named(tmp_path, content):
    for index in range(5):
        cv2.imwrite(str(tmp_path / f"{index}.png"), picture(index))
    bad = tmp_path / "3.png"
    bad.write_bytes(bad.read_bytes()[:200] if content is None else content)
    n_frames, message = read_until_error(tmp_path)
    assert n_frames == 3
    assert "frame 3 cannot be read from 3.png" in message
    assert "Replace or remove" in message


class FakeCamera:
    """Three frames, then nothing."""

    def __init__(self, index):
        self.left, self.opened = 3, index == 0

    def isOpened(self):
        return self.opened

    def get(self, _):
        return 30.0

    def read(self):
        self.left -= 1
        return self.left >= 0, picture(0)

    def release(self):
        self.opened = False


@pytest.mark.parametrize("source", [0, "0"])
def test_camera_frames_have_indices_and_times(monkeypatch, source):
    monkeypatch.setattr(cv2, "VideoCapture", FakeCamera)
    frames = open_frames(source, start=1)
    assert (frames.frame_count, frames.fps, frames.source) == (None, 30.0, "camera 0")
    indices = []
    with pytest.raises(VideoError, match="camera 0 stopped before frame 3"):
        indices.extend(index for index, _ in frames)
    assert next(open_frames(source, start=1))[0] == 1
    with pytest.raises(VideoError, match="camera 7: frame 0 cannot be read"):
        open_frames(7)


def test_written_frames_survive_an_exception(tmp_path):
    path = tmp_path / "out.mp4"
    path.write_bytes(b"an older file")

    def write_until_interrupted():
        with VideoWriter(path) as writer:
            for index in range(7):
                writer.write(picture(index))
                assert path.read_bytes() == b"an older file"  # whole until the new one is
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_until_interrupted()
    assert len(list(open_frames(path))) == 7
    assert [file.name for file in tmp_path.iterdir()] == ["out.mp4"]


def test_a_closed_or_empty_video_is_not_written(tmp_path):
    path = write_video(tmp_path / "out.mkv", 3)
    before = path.read_bytes()
    with VideoWriter(path) as writer:
        pass
    with pytest.raises(VideoError, match=r"out.mkv is closed after 0 frames; make another"):
        writer.write(picture(1))
    writer.close()
    assert path.read_bytes() == before


def test_other_sizes_are_letter_boxed(tmp_path):
    path = tmp_path / "out.avi"
    with VideoWriter(path) as writer:
        writer.write(np.full((48, 63), 200, np.uint8))
        writer.write(np.full((96, 64, 3), 200, np.uint8))
        assert (writer.size, writer.n_frames) == ((64, 48), 2)
    _, (_, second) = open_frames(path)
    assert second.shape == (48, 64, 3)
    assert second[:, 20:44].min() > 180
    assert second[:, [*range(12), *range(52, 64)]].max() < 30
    place = letter_boxed(np.full((10, 40), 9, np.uint8), (20, 20))
    assert (place.scale, place.offset) == (0.5, (0, 7))
    assert_array_equal(place.image[:, :, 1].any(axis=1), (np.arange(20) - 7) // 5 == 0)


def test_bad_output_fails_before_the_first_frame(tmp_path):
    (tmp_path / "folder.mp4").mkdir()
    for name, fps, error, message in (
        ("out.xyz", 25, VideoError, r"suffix '.xyz'; choose one of .mp4"),
        ("no/out.mp4", 25, OutputError, "a folder that exists"),
        ("folder.mp4", 25, OutputError, "is a folder"),
        ("out.mp4", 0, ValueError, "fps is 0"),
    ):
        with pytest.raises(error, match=message):
            VideoWriter(tmp_path / name, fps=fps)
    with (
        VideoWriter(tmp_path / "out.mp4") as writer,
        pytest.raises(ValueError, match="frame 0 is float64 of shape"),
    ):
        writer.write(np.zeros((4, 4)))


def test_the_next_codec_is_taken_where_one_is_missing(tmp_path, monkeypatch):
    def codecs(path):
        with VideoWriter(path) as writer:
            writer.write(picture(0))
        with av.open(path) as container:
            return writer.codec, container.streams.video[0].codec.name

    assert codecs(tmp_path / "a.mp4") == ("H.264", "h264")
    unknown, second = ("no such codec", *video._H264[0][1:]), video._H264[1]
    monkeypatch.setitem(video._ENCODINGS, ".mp4", ("mp4", (unknown, second)))
    said, written = codecs(tmp_path / "b.mp4")
    assert said.startswith("MPEG-4 Part 2")
    assert written == "mpeg4"
    monkeypatch.setitem(video._ENCODINGS, ".mp4", ("mp4", (unknown,)))
    with pytest.raises(VideoError, match="cannot encode no such codec at 64x48"):
        codecs(tmp_path / "c.mp4")
    assert not (tmp_path / "c.mp4").exists()


def test_boxes_round_trip_and_a_file_is_whole_or_as_before(tmp_path, monkeypatch):
    boxes = np.array([[1, 2, 3, 4], [0.1, 1 / 3, 1e-9, 1e300], [np.nan] * 4, [-5.5, 0, 7, 8]])
    path = tmp_path / "boxes.txt"
    write_boxes(path, boxes)
    assert path.read_text().splitlines()[::2] == ["1,2,3,4", "NaN,NaN,NaN,NaN"]

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_boxes(path, [[5, 6, 7, 8]])
    assert_array_equal(read_boxes(path), boxes)
    assert [file.name for file in tmp_path.iterdir()] == ["boxes.txt"]


@pytest.mark.parametrize("text", ["1\t2\t3\t4\r\n5 6  7 8\n\n", "\ufeff1, 2 ,3,4\n 5.0,6,7,8 \n"])
def test_boxes_of_other_programs_are_read(tmp_path, text):
    path = tmp_path / "boxes.txt"
    path.write_bytes(text.encode())
    assert_array_equal(read_boxes(path), [[1, 2, 3, 4], [5, 6, 7, 8]])


def test_bad_files_of_boxes_are_refused(tmp_path):
    path = tmp_path / "boxes.txt"
    with pytest.raises(FileNotFoundError, match="no file of boxes"):
        read_boxes(path)
    lines = ("", "1,2,3", "1,2,3,4,5", "1,2,three,4", "1,,3,4", "1,2,NaN,4", "1,2,inf,4")
    for content, message in (
        (b"\n", "is empty"),
        (b"\xff\xfe\x00", "not a text file"),
        *((f"1,2,3,4\n{line}\n5,6,7,8\n".encode(), "boxes.txt, line 2 is") for line in lines),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_boxes(path)
    with pytest.raises(ValueError, match="give four finite numbers in frame 0"):
        write_boxes(path, [[1, 2, 3, np.inf]])


def test_box_is_drawn_on_a_copy():
    image = np.zeros((240, 320), np.uint8)
    drawn = draw_box(image, [100, 80, 50, 40], colour=(1, 2, 3), truth=[10, 20, 30, 40])
    assert not image.any()
    wanted = np.zeros((240, 320), bool)
    wanted[80:120, 100:150] = True
    wanted[82:118, 102:148] = False
    assert_array_equal((drawn == (1, 2, 3)).all(axis=2), wanted)
    assert drawn[20, 10].tolist() == list(TRUTH_COLOUR)


@pytest.mark.parametrize("box", [[np.nan] * 4, [-50, -50, 500, 500], [1e12, 5, 1e12, 5]])
def test_label_stays_in_the_frame(box):
    image = np.zeros((240, 320, 3), np.uint8)
    assert (draw_box(image, box, "0.93") != draw_box(image, box)).any()


def test_contact_sheet_has_all_frames_and_a_legend():
    frames = [
        (0, picture(0), {"b": [5, 5, 20, 20]}),
        (1, picture(1)[..., 0], {"truth": [1, 2, 9, 9]}),
        (2, picture(2, (30, 48)), {}),
    ]
    sheet = contact_sheet(frames, columns=2, tile_width=160)
    assert sheet.shape == (2 * 120 + 18, 320, 3)
    colours = tracker_colours(["b", "truth", "a", "b"])
    assert list(colours) == ["truth", "b", "a"]
    for part, name in ((sheet[240:], "b"), (sheet[240:], "truth"), (sheet[:120, :160], "b")):
        assert (part == colours[name]).all(axis=2).any()
    names = {f"a long name of tracker {index}": [1, 1, 9, 9] for index in range(5)}
    wrapped = contact_sheet([(0, picture(0), names)], tile_width=160)
    assert wrapped.shape[0] == 120 + 5 * 18  # a row for each


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: contact_sheet([]), "frames is empty"),
        (lambda: contact_sheet([(0, picture(0), {})], columns=0), "columns is 0"),
        (lambda: contact_sheet([(3, picture(0), {"a": [1, 2]})]), r"box of a in frame 3 has shape"),
        (lambda: draw_box(np.zeros((4, 4)), [0, 0, 1, 1]), "image is float64"),
        (lambda: draw_box(picture(0), [0, 0, 1, 1], colour=(1, 2, 300)), "colour is"),
    ],
)
def test_drawing_functions_name_bad_arguments(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


corner, side = st.integers(-6, 12), st.integers(1, 12)
integer_boxes = st.tuples(corner, corner, side, side)


def pixels(box):
    x, y, width, height = box
    return {(column, row) for column in range(x, x + width) for row in range(y, y + height)}


@given(st.lists(st.tuples(integer_boxes, integer_boxes), min_size=1, max_size=4))
def test_measures_count_pixels_and_frames(pairs):
    ours, truth = zip(*pairs, strict=True)
    counted = [len(pixels(a) & pixels(b)) / len(pixels(a) | pixels(b)) for a, b in pairs]
    middles = (np.array(boxes)[:, :2] + np.array(boxes)[:, 2:] / 2 for boxes in (ours, truth))
    errors = np.hypot(*np.subtract(*middles).T).tolist()
    measures = evaluate(ours, truth)
    assert measures.overlap.tolist() == counted
    assert measures.centre_error.tolist() == errors
    for threshold, share in zip(SUCCESS_THRESHOLDS, measures.success, strict=True):
        assert share == sum(value > threshold for value in counted) / len(pairs)
    for threshold, share in zip(PRECISION_THRESHOLDS, measures.precision, strict=True):
        assert share == sum(value <= threshold for value in errors) / len(pairs)


def test_unknown_frames_do_not_count():
    unknown = [np.nan] * 4
    truth = [[0, 0, 10, 10], unknown, [0, 0, 10, 10], unknown]
    boxes = [[0, 0, 10, 10], [0, 0, 1, 1], [30, 0, 10, 10], unknown]
    measures = evaluate(boxes, truth)
    assert_array_equal(measures.overlap, [1, np.nan, 0, np.nan])
    assert_array_equal(measures.centre_error, [0, np.nan, 30, np.nan])
    assert (measures.n_known, measures.mean_overlap, measures.mean_centre_error) == (2, 0.5, 15)
    assert measures.success.tolist() == [0.5] * 20 + [0]  # no overlap is above 1
    assert measures.success_auc == pytest.approx(10 / 21)
    assert measures.precision.tolist() == [0.5] * 30 + [1] * 21
    assert measures.precision_at_20 == 0.5


GOOD = [[0, 0, 5, 5], [0, 0, 5, 5]]


@pytest.mark.parametrize(
    ("boxes", "truth", "message"),
    [
        ([[0, 0, 5, 5], [0, 0, 0, 5]], GOOD, r"boxes\[1\] is .* above 0 in frame 1"),
        (GOOD, [[0, 0, 5, 5], [0, 0, 5, -1]], r"truth\[1\] is .* above 0 in frame 1"),
        ([[0, 0, 5, 5], [np.nan] * 4], GOOD, r"boxes\[1\] is unknown, but the truth of frame 1"),
        ([[0, 0, 5, 5], [0, np.inf, 5, 5]], GOOD, r"boxes\[1\] is .* four finite numbers"),
        (GOOD[:1], GOOD, "boxes has 1 frames and truth 2"),
        (GOOD, [[np.nan] * 4] * 2, "unknown in all 2 frames"),
    ],
)
def test_evaluate_names_bad_boxes(boxes, truth, message):
    with pytest.raises(ValueError, match=message):
        evaluate(boxes, truth)
