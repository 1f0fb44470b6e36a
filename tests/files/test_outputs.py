"""Targets of commands, checked before the work."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from structboost.files.atomic_write import (
    OutputError,
    check_folder,
    check_outputs,
    check_overwrites_none,
    check_writable,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_target_that_can_be_written_is_left_as_it_is(tmp_path):
    (tmp_path / "old").write_text("old")
    for name in ("old", "new"):
        check_writable(tmp_path / name)
    assert names(tmp_path) == ["old"]
    assert (tmp_path / "old").read_text() == "old"


def test_targets_that_cannot_be_written_are_named(tmp_path):
    (tmp_path / "file").write_text("")
    for path, message in (
        (tmp_path, "is a folder; give the name of a file"),
        (tmp_path / "none" / "x", "give a path in a folder that exists"),
        (tmp_path / "file" / "x", "give a path in a folder that exists"),
        (Path("/dev/null"), "not a regular file"),
        (tmp_path / ("x" * 300), "cannot be written"),
    ):
        with pytest.raises(OutputError, match=rf"^--json .*{message}"):
            check_writable(path, "--json")
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_read_only_disk_is_detected_by_writing(number, tmp_path, monkeypatch):
    """Permissions say nothing of read-only disks; and root, who may run this, has them all."""

    def refuses(self, *_, **__):
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(Path, "open", refuses)
    with pytest.raises(OutputError, match=os.strerror(number)):
        check_writable(tmp_path / "x")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission_is_detected(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="cannot be written"):
        check_writable(tmp_path / "x")
    with pytest.raises(OutputError, match="cannot be created"):
        check_folder(tmp_path / "y")
    tmp_path.chmod(0o700)


def test_a_target_behind_a_link_is_what_is_checked(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "none" / "x")
    with pytest.raises(OutputError, match="none/x cannot be written"):
        check_writable(tmp_path / "link")


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
