"""Paths that cannot be written or read are refused before any work, in every face."""

import errno
import os
import socket
import stat
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from structboost import load_model
from structboost.errors import ModelFileError
from structboost.files.atomic_write import (
    OutputError,
    check_folder,
    check_outputs,
    check_overwrites_none,
    check_writable,
    whole_file,
    write_whole,
)
from tests.battery.behaviours_of_state import _load
from tests.battery.checked_face import Face
from tests.battery.table_of_faces import all_faces

POSIX = pytest.mark.skipif(os.name != "posix", reason="pipes, links and modes of POSIX")
X = np.random.default_rng(0).normal(size=(40, 2))
Y = (X[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def fitted():
    """A fitted object of each kind that can be saved, and what loads it."""
    names = (
        "StructBoostClassifier", "MultiBoostClassifier", "ShareBoostClassifier",
        "StructuredSVMClassifier", "StructBoostMultiLabelClassifier", "StructBoostRanker",
        "StructBoostTagger", "TwoStageTagger", "TokenFeatures", "PredictThenOptimize", "Segmenter",
        "StructBoost, binary", "StructuredSVM, binary",
    )  # fmt: skip
    faces = [Face(*all_faces()[name]) for name in names]
    pairs = [(face.model(), partial(_load, face)) for face in faces]
    return [*pairs, (pairs[-2][0].model_, load_model)]


@pytest.mark.slow
@POSIX
def test_no_face_replaces_what_is_no_regular_file(fitted, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for face, load in fitted:
        for name in ("pipe", "link"):
            with pytest.raises(OSError, match=r"pipe is not a regular|link is not a regular"):
                face.save(tmp_path / name)
            with pytest.raises(ModelFileError, match="is a pipe, a device or the like"):
                load(tmp_path / name)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_every_face_names_a_path_that_cannot_be_written_or_read(fitted, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for face, load in fitted:
        for path, error, message in (
            (tmp_path, IsADirectoryError, "is a folder; give the name of a file"),
            (tmp_path / "no" / "model", FileNotFoundError, "a folder that exists"),
            (tmp_path / "file" / "model", NotADirectoryError, "a folder that exists"),
            (f"{tmp_path}/model/", NotADirectoryError, "leave the slash at its end out"),
            ("", ValueError, "path is empty"),
            ("a\0b", ValueError, "zero character"),
            ("a\ud800", ValueError, r"path is 'a\\ud800', which has .* lone surrogate"),
            (os.fsencode(tmp_path / "model"), TypeError, "give the path .*such as '/"),
            (None, TypeError, "path is None; give the path of a file"),
        ):
            with pytest.raises(error, match=message):
                face.save(path)
        for path, error, message in (
            (tmp_path, ModelFileError, "is a folder; give the path of a"),
            (tmp_path / "no", FileNotFoundError, "There is no"),
            (b"model", TypeError, "give the path of a file"),
            (None, TypeError, "path is None"),
        ):
            with pytest.raises(error, match=message):
                load(path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_files_that_are_empty_cut_or_foreign_are_no_models(fitted, tmp_path):
    path = tmp_path / "model"
    fitted[0][0].save(path)
    np.savez(tmp_path / "foreign.npz", a=np.ones(3))
    foreign = (tmp_path / "foreign.npz").read_bytes()
    for bad in (b"", path.read_bytes()[:-1], b"PK\x03\x04", b"\x80\x05N.", b"{}", foreign):
        path.write_bytes(bad)
        for _, load in fitted:
            with pytest.raises(ModelFileError, match=r"model is not a|is damaged"):
                load(path)


@POSIX
def test_a_link_that_leads_to_itself_and_a_socket_are_refused(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(OSError, match="leads to itself"):
        write_whole(tmp_path / "a", b"")
    assert (tmp_path / "a").is_symlink()
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(tmp_path)
        listening.bind("socket")
        with pytest.raises(FileExistsError, match="not a regular file"):
            write_whole("socket", b"")


@POSIX
def test_a_link_to_a_file_that_may_not_be_there_yet_gets_it(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to("far/file")
    for content in (b"1", b"2"):
        write_whole(tmp_path / "link", content)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "far" / "file").read_bytes() == content
    assert len([*tmp_path.rglob("*")]) == 3


@POSIX
def test_a_pipe_that_appears_while_a_file_is_written_stays(tmp_path):
    with pytest.raises(FileExistsError), whole_file(tmp_path / "file"):
        os.mkfifo(tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert stat.S_ISFIFO((tmp_path / "file").stat().st_mode)


def test_a_file_that_allows_no_writing_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"old")
    monkeypatch.setattr("structboost.files.atomic_write.os.access", lambda path, mode: False)
    with pytest.raises(PermissionError, match="file allows no writing"):
        write_whole(tmp_path / "file", b"")
    assert (tmp_path / "file").read_bytes() == b"old"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_target_that_can_be_written_is_left_as_it_is(tmp_path):
    (tmp_path / "old").write_text("old")
    for name in ("old", "new"):
        check_writable(tmp_path / name)
    assert names(tmp_path) == ["old"]
    assert (tmp_path / "old").read_text() == "old"


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_read_only_disk_is_detected_by_writing(number, tmp_path, monkeypatch):
    """Permissions say nothing of read-only disks, and root has them all."""

    def refuses(self, *_, **__):
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(Path, "open", refuses)
    with pytest.raises(OutputError, match=os.strerror(number)):
        check_writable(tmp_path / "x")


def test_inputs_are_not_overwritten_under_any_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    Path("data/a").write_text("a")
    Path("soft").symlink_to("data/a")
    os.link("data/a", "hard")
    Path("folder").symlink_to("data")
    for target in (
        "data/a",
        "data/../data/a",
        str(tmp_path / "data/a"),
        "soft",
        "hard",
        "folder/a",
    ):
        with pytest.raises(OutputError, match="would overwrite data/a, which is read"):
            check_outputs({"--out": Path(target)}, [Path("data/a")])
    # Neither is there yet: they are told apart by where they will be.
    with pytest.raises(OutputError, match="--json folder/b is also the file of --boxes"):
        check_outputs({"--boxes": Path("data/b"), "--json": Path("folder/b")})
    check_outputs(
        {"--boxes": Path("data/b"), "--json": Path("data/c"), "--out": None},
        [Path("data/a"), Path("none")],
    )
    check_overwrites_none([Path("data/b")], [Path("data/a")], "--out")


def test_folders_are_made_and_files_in_their_place_refused(tmp_path):
    check_folder(tmp_path / "a" / "b")
    assert names(tmp_path / "a" / "b") == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"--out .*file is a file; give a folder"):
        check_folder(tmp_path / "file", "--out")
    with pytest.raises(OutputError, match="cannot be created"):
        check_folder(tmp_path / "file" / "inner", "--out")
