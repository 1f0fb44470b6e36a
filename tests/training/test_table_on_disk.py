"""Tables on disk train as those in memory."""

import errno
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from structboost import BinnedTable, MulticlassTask, RankingTask, StructBoost
from structboost.errors import BinnedTableError, TaskError
from structboost.learners import binning
from structboost.runtime import blocks
from structboost.training import table_on_disk as binned_table
from tests.helpers.damaged_files.archives import put_together, taken_apart
from tests.training.test_engines import classes, what_was_learned


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


def test_batches_are_binned_as_they_come(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    X, _ = classes(300)
    arrays = (X[first : first + 70] for first in range(0, 300, 70))
    table = BinnedTable.from_batches(tmp_path / "arrays", arrays, 300)
    columns = {f"x{f}": X[:, f] for f in range(X.shape[1])}
    batches = pyarrow.table(columns).to_batches(max_chunksize=64)
    other = BinnedTable.from_batches(tmp_path / "batches", batches, 300)
    whole = BinnedTable.from_array(tmp_path / "whole", X)
    for made in (table, other):
        assert np.array_equal(made.bins.values, whole.bins.values)
        assert (tmp_path / "whole" / "codes.npy").read_bytes() == (
            tmp_path / made.path / "codes.npy"
        ).read_bytes()
    assert table.shape == (300, 4)


def test_damaged_tables_raise_errors_that_name_the_damage(tmp_path):
    X, y = classes(60)
    with pytest.raises(BinnedTableError, match="have 60 rows, n_rows is 70"):
        BinnedTable.from_batches(tmp_path / "table", [X], 70)
    with pytest.raises(BinnedTableError, match="more than n_rows=50"):
        BinnedTable.from_batches(tmp_path / "table", [X], 50)
    with pytest.raises(BinnedTableError, match="batches is empty"):
        BinnedTable.from_batches(tmp_path / "table", [], 50)
    holed = X.copy()
    holed[7, 2] = np.inf
    with pytest.raises(TaskError, match="Feature 2 of part 7 is infinite"):
        BinnedTable.from_array(tmp_path / "table", holed)
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError, match="no binned table"):
        BinnedTable.open(tmp_path / "table")
    table = BinnedTable.from_array(tmp_path / "table", X)
    with pytest.raises(FileExistsError, match="exists already"):
        BinnedTable.from_array(tmp_path / "table", X)
    with pytest.raises(TaskError, match="one part per example"):
        StructBoost(NeedsInputs(3), C=1.0).fit(table, y)
    for changes in ({"weak_learner": "tree"}, {"formulation": "m_slack"}):
        with pytest.raises(ValueError, match="which needs formulation='one_slack'"):
            StructBoost(MulticlassTask(3), C=1.0, **changes).fit(table, y)
    with pytest.raises(ValueError, match="leave exact=False"):
        StructBoost(MulticlassTask(3), C=1.0, exact=True).fit(table, y)
    with pytest.raises(ValueError, match="60 examples and Y 59"):
        StructBoost(MulticlassTask(3), C=1.0).fit(table, y[1:])
    codes = tmp_path / "table" / "codes.npy"
    codes.write_bytes(codes.read_bytes()[:100])
    with pytest.raises(BinnedTableError, match="damaged"):
        BinnedTable.open(tmp_path / "table")


@pytest.mark.parametrize(
    ("shape", "problem"),
    [(b"(4, 20)", "do not fit its thresholds"), (b"(4,5,6)", "of another type")],
)
def test_codes_that_declare_fewer_rows_or_more_dimensions_are_refused(shape, problem, tmp_path):
    BinnedTable.from_array(tmp_path / "table", classes(30)[0])
    codes = tmp_path / "table" / "codes.npy"
    codes.write_bytes(codes.read_bytes().replace(b"(4, 30)", shape))
    with pytest.raises(BinnedTableError, match=problem):
        BinnedTable.open(tmp_path / "table")


class NeedsInputs(MulticlassTask):
    reads_inputs = True


def test_queries_need_their_rows_together(tmp_path):
    X, y = classes(30)
    table = BinnedTable.from_array(tmp_path / "table", X)
    with pytest.raises(ValueError, match="30 examples and Y 1"):
        StructBoost(RankingTask(), C=1.0).fit(table, [y])


def test_batches_of_any_size_make_the_same_table(tmp_path, monkeypatch):
    monkeypatch.setattr(binned_table, "_ROWS_AT_A_TIME", 50)
    X, y = classes(330)
    whole = BinnedTable.from_array(tmp_path / "whole", X)
    assert len(whole.checksums) == 7
    for number, sizes in enumerate(([330], [1] * 330, [49, 1, 0, 51, 100, 129], [120, 210])):
        ends = np.cumsum(sizes)
        batches = [X[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        table = BinnedTable.from_batches(tmp_path / str(number), batches, 330)
        assert np.array_equal(table.checksums, whole.checksums)
        assert (tmp_path / str(number) / "codes.npy").read_bytes() == (
            tmp_path / "whole" / "codes.npy"
        ).read_bytes()
    StructBoost(MulticlassTask(3), C=10.0, max_rounds=2).fit(BinnedTable.open(tmp_path / "1"), y)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_training_detects_one_wrong_byte_of_the_codes(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 64)
    X, y = classes(500)
    codes = Path(BinnedTable.from_array(tmp_path / "table", X).path) / "codes.npy"
    content = bytearray(codes.read_bytes())
    content[-700] ^= 1
    codes.write_bytes(bytes(content))
    with pytest.raises(
        BinnedTableError, match=r"rows from 0 on are not those written.*make the table again"
    ):
        StructBoost(MulticlassTask(3), C=10.0, max_rounds=2, engine=engine, n_jobs=2).fit(
            BinnedTable.open(tmp_path / "table"), y
        )


def test_codes_beyond_the_bins_are_refused(tmp_path):
    X, y = classes(250)
    BinnedTable.from_array(tmp_path / "table", X)
    bins = tmp_path / "table" / "bins.npz"
    header, arrays = taken_apart(bins.read_bytes())
    # Two bins a feature: the codes go up to 249.
    arrays |= {"thresholds": arrays["thresholds"][:4], "indptr": np.arange(5)}
    bins.write_bytes(put_together(header, arrays, sealed=True))
    with pytest.raises(BinnedTableError, match="codes beyond the bins"):
        StructBoost(MulticlassTask(3), C=10.0, max_rounds=2).fit(
            BinnedTable.open(tmp_path / "table"), y
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
