"""Tables on disk train as those in memory."""

import errno
import shutil
import subprocess
import sys

import numpy as np
import pytest
from pandas import DataFrame

from structboost import BinnedTable, MulticlassTask, RankingTask, StructBoost
from structboost.learners import binning
from structboost.runtime import blocks
from structboost.training import examples
from tests.helpers.damaged_files.archives import put_together, taken_apart
from tests.helpers.refusals import refused
from tests.training.test_engines import classes, what_was_learned

X, Y = classes(60)


@pytest.mark.parametrize(
    "engine", ["serial", "threads", pytest.param("processes", marks=pytest.mark.slow)]
)
def test_a_table_on_disk_trains_the_same_bits(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 64)
    X, y = classes(500)
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    parameters = {"C": 10.0, "tol": 1e-3, "max_rounds": 5}
    in_memory = StructBoost(MulticlassTask(3), **parameters).fit(X, y)
    BinnedTable.from_array(tmp_path / "table", X)
    table = BinnedTable.open(tmp_path / "table")
    on_disk = StructBoost(MulticlassTask(3), engine=engine, n_jobs=2, **parameters).fit(table, y)
    assert what_was_learned(on_disk, from_bins=True) == what_was_learned(in_memory, from_bins=True)


def test_frames_and_masked_arrays_are_tables_and_texts_are_not(tmp_path):
    holed = np.where(X > 1, np.nan, X)
    expected = binning.bin_thresholds(holed).values
    for k, form in enumerate((DataFrame(holed), holed.tolist(), np.ma.masked_array(X, X > 1))):
        table = BinnedTable.from_array(tmp_path / f"{k}", form)
        np.testing.assert_array_equal(table.bins.values, expected)
        batches = BinnedTable.from_batches(tmp_path / f"{k} in batches", [form], len(X))
        np.testing.assert_array_equal(batches.bins.values, expected)
    refused("features is", BinnedTable.from_array, tmp_path / "text", X.astype(str))


def test_thresholds_of_many_rows_are_those_of_a_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(binning, "SAMPLED_ROWS", 100)
    monkeypatch.setattr(binning, "MOST_EXACT_ROWS", 50)
    X, _ = classes(1000)
    sample = binning.sampled_rows(1000, 100)
    assert len(np.unique(sample)) == 100
    assert sample[-1] < 1000
    assert (np.diff(sample) > 0).all()
    whole, sampled = binning.bin_thresholds(X), binning.bin_thresholds(X[sample])
    assert np.array_equal(whole.values, sampled.values)
    assert len(binning.bin_thresholds(X, exact=True).values) > len(whole.values)
    table = BinnedTable.from_array(tmp_path / "table", X)
    assert np.array_equal(table.bins.values, whole.values)


@pytest.mark.parametrize(
    ("batches", "n_rows", "message"),
    [
        ([X], 70, "have 60 rows, n_rows is 70"),
        ([X], 50, "more than n_rows=50"),
        ([X[:30], X[30:, :2]], 60, "must match exactly"),
        ([], 50, "batches is empty"),
        ([np.where(np.arange(240).reshape(60, 4) == 30, np.inf, X)], 60, "Feature 2 of part 7 is"),
    ],
)
def test_bad_batches_are_named_and_leave_nothing(batches, n_rows, message, tmp_path):
    refused(message, BinnedTable.from_batches, tmp_path / "table", batches, n_rows)
    assert not list(tmp_path.iterdir())


class NeedsInputs(MulticlassTask):
    reads_inputs = True


@pytest.mark.parametrize(
    ("task", "outputs", "settings", "message"),
    [
        (NeedsInputs(3), Y, {}, "one part per example"),
        (MulticlassTask(3), Y, {"weak_learner": "tree"}, "which needs formulation='one_slack'"),
        (MulticlassTask(3), Y, {"formulation": "m_slack"}, "which needs formulation='one_slack'"),
        (MulticlassTask(3), Y, {"exact": True}, "leave exact=False"),
        (MulticlassTask(3), Y[1:], {}, "60 examples and Y 59"),
        (RankingTask(), [Y], {}, "60 examples and Y 1"),
    ],
)
def test_fits_that_a_table_does_not_suit_are_refused(task, outputs, settings, message, tmp_path):
    table = BinnedTable.from_array(tmp_path / "table", X)
    refused(message, StructBoost(task, C=1.0, **settings).fit, table, outputs)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (b"(4, 60)", b"(4, 50)", "do not fit its thresholds"),
        (b"(4, 60)", b"(4,5,6)", "of another type"),
        (b"(4, 60)", b"(4, 90)", "damaged"),
    ],
)
def test_codes_of_another_shape_are_refused(old, new, problem, tmp_path):
    with pytest.raises(FileNotFoundError, match="no binned table"):
        BinnedTable.open(tmp_path / "table")
    BinnedTable.from_array(tmp_path / "table", X)
    with pytest.raises(FileExistsError, match="exists already"):
        BinnedTable.from_array(tmp_path / "table", X)
    codes = tmp_path / "table" / "codes.npy"
    codes.write_bytes(codes.read_bytes().replace(old, new))
    refused(problem, BinnedTable.open, tmp_path / "table")


def test_batches_of_any_size_make_the_same_table(tmp_path, monkeypatch):
    monkeypatch.setattr(examples, "_ROWS_AT_A_TIME", 50)
    X, _ = classes(330)
    whole = BinnedTable.from_array(tmp_path / "whole", X)
    codes = binning.bin_codes(X, whole.bins)
    every = [
        [X[end - size : end] for size, end in zip(sizes, np.cumsum(sizes), strict=True)]
        for sizes in ([330], [1] * 330, [49, 1, 0, 51, 100, 129], [120, 210])
    ]
    for k, batches in enumerate(every):
        table = BinnedTable.from_batches(tmp_path / str(k), iter(batches), 330)
        assert table.shape == (330, 4)
        assert np.array_equal(table.bins.values, whole.bins.values)
        assert np.array_equal(np.load(tmp_path / str(k) / "codes.npy"), codes)


def test_codes_beyond_the_bins_are_refused(tmp_path):
    X, y = classes(250)
    BinnedTable.from_array(tmp_path / "table", X)
    bins = tmp_path / "table" / "bins.npz"
    header, arrays = taken_apart(bins.read_bytes())
    # Two bins a feature: the codes go up to 249.
    arrays |= {"thresholds": arrays["thresholds"][:4], "indptr": np.arange(5)}
    bins.write_bytes(put_together(header, arrays, sealed=True))
    refused(
        "codes beyond the bins",
        StructBoost(MulticlassTask(3), C=10.0, max_rounds=2).fit,
        BinnedTable.open(tmp_path / "table"),
        y,
    )


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mounts a small file system")
def test_a_full_disk_is_an_error_that_leaves_nothing_behind(tmp_path):
    program = (
        "import os, sys, numpy as np\n"
        "from structboost import BinnedTable\n"
        "try:\n"
        "    table = np.random.default_rng(0).random((50_000, 20))\n"
        "    BinnedTable.from_array(sys.argv[1] + '/table', table)\n"
        "except OSError as error:\n"
        "    print(error.errno, os.listdir(sys.argv[1]))\n"
    )
    mount = f"mount -t tmpfs -o size=64k none {tmp_path}"
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, mount], capture_output=True, check=False).returncode
    ):
        pytest.skip("no file system can be mounted here")
    command = f'{mount} && exec "$0" -c "$1" {tmp_path}'
    done = subprocess.run(
        [*unshare, command, sys.executable, program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{errno.ENOSPC} []\n"
