"""Frames in and out, boxes as text and drawn, and measures against counted pixels."""

import os
from contextlib import contextmanager

import av
import cv2
import numpy as np
import pytest
from av.video.stream import VideoStream
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from PIL import Image

from structboost.files.atomic_write import OutputError
from structboost.tracking.tracks import evaluate, read_boxes
from structboost.tracking.video import VideoError, VideoWriter, open_frames
from structboost.vision.drawing import draw_box
from tests.helpers.refusals import refused

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
    with pytest.raises(VideoError) as caught:
        indices.extend(index for index, _ in open_frames(source))
    assert str(source) in str(caught.value)
    assert indices == list(range(len(indices)))
    return len(indices), str(caught.value)


@pytest.mark.parametrize("suffix", [".mkv", ".MP4"])
def test_video_round_trip(tmp_path, suffix):
    path = write_video(tmp_path / f"clip{suffix}")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    frames = open_frames(path)
    assert abs(frames.frame_count - N_FRAMES) < 2
    assert frames.fps == pytest.approx(20)
    whole = list(frames)
    assert [index for index, _ in whole] == list(range(N_FRAMES))
    for index, image in whole:
        assert np.abs(image.astype(float) - picture(index)).mean() < 12  # the codec loses some
    with av.open(path) as container:
        assert container.streams.video[0].codec.name == "h264"


@contextmanager
def encoded(path, times):
    """The stream of a video of pictures at some times, which are multiples of 1/20 second."""
    with av.open(path, "w") as container:
        stream = container.add_stream("h264", rate=20)
        stream.width, stream.height = 64, 48
        yield stream
        for index, time in enumerate(times):
            frame = av.VideoFrame.from_ndarray(picture(index), format="rgb24")
            frame.pts = time
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


@pytest.mark.parametrize("rest", [(), range(50, 900, 30)])
def test_a_video_of_variable_rate_is_whole(tmp_path, rest):
    times = [*range(20), 40, *rest]
    with encoded(tmp_path / "clip.mkv", times):
        pass
    assert len(list(open_frames(tmp_path / "clip.mkv"))) == len(times)


@pytest.mark.skipif(
    not hasattr(VideoStream, "set_display_rotation"), reason="this PyAV writes no rotation"
)
@pytest.mark.parametrize("angle", [90, 180, -90])
def test_video_frames_are_rotated_by_the_metadata_of_the_camera(tmp_path, angle):
    path = tmp_path / "clip.mp4"
    with encoded(path, range(3)) as stream:
        stream.set_display_rotation(angle)
    for index, image in open_frames(path):
        wanted = np.rot90(picture(index), angle // 90)
        assert np.abs(image.astype(float) - wanted).mean() < 12


def test_colours_are_rgb_in_and_out(tmp_path):
    red = np.full((48, 64, 3), (220, 0, 0), np.uint8)
    Image.fromarray(red).save(tmp_path / "0.png")
    with VideoWriter(tmp_path / "red.mp4") as writer:
        writer.write(red)
    _, by_opencv = cv2.VideoCapture(str(tmp_path / "red.mp4")).read()
    images = [next(open_frames(source))[1] for source in (tmp_path / "red.mp4", tmp_path)]
    for image in (*images, by_opencv[..., ::-1]):
        assert image[..., 0].min() > image[..., 1:].max() + 100


def test_folders_of_images_are_read_in_natural_order(tmp_path):
    inner = tmp_path / "sequence" / "img"
    inner.mkdir(parents=True)
    for index in (10, 2, 1):
        image = picture(index, size=(64 + index, 48))
        assert cv2.imwrite(str(inner / f"{index}.png"), image[:, :, 0] if index == 2 else image)
    (inner / "notes.txt").write_text("not a frame")
    (inner / "._1.png").write_bytes(b"another system's side file")
    for source in (inner, inner.parent, str(inner)):
        frames = open_frames(source)
        assert (frames.frame_count, frames.fps) == (3, None)
        assert [image.shape for _, image in frames] == [(48, 65, 3), (48, 66), (48, 74, 3)]
        assert list(frames) == []  # each frame once


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
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * 0.9)])


@pytest.mark.parametrize(
    ("suffix", "damage", "fewest", "most"),
    [
        (".mkv", cut, 49, 56),
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
    assert len(list(open_frames(path))) == last - first


def test_sources_without_a_frame_are_refused(tmp_path):
    path = write_video(tmp_path / "clip.mp4")
    cut(path)  # an .mp4 has its index at the end
    (tmp_path / "a" / "img").mkdir(parents=True)
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_bytes(b"no video at all " * 100)
    (tmp_path / "boxes.txt").write_bytes(b"1,2,3,4\n" * 500)
    for name, message in (
        ("clip.mp4", "frame 0 cannot be read"),
        ("empty.mp4", "frame 0 cannot be read"),
        ("text.mp4", "not a video"),
        ("boxes.txt", "holds text or sound only"),
        ("no.mp4", "does not exist, so frame 0"),
        ("loop", "a link that leads nowhere"),
        ("pipe", "is a pipe"),
        ("a", "No image lies in"),
    ):
        assert message in read_until_error(tmp_path / name)[1]


def test_a_frame_in_two_formats_is_named(tmp_path):
    for name in ("1.png", "2.png", "2.jpg", "10.png"):
        cv2.imwrite(str(tmp_path / name), picture(0))
    with pytest.raises(VideoError, match=r"2.jpg and .*2.png may be the same frame; remove"):
        open_frames(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not an image", None])
def test_unreadable_image_is_named(tmp_path, content):
    for index in range(5):
        cv2.imwrite(str(tmp_path / f"{index}.png"), picture(index))
    bad = tmp_path / "3.png"
    bad.write_bytes(bad.read_bytes()[:200] if content is None else content)
    n_frames, message = read_until_error(tmp_path)
    assert n_frames == 3
    assert f"frame 3 cannot be read ({bad} cannot be read as an image" in message


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


def test_frames_of_another_size_are_resized_and_odd_sides_grow(tmp_path):
    path = tmp_path / "out.mp4"
    with VideoWriter(path) as writer:
        writer.write(np.full((47, 63), 200, np.uint8))
        writer.write(np.full((96, 64, 3), 200, np.uint8))
        assert (writer.size, writer.n_frames) == ((64, 48), 2)
    for _, image in open_frames(path):
        assert image.shape == (48, 64, 3)
        assert image.min() > 180


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


@pytest.mark.parametrize("text", ["1\t2\t3\t4\r\n5 6  7 8\n\n", "\ufeff1, 2 ,3,4\n 5.0,6,7,8 \n"])
def test_boxes_of_other_programs_are_read(tmp_path, text):
    path = tmp_path / "boxes.txt"
    path.write_bytes(text.encode())
    assert_array_equal(read_boxes(path), [[1, 2, 3, 4], [5, 6, 7, 8]])


def test_bad_files_of_boxes_are_refused(tmp_path):
    path = tmp_path / "boxes.txt"
    with pytest.raises(FileNotFoundError):
        read_boxes(path)
    lines = ("", "1,2,3", "1,2,3,4,5", "1,2,three,4", "1,,3,4", "1,2,NaN,4", "1,2,inf,4")
    for content in (b"\n", b"\xff\xfe\x00", *(f"1,2,3,4\n{line}\n5,6,7,8\n" for line in lines)):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        refused(r"boxes\.txt", read_boxes, path)
    path.write_text("1,2,3,4\nNaN,NaN,NaN,NaN\n")
    assert_array_equal(read_boxes(path), [[1, 2, 3, 4], [np.nan] * 4])


@pytest.mark.parametrize("box", [[-50, -50, 500, 500], [1e12, 5, 1e12, 5], [100, 80, 50, 40]])
def test_box_is_drawn_on_a_copy_and_its_label_stays_in_the_frame(box):
    image = np.zeros((240, 320), np.uint8)
    drawn = draw_box(image, box, colour=(1, 2, 3))
    assert (draw_box(image, box, "0.93", colour=(1, 2, 3)) != drawn).sum() > 300
    wanted = np.zeros((240, 320), bool)
    wanted[80:120, 100:150] = box[0] == 100
    wanted[82:118, 102:148] = False
    assert_array_equal((drawn == (1, 2, 3)).all(axis=2), wanted)
    assert not image.any()
    assert not draw_box(image, [np.nan] * 4, "0.93").any()
    refused("box has shape", draw_box, image, box[:3])
    assert_array_equal(draw_box(image, box, colour=np.float32((1, 2, 3))), drawn)
    refused("colour", draw_box, image, box, colour=(1, 2))


corner, side = st.integers(-6, 12), st.integers(1, 12)
integer_boxes = st.tuples(corner, corner, side, side)


def pixels(box):
    x, y, width, height = box
    return {(column, row) for column in range(x, x + width) for row in range(y, y + height)}


@given(st.lists(st.tuples(integer_boxes, integer_boxes), min_size=1, max_size=4))
def test_measures_count_pixels_and_frames(pairs):
    ours, truth = zip(*pairs, strict=True)
    counted = [len(pixels(a) & pixels(b)) / len(pixels(a) | pixels(b)) for a, b in pairs]
    steps = np.subtract(ours, truth).astype(float)
    errors = np.hypot(*(steps[:, :2] + steps[:, 2:] / 2).T)
    measures = evaluate(ours, truth)
    assert measures.overlap.tolist() == counted
    assert measures.centre_error.tolist() == errors.tolist()
    shares = [np.mean(measures.overlap > k / 20) for k in range(21)]
    assert measures.success_auc == pytest.approx(np.mean(shares))
    assert measures.precision_at_20 == np.mean(errors <= 20)


def test_unknown_frames_do_not_count():
    unknown = [np.nan] * 4
    truth = [[0, 0, 10, 10], unknown, [0, 0, 10, 10], unknown]
    boxes = [[0, 0, 10, 10], [0, 0, 1, 1], [20, 0, 10, 10], unknown]
    measures = evaluate(boxes, truth)
    assert_array_equal(measures.overlap, [1, np.nan, 0, np.nan])
    assert_array_equal(measures.centre_error, [0, np.nan, 20, np.nan])
    assert (measures.n_known, measures.mean_overlap, measures.mean_centre_error) == (2, 0.5, 10)
    assert measures.precision_at_20 == 1.0


GOOD = [[0, 0, 5, 5], [0, 0, 5, 5]]


@pytest.mark.parametrize(
    ("boxes", "truth", "message"),
    [
        ([[0, 0, 5, 5], [0, 0, 0, 5]], GOOD, r"boxes\[1\] is .* above 0 in frame 1"),
        ([[0, 0, 5, 5], [np.nan] * 4], GOOD, r"boxes\[1\] is unknown, but the truth of frame 1"),
        ([[0, 0, 5, 5], [0, np.inf, 5, 5]], GOOD, r"boxes\[1\] is .* four finite numbers"),
        (GOOD[:1], GOOD, "boxes has 1 frames and truth 2"),
        (GOOD, [[np.nan] * 4] * 2, "unknown in all 2 frames"),
    ],
)
def test_evaluate_names_bad_boxes(boxes, truth, message):
    refused(message, evaluate, boxes, truth)
