"""Paths of files: what cannot be written or read is refused before any work, in every face."""

from __future__ import annotations

import os
import pathlib
import socket
import stat
import sys
import warnings

import numpy as np
import pytest

from structboost import (
    BinnedTable,
    Checkpoint,
    MultiBoostClassifier,
    MulticlassTask,
    PredictThenOptimize,
    ShareBoostClassifier,
    StructBoost,
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
    StructuredSVM,
    StructuredSVMClassifier,
    load_model,
    save_report,
)
from structboost.decisions import ShortestPath
from structboost.errors import ModelFileError
from structboost.files.atomic_write import whole_file, write_whole
from structboost.segmentation.image_files import ImageFileError, read_photograph
from structboost.tracking import VideoWriter

POSIX = pytest.mark.skipif(os.name != "posix", reason="pipes, links and modes of POSIX")
NO_ROOT = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="root may write everything"
)
rng = np.random.default_rng(0)
X = rng.normal(size=(40, 2))
Y = (X[:, 0] > 0).astype(int)
EDGES = [(0, 1), (1, 3), (0, 2), (2, 3)]


def faces():
    """Yield a fitted object of each face that can be saved, and what loads it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for face, y in (
            (StructBoostClassifier(max_iter=2), Y),
            (MultiBoostClassifier(max_rounds=2), Y),
            (ShareBoostClassifier(max_rounds=2), Y),
            (StructuredSVMClassifier(max_epochs=2), Y),
            (StructBoostRanker(max_iter=2), Y),
            (StructBoostMultiLabelClassifier(max_iter=2), np.column_stack((Y, 1 - Y))),
        ):
            yield face.fit(X, y), type(face).load
        tagger = StructBoostTagger(max_iter=2).fit([X[:20], X[20:]], [Y[:20], Y[20:]])
        yield tagger, StructBoostTagger.load
        problem = ShortestPath(EDGES, 0, 3)
        costs = np.abs(rng.normal(size=(40, 4)))
        decisions = PredictThenOptimize(problem, C=1.0).fit(X, costs)
        yield decisions, lambda path: PredictThenOptimize.load(path, problem)
        trainer = StructBoost(MulticlassTask(2), C=10, max_rounds=2).fit(X, Y)
        yield trainer, lambda path: StructBoost.load(path, MulticlassTask(2))
        svm = StructuredSVM(MulticlassTask(2), C=1.0).fit(X, Y)
        yield svm, lambda path: StructuredSVM.load(path, MulticlassTask(2))
        yield trainer.model_, load_model


@pytest.fixture(scope="module")
def fitted():
    return list(faces())


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
        with pytest.raises(FileExistsError, match="not a regular file"):
            face.save(os.devnull)
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
            (os.fsencode(tmp_path / "model"), TypeError, "give the path .*such as '/"),
            (None, TypeError, "path is None; give the path of a file"),
            (7, TypeError, "path is 7; give the path of a file"),
        ):
            with pytest.raises(error, match=message):
                face.save(path)
        for path, error, message in (
            (tmp_path, ModelFileError, "is a folder; give the path of a"),
            (tmp_path / "no", FileNotFoundError, "There is no"),
            (b"model", TypeError, "give the path of a file"),
            (None, TypeError, "path is None"),
            (0, TypeError, "path is 0"),
        ):
            with pytest.raises(error, match=message):
                load(path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_strings_paths_and_relative_paths_name_the_same_file(fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for i, (face, load) in enumerate(fitted):
        face.save(f"model{i}")
        first = pathlib.Path(f"model{i}").read_bytes()
        face.save(tmp_path / f"model{i}")
        assert (tmp_path / f"model{i}").read_bytes() == first
        load(f"model{i}")
        load(tmp_path / f"model{i}")


def test_files_that_are_empty_cut_or_foreign_are_no_models(fitted, tmp_path):
    fitted[0][0].save(tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    np.savez(tmp_path / "foreign.npz", a=np.ones(3))
    for bad in (
        b"",
        content[: len(content) // 2],
        content[:-1],
        b"PK\x03\x04",
        b"\x80\x05N.",
        b"{}",
    ):
        (tmp_path / "bad").write_bytes(bad)
        for _, load in fitted:
            with pytest.raises(ModelFileError, match=r"is not a|is damaged"):
                load(tmp_path / "bad")
    for _, load in fitted:
        with pytest.raises(ModelFileError, match=r"foreign\.npz is not a"):
            load(tmp_path / "foreign.npz")


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
def test_a_link_to_a_file_that_is_not_there_yet_gets_it(tmp_path):
    (tmp_path / "link").symlink_to("file")
    write_whole(tmp_path / "link", b"1")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"1"


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


@NO_ROOT
def test_a_read_only_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="cannot be written"):
        write_whole(tmp_path / "file", b"")


@POSIX
def test_checkpoints_and_reports_refuse_pipes_before_they_work(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    trainer = StructBoost(
        MulticlassTask(2), C=10, max_rounds=2, checkpoint=Checkpoint(tmp_path / "pipe")
    )
    with pytest.raises(FileExistsError, match="not a regular file"):
        trainer.fit(X, Y)

    class Unused:
        def fit(self):
            raise AssertionError

        history_ = ()

        @property
        def objective_(self):
            raise AssertionError

    with pytest.raises(FileExistsError, match="not a regular file"):
        save_report(tmp_path / "pipe", Unused())


@POSIX
def test_tables_videos_and_pictures_name_a_bad_path_before_they_work(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "file").write_bytes(b"")
    for path, error, message in (
        (tmp_path / "file", FileExistsError, "exists already"),
        (tmp_path / "pipe.png", FileExistsError, "exists already"),
        (tmp_path / "no" / "table", FileNotFoundError, "a folder that exists"),
        (tmp_path / "file" / "table", NotADirectoryError, "a folder that exists"),
        (b"table", TypeError, "path is b'table'"),
        (3, TypeError, "path is 3"),
        ("", ValueError, "path is empty"),
    ):
        with pytest.raises(error, match=message):
            BinnedTable.from_array(path, np.full((2, 2), np.inf))
    for path in (b"video.mp4", None, 3):
        with pytest.raises(TypeError, match="give the path of a file"):
            VideoWriter(path)
        with pytest.raises(TypeError, match="give the path of a file"):
            BinnedTable.open(path)
    with pytest.raises(ImageFileError, match="is a pipe, a device or the like"):
        read_photograph(tmp_path / "pipe.png")
