"""``structboost track`` from end to end, and every bad input by its message."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import cv2
import numpy as np
import pytest

from structboost.cli import main
from structboost.tracking.command import box_drawn_by_mouse
from structboost.tracking.structboost_tracker import StructBoostTracker
from structboost.tracking.synthetic_clip import make_synthetic_clip
from structboost.tracking.tracks_file import read_boxes, write_boxes
from structboost.tracking.video import VideoWriter, open_frames

N_FRAMES = 12


@pytest.fixture(scope="module")
def clip():
    return make_synthetic_clip(N_FRAMES)


@pytest.fixture
def no_display(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)


@cache
def png_files():
    """Frames of the clip as the bytes of files."""
    frames = make_synthetic_clip(N_FRAMES).frames
    return [cv2.imencode(".png", frame[:, :, ::-1])[1].tobytes() for frame in frames]


def folder_of(tmp_path, clip):
    """The frames as OTB lays them out, and the text of the first box."""
    images = tmp_path / "sequence" / "img"
    images.mkdir(parents=True)
    for number, content in enumerate(png_files()):
        (images / f"{number + 1:04d}.png").write_bytes(content)
    return images.parent, ",".join(map(str, clip.boxes[0]))


def video_of(tmp_path, clip):
    path = tmp_path / "clip.mp4"
    with VideoWriter(path, fps=20) as writer:
        for frame in clip.frames:
            writer.write(frame)
    return path, ",".join(map(str, clip.boxes[0]))


@pytest.mark.slow
@pytest.mark.parametrize("form", [folder_of, video_of])
def test_track_command_writes_all_outputs(tmp_path, clip, form, capsys):
    source, box = form(tmp_path, clip)
    truth = clip.boxes.copy()
    truth[5] = np.nan
    write_boxes(tmp_path / "truth.txt", truth)
    out, boxes, summary = tmp_path / "out.mp4", tmp_path / "boxes.txt", tmp_path / "summary.json"
    files = ["--out", str(out), "--boxes", str(boxes), "--json", str(summary)]
    code = main(
        ["track", str(source), "--box", box, *files, "--truth", str(tmp_path / "truth.txt")]
    )
    assert code == 0
    found = read_boxes(boxes)
    assert found.shape == (N_FRAMES, 4)
    np.testing.assert_allclose(found[0], clip.boxes[0])
    with open_frames(out) as frames:
        assert sum(1 for _ in frames) == N_FRAMES
    figures = json.loads(summary.read_text())
    assert figures["frames"] == N_FRAMES
    assert figures["complete"] is True
    assert figures["fps"] > 0
    assert figures["mean_overlap"] > 0.8
    assert 0 < figures["centre_error"] < 5
    shown = capsys.readouterr().out
    assert f"mean overlap {figures['mean_overlap']:.3f}" in shown
    assert f"wrote {out}: H.264; 320x240" in shown


@pytest.mark.slow
def test_track_command_without_a_source_tracks_the_synthetic_clip(
    monkeypatch, tmp_path, capsys, clip
):
    monkeypatch.setattr("structboost.tracking.command.make_synthetic_clip", lambda: clip)
    assert main(["track", "--json", str(tmp_path / "s.json")]) == 0
    figures = json.loads((tmp_path / "s.json").read_text())
    assert "synthetic clip" in figures["source"]
    assert figures["mean_overlap"] > 0.8
    assert "synthetic clip" in capsys.readouterr().err


@pytest.mark.slow
def test_track_command_without_truth_writes_null_measures(tmp_path, clip):
    source, box = folder_of(tmp_path, clip)
    assert main(["track", str(source), "--box", box, "--json", str(tmp_path / "s.json")]) == 0
    figures = json.loads((tmp_path / "s.json").read_text())
    assert (figures["mean_overlap"], figures["centre_error"]) == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.mp4", "--box", "1,2,30,40"], "nowhere.mp4 does not exist"),
        (["{source}", "--box", "1,2,3"], "--box is '1,2,3'; give x,y,w,h"),
        (["{source}", "--box", "1,2,0,9"], "w and h above 0"),
        (["{source}", "--box", "nan,nan,nan,nan"], "w and h above 0"),
        (["{source}", "--box", "inf,2,9,9"], "w and h above 0"),
        (["{source}", "--box", "a,b,c,d"], "--box is 'a,b,c,d'"),
        (["{source}", "--box", "900,2,30,40"], "320 x 240 pixels; give a box whose centre"),
        (["{source}"], "give --box x,y,w,h"),
        (["{source}", "--box", "1,2,30,40", "--truth", "none.txt"], "no file of boxes none.txt"),
        (["{source}", "--box", "1,2,30,40", "--out", "clip.xyz"], "has the suffix '.xyz'"),
        (
            ["{source}", "--box", "1,2,30,40", "--boxes", "none/b.txt"],
            "--boxes none/b.txt cannot be written: there is no folder",
        ),
        (["{source}", "--box", "1,2,30,40", "--json", "{source}"], "is a folder"),
        (["{source}", "--box", "1,2,30,40", "--start", "12"], "has 12 frames, so frame 12"),
        (["{source}", "--box", "1,2,30,40", "--start", "3", "--end", "3"], "0 <= start < end"),
        (["{source}", "--box", "1,2,30,40", "--start", "-1"], "--start is -1; give 0 <= start"),
        (["{source}", "--box", "1,2,30,40", "--seed", "-1"], "--seed is -1"),
        (["{source}", "--box", "1,2,30,40", "--show"], "--show needs a display"),
        (["{source}", "--box", "1,2,30,40", "--plot", "p.bmp"], "--plot p.bmp must end in"),
        (["{source}/img/none_%03d.png", "--box", "1,2,30,40"], "No image fits"),
        (["{source}/img/*.jpg", "--box", "1,2,30,40"], "No image fits"),
        (
            ["{source}", "--box", "1,2,30,40", "--box", "9,9,9,9", "--boxes", "b.txt"],
            "give a file that ends in .csv",
        ),
    ],
)
@pytest.mark.usefixtures("no_display")
def test_track_command_names_bad_input(arguments, message, tmp_path, clip, capsys, monkeypatch):
    source, _ = folder_of(tmp_path, clip)
    monkeypatch.chdir(tmp_path)
    assert main(["track", *(a.format(source=source) for a in arguments)]) == 2
    assert message in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["sequence"]  # nothing was left behind


@pytest.mark.parametrize("name", ["clip.mp4", "./folder/../clip.mp4", "link.mp4", "hard.mp4"])
@pytest.mark.parametrize("option", ["--out", "--boxes", "--json"])
def test_track_command_never_overwrites_its_source_under_any_name(
    option, name, tmp_path, clip, capsys, monkeypatch
):
    source, box = video_of(tmp_path, clip)
    before = source.read_bytes()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.mp4").symlink_to(source)
    os.link(source, tmp_path / "hard.mp4")
    monkeypatch.chdir(tmp_path)
    assert main(["track", str(source), "--box", box, option, name]) == 2
    assert (
        f"{option} {Path(name)} would overwrite {source}, which is read" in capsys.readouterr().err
    )
    # A link to the video as the source, and the video itself as the target.
    assert main(["track", "link.mp4", "--box", box, option, "clip.mp4"]) == 2
    assert source.read_bytes() == before
    assert (tmp_path / "link.mp4").is_symlink()


def test_track_command_never_overwrites_frames_truth_or_another_output(tmp_path, clip, capsys):
    source, box = folder_of(tmp_path, clip)
    truth = tmp_path / "truth.txt"
    write_boxes(truth, clip.boxes)
    command = ["track", str(source), "--box", box, "--truth", str(truth)]
    frame, both = source / "img" / "0003.png", str(tmp_path / "both")
    before = frame.read_bytes(), truth.read_bytes()
    assert main([*command, "--boxes", str(frame)]) == 2
    assert "0003.png, which is read" in capsys.readouterr().err
    assert main([*command, "--boxes", str(truth)]) == 2
    assert "truth.txt, which is read" in capsys.readouterr().err
    assert main([*command, "--boxes", both, "--json", both]) == 2
    assert "is also the file of --boxes" in capsys.readouterr().err
    assert (frame.read_bytes(), truth.read_bytes()) == before
    assert not (tmp_path / "both").exists()


def test_track_command_names_an_empty_truth_and_empty_files(tmp_path, capsys):
    (tmp_path / "empty.mp4").write_bytes(b"")
    assert main(["track", str(tmp_path / "empty.mp4"), "--box", "1,2,30,40"]) == 2
    assert "frame 0 cannot be read" in capsys.readouterr().err
    (tmp_path / "truth.txt").write_text("")
    assert main(["track", "--truth", str(tmp_path / "truth.txt")]) == 2
    assert "is empty" in capsys.readouterr().err


@pytest.mark.slow
def test_track_command_writes_the_frames_before_a_bad_one(tmp_path, clip, capsys):
    source, box = folder_of(tmp_path, clip)
    (source / "img" / "0008.png").write_bytes(b"not an image")
    boxes, summary, out = tmp_path / "b.txt", tmp_path / "s.json", tmp_path / "out.avi"
    code = main(
        [
            "track",
            str(source),
            "--box",
            box,
            "--boxes",
            str(boxes),
            "--json",
            str(summary),
            "--out",
            str(out),
        ]
    )
    assert code == 1
    assert "frame 7 cannot be read from 0008.png" in capsys.readouterr().err
    assert len(read_boxes(boxes)) == 7
    figures = json.loads(summary.read_text())
    assert (figures["frames"], figures["complete"]) == (7, False)
    with open_frames(out) as frames:
        assert sum(1 for _ in frames) == 7


@pytest.mark.slow
def test_track_command_writes_the_frames_of_a_truncated_video(tmp_path, clip, capsys):
    truncated = tmp_path / "truncated.avi"
    with VideoWriter(truncated, fps=20) as writer:
        for frame in clip.frames:
            writer.write(frame)
    truncated.write_bytes(truncated.read_bytes()[: truncated.stat().st_size // 2])
    boxes = tmp_path / "b.txt"
    assert (
        main(
            [
                "track",
                str(truncated),
                "--box",
                ",".join(map(str, clip.boxes[0])),
                "--boxes",
                str(boxes),
            ]
        )
        == 1
    )
    assert "truncated" in capsys.readouterr().err
    assert 3 <= len(read_boxes(boxes)) < N_FRAMES


@pytest.mark.slow
def test_track_command_writes_the_frames_before_ctrl_c(tmp_path, clip, capsys, monkeypatch):
    source, box = folder_of(tmp_path, clip)
    update = StructBoostTracker.update
    handler = signal.getsignal(signal.SIGINT)

    def pressed_meanwhile(self, frame):
        if self.n_frames == 6 and frame.shape[0] == 240:
            os.kill(os.getpid(), signal.SIGINT)
        return update(self, frame)

    monkeypatch.setattr(StructBoostTracker, "update", pressed_meanwhile)
    boxes = tmp_path / "b.txt"
    assert main(["track", str(source), "--box", box, "--boxes", str(boxes)]) == 130
    assert "interrupted after 7 frames, which are written" in capsys.readouterr().err
    assert len(read_boxes(boxes)) == 7
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_before_the_first_frame_leaves_no_output(tmp_path, clip, capsys, monkeypatch):
    source, box = folder_of(tmp_path, clip)
    monkeypatch.setattr(
        "structboost.tracking.command.warm_up", lambda _: os.kill(os.getpid(), signal.SIGINT)
    )
    assert main(["track", str(source), "--box", box, "--boxes", str(tmp_path / "b.txt")]) == 130
    assert "interrupted before the first frame" in capsys.readouterr().err
    assert not (tmp_path / "b.txt").exists()


@pytest.mark.slow
def test_truth_of_another_length_is_compared_over_common_frames(tmp_path, clip, capsys):
    source, box = folder_of(tmp_path, clip)
    write_boxes(tmp_path / "truth.txt", clip.boxes[:5])
    assert main(["track", str(source), "--box", box, "--truth", str(tmp_path / "truth.txt")]) == 0
    captured = capsys.readouterr()
    assert "The truth has 5 lines, for 12 frames; 5 are compared" in captured.err
    assert "(4 frames)" in captured.out


@pytest.mark.slow
def test_user_draws_the_box_where_there_is_a_display(tmp_path, clip, monkeypatch, capsys):
    source, _ = folder_of(tmp_path, clip)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(
        cv2, "selectROI", lambda *_, **__: tuple(np.rint(clip.boxes[0]).astype(int))
    )
    monkeypatch.setattr(cv2, "destroyWindow", lambda _: None)
    boxes = tmp_path / "b.txt"
    assert main(["track", str(source), "--boxes", str(boxes), "--end", "2"]) == 0
    assert len(read_boxes(boxes)) == 2
    np.testing.assert_array_equal(read_boxes(boxes)[0], np.rint(clip.boxes[0]))
    # What is printed repeats the run.
    printed = capsys.readouterr().err.split("--box ")[1].split()[0]
    assert main(["track", str(source), "--boxes", str(boxes), "--end", "2", "--box", printed]) == 0
    np.testing.assert_array_equal(read_boxes(boxes)[0], np.rint(clip.boxes[0]))


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
    np.testing.assert_allclose(box, 2160 / shown[0][0] * np.array([10, 20, 30, 40]), atol=0.2)


@pytest.mark.slow
def test_track_command_follows_several_objects_in_a_range_of_frames(tmp_path, clip, capsys):
    source, _ = folder_of(tmp_path, clip)
    write_boxes(tmp_path / "truth.txt", clip.boxes)
    head = ",".join(map(str, clip.boxes[3]))
    table, summary, plot = tmp_path / "b.csv", tmp_path / "s.json", tmp_path / "p.svg"
    pattern = str(source / "img" / "%04d.png")
    code = main(
        f"track {pattern} --box {head} --box 10,150,60,50 --start 3 --end 8 --boxes {table} "
        f"--json {summary} --plot {plot} --seed 7 "
        f"--truth {tmp_path}/truth.txt".split()
    )
    assert code == 0
    rows = list(csv.DictReader(table.open()))
    assert [(int(row["frame"]), int(row["object"])) for row in rows] == [
        (frame, number) for frame in range(3, 8) for number in (1, 2)
    ]
    assert rows[0]["time"] == ""  # images have none
    figures = json.loads(summary.read_text())
    assert figures["settings"]["random_state"] == 7
    assert (figures["start"], figures["end"], figures["frames"]) == (3, 8, 5)
    assert figures["boxes"][1] == [10, 150, 60, 50]
    first, second = figures["objects"]
    assert first["mean_overlap"] > 0.7
    assert second["mean_overlap"] is None
    for number, row in enumerate(rows[::2]):
        frame = first["frames"][number]
        assert frame["box"] == [float(row[side]) for side in ("x", "y", "width", "height")]
        assert frame["confidence"] == float(row["confidence"])
        assert frame["lost"] == bool(int(row["lost"]))
        assert frame["angle"] == float(row["angle"])
    assert "centre error" in plot.read_text()
    shown = capsys.readouterr()
    assert "object 2: lost in" in shown.out
    assert "are compared" not in shown.err


@pytest.mark.slow
def test_a_video_on_standard_input_has_times(tmp_path, clip, monkeypatch):
    source, box = video_of(tmp_path, clip)
    table = tmp_path / "b.csv"
    with source.open("rb") as file:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
        arguments = ["--box", box, "--start", "1", "--end", "4", "--boxes", str(table)]
        assert main(["track", "-", *arguments]) == 0
    times = [float(row["time"]) for row in csv.DictReader(table.open())]
    np.testing.assert_allclose(times, [0.05, 0.1, 0.15])  # 20 frames per second


@pytest.mark.slow
def test_window_of_the_track_command_closes_by_a_key(tmp_path, clip, monkeypatch):
    source, box = folder_of(tmp_path, clip)
    shown = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(cv2, "imshow", lambda _, image: shown.append(image.shape))
    monkeypatch.setattr(cv2, "waitKey", lambda _: ord("q") if len(shown) == 3 else -1)
    monkeypatch.setattr(cv2, "getWindowProperty", lambda *_: 1.0)
    monkeypatch.setattr(cv2, "destroyWindow", lambda _: shown.append("destroyed"))
    summary = tmp_path / "s.json"
    assert main(["track", str(source), "--box", box, "--show", "--json", str(summary)]) == 0
    assert shown == [(240, 320, 3)] * 3 + ["destroyed"]
    figures = json.loads(summary.read_text())
    assert (figures["frames"], figures["complete"]) == (3, False)


def test_command_prints_its_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("structboost ")


@pytest.mark.slow
def test_help_of_the_track_command_lists_its_options():
    command = [sys.executable, "-m", "structboost", "track", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert shown.returncode == 0
    assert "--box X,Y,W,H" in shown.stdout


def test_ctrl_c_during_imports_prints_one_line(monkeypatch, capsys):
    def interrupted(module):
        raise KeyboardInterrupt

    monkeypatch.setattr("structboost.cli.importlib.import_module", interrupted)
    assert main(["track", "clip.mp4"]) == 130
    assert capsys.readouterr().err == "structboost track: interrupted.\n"


@pytest.mark.slow
def test_a_box_may_begin_left_of_the_frame(tmp_path, clip):
    source, _ = folder_of(tmp_path, clip)
    boxes = tmp_path / "boxes.txt"
    main(["track", str(source), "--box", "-4,-4,30,30", "--boxes", str(boxes), "--end", "2"])
    np.testing.assert_array_equal(read_boxes(boxes)[0], [-4, -4, 30, 30])
