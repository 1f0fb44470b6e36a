"""The track command from end to end, the synthetic clip, and the adapter for got10k."""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
import signal
import sys
import types
from functools import cache

import cv2
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from structboost.cli import main
from structboost.tracking import StructBoostTracker, make_synthetic_clip
from structboost.tracking.command import box_drawn_by_mouse
from structboost.tracking.tracks import read_boxes, write_boxes
from structboost.tracking.video import VideoWriter, open_frames

N_FRAMES = 12


@cache
def clip():
    return make_synthetic_clip(N_FRAMES)


@cache
def png_files():
    """Frames of the clip as the bytes of files."""
    return [cv2.imencode(".png", frame[:, :, ::-1])[1].tobytes() for frame in clip().frames]


def box_text(index=0):
    return ",".join(map(str, clip().boxes[index]))


@pytest.fixture
def folder(tmp_path):
    """The frames as OTB lays them out."""
    images = tmp_path / "sequence" / "img"
    images.mkdir(parents=True)
    for index, content in enumerate(png_files()):
        (images / f"{index + 1:04d}.png").write_bytes(content)
    return images.parent


def video_of(path):
    with VideoWriter(path, fps=20) as writer:
        for frame in clip().frames:
            writer.write(frame)
    return path


def track(source, *arguments, box=0):
    """Run the command, with files that a test names, and return the exit code."""
    return main(["track", str(source), "--box", box_text(box), *map(str, arguments)])


@pytest.mark.slow
def test_track_command_writes_all_outputs_of_one_object(tmp_path, folder, capsys):
    truth = clip().boxes[:-2].copy()
    truth[5] = np.nan
    write_boxes(tmp_path / "truth.txt", truth)
    out, boxes, summary = (tmp_path / name for name in ("out.mp4", "boxes.txt", "summary.json"))
    files = ["--out", out, "--boxes", boxes, "--json", summary, "--truth", tmp_path / "truth.txt"]
    assert track(folder, *files) == 0
    found = read_boxes(boxes)
    assert found.shape == (N_FRAMES, 4)
    assert_allclose(found[0], clip().boxes[0])
    assert len(list(open_frames(out))) == N_FRAMES
    figures = json.loads(summary.read_text())
    wanted = {"frames": N_FRAMES, "complete": True, "lost_frames": 0}
    assert figures.items() >= wanted.items()
    assert figures["fps"] > 0
    assert figures["mean_overlap"] > 0.8
    assert 0 < figures["centre_error"] < 5
    shown = capsys.readouterr()
    assert f"mean overlap {figures['mean_overlap']:.3f}" in shown.out
    assert "(8 frames)" in shown.out
    assert f"wrote {out}: H.264; 320x240" in shown.out
    assert "The truth has 10 lines, for 12 frames; 10 are compared" in shown.err


@pytest.mark.slow
def test_track_command_without_a_source_tracks_the_synthetic_clip(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("structboost.tracking.command.make_synthetic_clip", clip)
    assert main(["track", "--json", str(tmp_path / "s.json")]) == 0
    figures = json.loads((tmp_path / "s.json").read_text())
    assert "synthetic clip" in figures["source"]
    assert figures["mean_overlap"] > 0.8
    assert figures["objects"][0]["frames"][5]["time"] == 0.2
    assert "synthetic clip" in capsys.readouterr().err
    assert main(["track", "--start", "12"]) == 2
    assert "the synthetic clip has 12 frames" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nowhere.mp4 --box 1,2,30,40", "nowhere.mp4 does not exist"),
        ("sequence --box 1,2,3", "--box is '1,2,3'; give x,y,w,h"),
        ("sequence --box 1,2,0,9", "w and h above 0"),
        ("sequence --box a,b,c,d", "--box is 'a,b,c,d'"),
        ("sequence --box 900,2,30,40", "320 x 240 pixels; give x, y, width, height, a box whose"),
        ("sequence", "give --box x,y,w,h"),
        ("sequence --box 1,2,30,40 --truth none.txt", "no file of boxes none.txt"),
        ("sequence --box 1,2,30,40 --truth t.txt --truth t.txt", "2 --truth for 1 boxes"),
        ("sequence --box 1,2,30,40 --truth empty.mp4", "is empty"),
        ("sequence --box 1,2,30,40 --out clip.xyz", "has the suffix '.xyz'"),
        ("sequence --box 1,2,30,40 --boxes none/b.txt", "none/b.txt cannot be written"),
        ("sequence --box 1,2,30,40 --start 12", "has 12 frames, so frame 12"),
        ("sequence --box 1,2,30,40 --start 3 --end 3", "0 <= start < end"),
        ("sequence --box 1,2,30,40 --seed -1", "--seed is -1"),
        ("sequence --box 1,2,30,40 --show", "--show needs a display"),
        ("sequence --box 1,2,30,40 --plot p.bmp", "--plot p.bmp must end in"),
        ("sequence/img/none_%03d.png --box 1,2,30,40", "No image fits sequence/img/none_%03d"),
        ("sequence --box 1,2,30,40 --box 9,9,9,9 --boxes b.txt", "give a file that ends in .csv"),
        ("empty.mp4 --box 1,2,30,40", "frame 0 cannot be read"),
        ("sequence --box 1,2,9,9 --boxes sequence/img/0003.png", "0003.png, which is read"),
        ("sequence --box 1,2,9,9 --truth t.txt --boxes t.txt", "t.txt, which is read"),
        ("sequence --box 1,2,9,9 --boxes both --json both", "is also the file of --boxes"),
    ],
)
def test_track_command_names_bad_input(arguments, message, tmp_path, folder, capsys, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "empty.mp4").write_bytes(b"")
    write_boxes(tmp_path / "t.txt", clip().boxes)
    monkeypatch.chdir(tmp_path)
    # The tracker's own check comes after its code is compiled.
    monkeypatch.setattr("structboost.tracking.command.warm_up", lambda _: None)
    assert main(["track", *arguments.split()]) == 2
    assert message in capsys.readouterr().err
    # Nothing was left behind.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.mp4", "sequence", "t.txt"]
    assert len(read_boxes("t.txt")) == N_FRAMES


def test_track_command_never_overwrites_its_source(tmp_path, capsys, monkeypatch):
    source = video_of(tmp_path / "clip.mp4")
    before = source.read_bytes()
    (tmp_path / "link.mp4").symlink_to(source)
    monkeypatch.chdir(tmp_path)
    for option in ("--out", "--boxes", "--json"):
        for read, written in ((source, "link.mp4"), ("link.mp4", "clip.mp4")):
            assert track(read, option, written) == 2
            message = f"{option} {written} would overwrite {read}, which is read"
            assert message in capsys.readouterr().err
    assert source.read_bytes() == before
    assert (tmp_path / "link.mp4").is_symlink()


@pytest.mark.slow
def test_track_command_writes_the_frames_before_a_bad_one(tmp_path, folder, capsys):
    (folder / "img" / "0008.png").write_bytes(b"not an image")
    boxes, summary, out = (tmp_path / name for name in ("b.txt", "s.json", "out.avi"))
    assert track(folder, "--boxes", boxes, "--json", summary, "--out", out) == 1
    assert "frame 7 cannot be read from 0008.png" in capsys.readouterr().err
    assert len(read_boxes(boxes)) == len(list(open_frames(out))) == 7
    figures = json.loads(summary.read_text())
    # There is no truth.
    wanted = {"frames": 7, "complete": False, "mean_overlap": None, "centre_error": None}
    assert figures.items() >= wanted.items()


@pytest.mark.slow
def test_track_command_writes_the_frames_before_ctrl_c(tmp_path, folder, capsys, monkeypatch):
    update = StructBoostTracker.update
    handler = signal.getsignal(signal.SIGINT)

    def pressed_meanwhile(self, frame):
        if self.n_frames == 6 and frame.shape[0] == 240:
            os.kill(os.getpid(), signal.SIGINT)
        return update(self, frame)

    monkeypatch.setattr(StructBoostTracker, "update", pressed_meanwhile)
    assert track(folder, "--boxes", tmp_path / "b.txt") == 130
    assert "interrupted after 7 frames, which are written" in capsys.readouterr().err
    assert len(read_boxes(tmp_path / "b.txt")) == 7
    assert signal.getsignal(signal.SIGINT) is handler
    monkeypatch.setattr(
        "structboost.tracking.command.warm_up", lambda _: os.kill(os.getpid(), signal.SIGINT)
    )
    assert track(folder, "--boxes", tmp_path / "none.txt") == 130
    assert "interrupted before the first frame" in capsys.readouterr().err
    assert not (tmp_path / "none.txt").exists()


@pytest.mark.slow
def test_user_draws_the_box_where_there_is_a_display(tmp_path, folder, monkeypatch, capsys):
    drawn = np.rint(clip().boxes[0])
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(cv2, "selectROI", lambda *_, **__: tuple(drawn.astype(int)))
    monkeypatch.setattr(cv2, "destroyWindow", lambda _: None)
    boxes = tmp_path / "b.txt"
    command = ["track", str(folder), "--boxes", str(boxes), "--end", "2"]
    assert main(command) == 0
    # What is printed repeats the run; and a box may begin left of the frame.
    printed = capsys.readouterr().err.split("--box ")[1].split()[0]
    for more, wanted in (
        ([], drawn),
        (["--box", printed], drawn),
        (["--box", "-4,-4,30,30"], [-4, -4, 30, 30]),
    ):
        assert main(command + more) == 0
        found = read_boxes(boxes)
        assert len(found) == 2
        assert_array_equal(found[0], wanted)


def test_box_drawn_in_a_shrunk_window_is_scaled_to_the_frame(monkeypatch):
    shown = []

    def drawn(_, image, **__):
        shown.append(image.shape)
        return 10, 20, 30, 40

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(cv2, "selectROI", drawn)
    monkeypatch.setattr(cv2, "destroyWindow", lambda _: None)
    box = box_drawn_by_mouse(np.zeros((2160, 3840, 3), np.uint8))
    assert shown[0][0] <= 720
    assert shown[0][1] <= 1280
    assert_allclose(box, 2160 / shown[0][0] * np.array([10, 20, 30, 40]), atol=0.2)
    monkeypatch.setattr(cv2, "selectROI", lambda *_, **__: (0, 0, 0, 0))
    with pytest.raises(ValueError, match="none was drawn; give --box"):
        box_drawn_by_mouse(np.zeros((20, 30), np.uint8))


@pytest.mark.slow
def test_track_command_follows_several_objects_in_a_range_of_frames(tmp_path, folder, capsys):
    write_boxes(tmp_path / "truth.txt", clip().boxes)
    table, summary, plot = (tmp_path / name for name in ("b.csv", "s.json", "p.svg"))
    options = f"--box 10,150,60,50 --start 3 --end 8 --seed 7 --truth {tmp_path}/truth.txt".split()
    files = ["--boxes", table, "--json", summary, "--plot", plot]
    assert track(folder / "img" / "%04d.png", *options, *files, box=3) == 0
    rows = list(csv.DictReader(table.open()))
    assert [(row["frame"], row["object"]) for row in rows] == [
        (str(frame), index) for frame in range(3, 8) for index in "12"
    ]
    assert rows[0]["time"] == ""  # images have none
    figures = json.loads(summary.read_text())
    assert figures["settings"].items() >= {"random_state": 7, "C": 30.0}.items()
    assert figures.items() >= {"start": 3, "end": 8, "frames": 5}.items()
    assert figures["boxes"][1] == [10, 150, 60, 50]
    first, second = figures["objects"]
    assert first["mean_overlap"] > 0.7
    assert second["mean_overlap"] is None
    assert first["frames"][0]["box"] == np.round(clip().boxes[3], 4).tolist()
    names = "x y width height confidence lost angle".split()
    for frame, row in zip(first["frames"], rows[::2], strict=True):
        written = [*frame["box"], frame["confidence"], frame["lost"], frame["angle"]]
        assert written == [float(row[name]) for name in names]
    assert "centre error" in plot.read_text()
    shown = capsys.readouterr()
    assert "object 2: lost in" in shown.out
    assert "are compared" not in shown.err


@pytest.mark.slow
def test_a_video_on_standard_input_has_times(tmp_path, monkeypatch):
    table = tmp_path / "b.csv"
    with video_of(tmp_path / "clip.mp4").open("rb") as file:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
        assert track("-", "--start", "1", "--end", "4", "--boxes", table) == 0
    times = [float(row["time"]) for row in csv.DictReader(table.open())]
    assert_allclose(times, [0.05, 0.1, 0.15])  # 20 frames per second


@pytest.mark.slow
def test_window_of_the_track_command_closes_by_a_key(tmp_path, folder, monkeypatch):
    shown = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(cv2, "imshow", lambda _, image: shown.append(image.shape))
    monkeypatch.setattr(cv2, "waitKey", lambda _: ord("q") if len(shown) == 3 else -1)
    monkeypatch.setattr(cv2, "getWindowProperty", lambda *_: 1.0)
    monkeypatch.setattr(cv2, "destroyAllWindows", lambda: shown.append("destroyed"))
    assert track(folder, "--show", "--json", tmp_path / "s.json") == 0
    assert shown == [(240, 320, 3)] * 3 + ["destroyed"]
    figures = json.loads((tmp_path / "s.json").read_text())
    assert (figures["frames"], figures["complete"]) == (3, False)


def test_command_prints_its_version_and_its_options(capsys):
    for words, text in ((["--version"], "structboost "), (["track", "--help"], "--box X,Y,W,H")):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        assert text in capsys.readouterr().out


def test_ctrl_c_during_imports_prints_one_line(monkeypatch, capsys):
    def interrupted(module):
        raise KeyboardInterrupt

    monkeypatch.setattr("structboost.cli.importlib.import_module", interrupted)
    assert main(["track", "clip.mp4"]) == 130
    assert capsys.readouterr().err == "structboost track: interrupted.\n"


@pytest.mark.slow
def test_synthetic_clip_is_the_same_each_time():
    clip, again = make_synthetic_clip(20), make_synthetic_clip(12)
    assert_array_equal(again.frames, clip.frames[:12])
    assert_array_equal(again.boxes, clip.boxes[:12])


@pytest.mark.slow
def test_true_boxes_hold_an_object_that_moves_grows_and_hides(monkeypatch):
    clip = make_synthetic_clip()
    # The package has a function of the name of the module.
    module = sys.modules["structboost.tracking.synthetic_clip"]
    monkeypatch.setattr(module, "_lay_over", lambda *_: None)
    without = make_synthetic_clip()
    for frame, empty, box in zip(clip.frames, without.frames, clip.boxes, strict=True):
        places = np.argwhere((frame != empty).any(axis=2))[:, ::-1]
        assert (places.min(axis=0) >= box[:2] - 1).all()
        assert (places.max(axis=0) <= box[:2] + box[2:]).all()
        assert np.ptp(places[:, 1]) > 0.9 * box[3]  # all of its height, even behind the post
    centres = clip.boxes[:, :2] + clip.boxes[:, 2:] / 2
    assert np.hypot(*np.diff(centres, axis=0).T).max() < 12
    assert np.ptp(centres, axis=0).min() > 60
    assert clip.boxes[:, 2].max() / clip.boxes[:, 2].min() > 1.4
    assert 0.5 < clip.visible.min() < 0.7
    assert 10 < (clip.visible < 1).sum() < 60


def test_synthetic_clip_of_any_seed_starts_with_the_whole_object_visible():
    clips = [make_synthetic_clip(1, random_state=seed) for seed in range(6)]
    assert [clip.visible[0] for clip in clips] == [1] * 6
    assert len(np.unique([clip.boxes[0] for clip in clips], axis=0)) == 6


class Tracker:
    """Tracker of got10k 0.1, with the methods that its experiments call."""

    def __init__(self, name, is_deterministic=False):
        self.name, self.is_deterministic = name, is_deterministic

    def track(self, img_files, box, visualize=False):
        boxes = np.zeros((len(img_files), 4))
        for number, file in enumerate(img_files):
            image = Image.open(file)
            if image.mode != "RGB":
                image = image.convert("RGB")
            if number == 0:
                self.init(image, box)
                boxes[0] = box
            else:
                boxes[number] = self.update(image)
        return boxes, np.zeros(len(img_files))


@pytest.fixture
def example(monkeypatch):
    toolkit, trackers = types.ModuleType("got10k"), types.ModuleType("got10k.trackers")
    trackers.Tracker = Tracker
    monkeypatch.setitem(sys.modules, "got10k", toolkit)
    monkeypatch.setitem(sys.modules, "got10k.trackers", trackers)
    monkeypatch.delitem(sys.modules, "examples.got10k_tracker", raising=False)
    yield importlib.import_module("examples.got10k_tracker")
    sys.modules.pop("examples.got10k_tracker", None)


@pytest.mark.slow
def test_got10k_toolkit_receives_the_boxes_of_the_tracking_loop(example, tmp_path):
    clip = make_synthetic_clip(3)
    files = []
    for number, frame in enumerate(clip.frames):
        files.append(str(tmp_path / f"{number}.png"))
        Image.fromarray(frame).save(files[-1])
    adapter = example.Got10kTracker(random_state=3)
    assert (adapter.name, adapter.is_deterministic) == ("StructBoost", True)
    boxes, _ = adapter.track(files, clip.boxes[0])
    ours = StructBoostTracker(random_state=3).init(clip.frames[0], clip.boxes[0])
    wanted = [clip.boxes[0]] + [ours.update(frame) for frame in clip.frames[1:]]
    assert_array_equal(boxes, wanted)
    # The same object tracks the next sequence afresh.
    again, _ = adapter.track(files, clip.boxes[0])
    assert_array_equal(again, boxes)


def test_synthetic_clip_without_frames_is_refused():
    with pytest.raises(ValueError, match="n_frames is 0"):
        make_synthetic_clip(0)
