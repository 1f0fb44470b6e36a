"""The track command from end to end, the synthetic clip, and the adapter for got10k."""

import csv
import json
import os
import runpy
import signal
import subprocess
import sys
import types
from functools import cache, partial

import cv2
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from examples import synthetic_clip, track_video
from examples.synthetic_clip import make_synthetic_clip
from structboost.cli import main
from structboost.tracking import StructBoostTracker
from structboost.tracking.tracks import read_boxes
from structboost.tracking.video import open_frames

pytestmark = pytest.mark.slow

N_FRAMES = 12
write_boxes = partial(np.savetxt, delimiter=",")


@cache
def clip():
    return make_synthetic_clip(N_FRAMES)


@cache
def png_files():
    """Frames of the clip as the bytes of files."""
    return [cv2.imencode(".png", frame[:, :, ::-1])[1].tobytes() for frame in clip().frames]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The frames as OTB lays them out, in the current folder."""
    monkeypatch.chdir(tmp_path)
    images = tmp_path / "sequence" / "img"
    images.mkdir(parents=True)
    for index, content in enumerate(png_files()):
        (images / f"{index + 1:04d}.png").write_bytes(content)
    return images.parent


def track(text):
    """Run the command, with the true box of the first object, and return the exit code."""
    return main(["track", "--box", ",".join(map(str, clip().boxes[0])), *text.split()])


def test_track_command_writes_all_outputs_of_two_objects(folder, capsys):
    truth = clip().boxes[:-2].copy()
    truth[5] = np.nan
    write_boxes("truth.txt", truth)
    assert (
        track("sequence --box -4,150,60,50 --out o.mp4 --boxes b --json s --truth truth.txt") == 0
    )
    assert len(list(open_frames("o.mp4"))) == N_FRAMES
    with open("b") as file:
        rows = list(csv.DictReader(file))
    assert [(row["frame"], row["object"]) for row in rows] == [
        (str(frame), index) for frame in range(N_FRAMES) for index in "12"
    ]
    figures = json.loads((folder.parent / "s").read_text())
    assert figures.items() >= {"frames": N_FRAMES, "complete": True}.items()
    assert figures["fps"] > 0
    first, second = figures["objects"]
    assert first["mean_overlap"] > 0.8
    assert 0 < first["centre_error"] < 5
    assert first["lost_frames"] == 0
    assert second["mean_overlap"] is second["centre_error"] is None
    assert first["frames"][0]["box"] == np.round(clip().boxes[0], 4).tolist()
    assert second["frames"][0]["box"] == [-4, 150, 60, 50]
    names = "x y width height confidence lost angle".split()
    for frame, row in zip(first["frames"], rows[::2], strict=True):
        written = [*frame["box"], frame["confidence"], frame["lost"], frame["angle"]]
        assert written == [float(row[name]) for name in names]
    shown = capsys.readouterr()
    assert f"mean overlap {first['mean_overlap']:.3f}" in shown.out
    assert "object 2: lost in" in shown.out
    assert "The truth has 10 lines, for 12 frames; 10 are compared" in shown.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nowhere.mp4", "nowhere.mp4 does not exist"),
        ("sequence --truth none.txt", "none.txt"),
        ("sequence --truth t.txt --truth t.txt", "2 --truth for 1 boxes"),
        ("sequence --truth empty.mp4", "empty.mp4: "),
        ("sequence --out clip.xyz", "has the suffix '.xyz'"),
        ("sequence --boxes none/b.csv", "none/b.csv cannot be written"),
        ("sequence --box 9,2,30,400", "320 x 240 pixels; give x, y, width, height, a box that is"),
        ("empty.mp4", "frame 0 cannot be read"),
        ("sequence --boxes sequence/img/0003.png", "0003.png, which is read"),
        ("sequence --truth t.txt --boxes t.txt", "t.txt, which is read"),
        ("link.txt --out t.txt", "--out t.txt would overwrite link.txt, which is read"),
        ("sequence --boxes both --json both", "is also the file of --boxes"),
    ],
)
def test_track_command_names_bad_input(arguments, message, folder, capsys, monkeypatch):
    (folder.parent / "empty.mp4").write_bytes(b"")
    write_boxes("t.txt", clip().boxes)
    (folder.parent / "link.txt").symlink_to("t.txt")
    # The tracker's own check comes after its code is compiled.
    monkeypatch.setattr("structboost.tracking.command.warm_up", lambda _: None)
    assert track(arguments) == 2
    assert message in capsys.readouterr().err
    # Nothing was left behind.
    assert sorted(os.listdir()) == ["empty.mp4", "link.txt", "sequence", "t.txt"]
    assert len(read_boxes("t.txt")) == N_FRAMES


def test_track_command_writes_the_frames_before_a_bad_one(folder, capsys):
    (folder / "img" / "0008.png").write_bytes(b"not an image")
    assert track("sequence --json - --out o.mkv") == 1
    out, err = capsys.readouterr()
    assert "frame 7 cannot be read" in err
    assert len(list(open_frames("o.mkv"))) == 7
    figures = json.loads(out)
    assert figures.items() >= {"frames": 7, "complete": False}.items()


def test_track_command_writes_the_frames_before_ctrl_c(folder, capsys, monkeypatch):
    update = StructBoostTracker.update
    handler = signal.getsignal(signal.SIGINT)

    def pressed_meanwhile(self, frame):
        if self.n_frames == 6 and frame.shape[0] == 240:
            os.kill(os.getpid(), signal.SIGINT)
        return update(self, frame)

    monkeypatch.setattr(StructBoostTracker, "update", pressed_meanwhile)
    assert track("sequence --boxes b.csv") == 130
    assert "interrupted after 7 frames, which are written" in capsys.readouterr().err
    assert len((folder.parent / "b.csv").read_text().splitlines()) == 1 + 7
    assert signal.getsignal(signal.SIGINT) is handler
    monkeypatch.setattr(
        "structboost.tracking.command.warm_up", lambda _: os.kill(os.getpid(), signal.SIGINT)
    )
    assert track("sequence --boxes none.csv") == 130
    assert "interrupted before the first frame" in capsys.readouterr().err
    assert not (folder.parent / "none.csv").exists()


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


def test_a_program_that_is_terminated_cleans_up():
    code = (
        "import signal, sys; from structboost import cli; sys.argv = ['structboost', 'track']; "
        "cli.importlib.import_module = lambda _: signal.raise_signal(signal.SIGTERM); cli.main()"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 143


def test_the_example_writes_a_clip_that_the_other_example_tracks(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(synthetic_clip, "make_synthetic_clip", clip)
    synthetic_clip.main("clip.mp4", "truth.txt")
    assert_allclose(read_boxes("truth.txt"), clip().boxes, atol=1e-3)
    track_video.main("clip.mp4", read_boxes("truth.txt")[0])
    assert "12 frames in tracked.mp4" in capsys.readouterr().out
    assert len(list(open_frames("tracked.mp4"))) == N_FRAMES


def test_got10k_toolkit_receives_the_boxes_of_the_tracking_loop(monkeypatch):
    for name in ("got10k", "got10k.trackers"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["got10k.trackers"].Tracker = types.SimpleNamespace
    example = runpy.run_path(synthetic_clip.__file__.replace("synthetic_clip", "got10k_tracker"))
    adapter = example["Got10kTracker"](random_state=3)
    assert (adapter.name, adapter.is_deterministic) == ("StructBoost", True)
    first, second = map(Image.fromarray, clip().frames[:2])
    ours = StructBoostTracker(random_state=3).init(clip().frames[0], clip().boxes[0])
    wanted = ours.update(clip().frames[1])
    for _ in range(2):  # the same object tracks the next sequence afresh
        adapter.init(first, clip().boxes[0])
        assert_array_equal(adapter.update(second), wanted)
