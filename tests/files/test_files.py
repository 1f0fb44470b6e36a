"""Files are written whole or not at all, and nothing in them is trusted."""

import io
import json
import os
import stat
import tracemalloc
import zipfile

import numpy as np
import pytest

from structboost import StructBoostClassifier, load_model
from structboost.errors import CheckpointError, ModelFileError
from structboost.files.atomic_write import whole_file, write_whole
from tests.helpers.damaged_files.archives import (
    array_of,
    crafted,
    header_of,
    put_together,
    taken_apart,
)
from tests.helpers.damaged_files.kinds import KINDS, X, Y

POSIX = pytest.mark.skipif(os.name != "posix", reason="modes, links and signals of POSIX")


@POSIX
def test_saving_keeps_the_mode_of_a_file_and_gives_a_new_one_that_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "new", b"1")
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
        (tmp_path / "new").chmod(0o600)
        write_whole(tmp_path / "new", b"2")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    assert (tmp_path / "new").read_bytes() == b"2"


def test_a_file_that_fails_leaves_the_old_one(tmp_path):
    path = tmp_path / ("n" * 255)
    write_whole(path, b"old")
    with pytest.raises(TypeError), whole_file(path) as file:
        file.write("no bytes")
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.fixture(scope="module")
def saved(originals):
    return originals.of("stumps")[0]["file"]


def test_one_wrong_byte_is_found_in_every_array_and_in_the_header(saved, tmp_path):
    header, arrays = taken_apart(saved)
    path = tmp_path / "m"
    for name in arrays:
        changed = {**arrays, name: arrays[name].copy()}
        changed[name].reshape(-1).view(np.uint8)[-1] ^= 1
        sealed = json.loads(np.load(io.BytesIO(saved))["header"].tobytes())
        path.write_bytes(put_together(sealed, changed, sealed=False))
        with pytest.raises(ModelFileError, match="damaged"):
            load_model(path)
    sealed["metadata"]["objective"] += 1e-9
    path.write_bytes(put_together(sealed, arrays, sealed=False))
    with pytest.raises(ModelFileError, match="its checksum does not fit"):
        load_model(path)
    path.write_bytes(put_together(header, arrays, sealed=True))
    load_model(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "shape", "size"),
    [
        ("stages.npy", (1 << 17, 80), 80),
        ("stages.npy", (1 << 28, 1), 1),
        ("stages.npy", (1 << 62, 1), 1),
        ("stages.npy", (-1, 80), 1),
        ("header.npy", (60 << 17,), 60),
    ],
)
def test_small_files_take_no_large_memory(saved, tmp_path, changed, shape, size):
    path = tmp_path / "m"
    with (
        zipfile.ZipFile(io.BytesIO(saved)) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            if name != changed:
                new.writestr(name, old.read(name))
        with new.open(changed, "w") as member:
            layout = {"descr": "<f8", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(member, layout)
            for _ in range(size):
                member.write(bytes(1 << 20))
    assert path.stat().st_size < 200_000
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20


def test_files_that_would_be_refused_for_their_size_are_written_without_compression(
    saved, tmp_path, monkeypatch
):
    monkeypatch.setattr("structboost.files.archive._ALWAYS_ALLOWED", 1000)
    monkeypatch.setattr("structboost.files.archive._MOST_EXPANSION", 1)
    model = StructBoostClassifier("hinge", C=50, max_iter=3).fit(X, Y)
    model.save(tmp_path / "m")
    assert np.array_equal(StructBoostClassifier.load(tmp_path / "m").predict(X), model.predict(X))


def without(name):
    return lambda header, arrays: arrays.pop(name)


def bounds_up(header, arrays):
    header["bound"] = header["history"][-1]["bound"] = 1e9


CRAFTED = {
    "trees": [array_of("x/learners/feature", 700), array_of("x/learners/leaf", np.nan)],
    "stumps": [
        array_of("x/channels", 3),
        array_of("x/columns", -1),
        header_of("none", "kinds", "x", "family"),
        header_of([0, 1], "metadata", "classes"),
        header_of("<U100000000", "metadata", "classes_dtype"),
        lambda header, arrays: header["metadata"].pop("parameters"),
    ],
    "default classifier": [
        header_of([1.0], "metadata", "link"),
        header_of([1.0, "a"], "metadata", "link"),
        header_of([np.inf, 0.0], "metadata", "link"),
        header_of({}, "metadata", "link"),
        header_of(9, "kinds", "x", "n_features"),
    ],
    "features": [
        array_of("x/learners/scale", 0),
        header_of(1, "metadata", "columns", "encoding", "n_categories", 0),
    ],
    "svm": [
        array_of("x/learners/coefficients", np.nan),
        without("x/learners/intercept"),
        header_of(2, "kinds", "x", "n_channels"),
        header_of(-1, "metadata", "parameters", "C"),
        lambda header, arrays: header["metadata"].update(columns=[]),
    ],
    "decisions": [
        array_of("preparation/instance_spread", 0.0),
        array_of("model", 0),
        header_of(0, "parameters", "problem"),
        lambda header, arrays: header.pop("maximize"),
        without("preparation/start"),
    ],
    "segmenter": [
        array_of("colour/0/feature", 10**9),
        array_of("all features/0/classes", 7),
        header_of(3, "n_labels_"),
        header_of([-5, 9], "sizes_"),
        header_of([5, "x"], "sizes_"),
        header_of("this", "meaning_", "run"),
        lambda header, arrays: arrays.update(codebook=arrays["codebook"][:, :9]),
    ],
}
CHECKPOINTS = {
    "multipliers' has entries out of their range": array_of("master/multipliers", -7.0),
    "channels' has entries out of their range": array_of("master/models/x/channels", 10**9),
    "more or fewer terms": array_of("master/models/x/sizes", 1),
    "not in order": array_of("master/numbers", 0),
    "products of a cut twice": array_of("master/known_cuts", 1),
    "its objective is not that of its weights": array_of("master/weights", 3.0),
    "a column twice": array_of("columns/live", 0),
    "its channel is 5": header_of(5, "columns", 0, 1, 0, 1),
    "its channel is True": header_of(True, "columns", 0, 1, 0, 1),
    "its learner is 1000": header_of(1000, "columns", 0, 1, 0, 0),
    "columns that it does not have": (
        lambda header, arrays: arrays.update({"columns/live": arrays["columns/live"] + 10**6})
    ),
    "KeyError": header_of("z", "columns", 0, 0),
    "columns that it does not hold": array_of("stage_numbers", 1000),
    "lacks the array 'master/idle'": without("master/idle"),
    "bound is not that of its last round": header_of(1e9, "bound"),
    "its bound is": bounds_up,
    "its risk is not that of its weights": header_of(1e9, "master", "risk"),
    "its step is": header_of(-1.0, "master", "step"),
    "its exhausted is": header_of("x", "exhausted"),
    "shape": header_of([], "history"),
    "its feature is": header_of(10**9, "learners", "x", 0, 0),
    "its bin is": header_of(10**9, "learners", "x", 0, 4),
    "none of these features": header_of(0.5, "learners", "x", 0, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        *((kind, change, "") for kind, changes in CRAFTED.items() for change in changes),
        *(("checkpoint", change, message) for message, change in CHECKPOINTS.items()),
    ],
)
def test_crafted_files_are_refused_when_they_are_loaded(kind, change, message, originals, tmp_path):
    """The checksum is right, and what the file says is not."""
    originals.copy(kind, tmp_path)
    crafted(tmp_path / "file", change)
    remedy = "remove it, or give another path" if message else "train the model again"
    with pytest.raises((ModelFileError, CheckpointError), match=f"file .*{message}.*{remedy}"):
        KINDS[kind].use(tmp_path)


def test_deep_headers_are_refused(saved, tmp_path):
    _, arrays = taken_apart(saved)
    out = io.BytesIO()
    deep = b'{"format": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    np.savez(out, **arrays, header=np.frombuffer(deep, np.uint8))
    (tmp_path / "m").write_bytes(out.getvalue())
    with pytest.raises(ModelFileError, match="RecursionError"):
        load_model(tmp_path / "m")


def test_loading_runs_no_code_of_a_file(tmp_path):
    class Code:
        def __reduce__(self):
            return (tmp_path / "ran").touch, ()

    StructBoostClassifier(max_iter=2).fit(X, Y).save(tmp_path / "model")
    with np.load(tmp_path / "model") as file:
        members = dict(file)
    for name in members:
        np.savez(tmp_path / "crafted.npz", **members | {name: np.array([Code()], object)})
        with pytest.raises(ModelFileError):
            load_model(tmp_path / "crafted.npz")
    assert not (tmp_path / "ran").exists()
