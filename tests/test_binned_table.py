"""Tables on disk train as those in memory."""

import numpy as np
import pytest

from structboost import BinnedTable, BinnedTableError, MulticlassTask, RankingTask, StructBoost, TaskError, row_blocks
from structboost.weak import binning
from tests.test_engines import classes, what_was_learned


@pytest.mark.parametrize("engine", ["serial", "threads", "processes"])
def test_a_table_on_disk_trains_the_same_bits(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(row_blocks, "BLOCK_ROWS", 64)
    X, y = classes(500)
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    parameters = {"C": 10.0, "tol": 1e-3, "max_rounds": 5}
    in_memory = StructBoost(MulticlassTask(3), **parameters).fit(X, y)
    BinnedTable.from_array(tmp_path / "table", X)
    table = BinnedTable.open(tmp_path / "table")
    on_disk = StructBoost(MulticlassTask(3), engine=engine, n_jobs=2, **parameters).fit(table, y)
    assert what_was_learned(on_disk) == what_was_learned(in_memory)


def test_thresholds_of_many_rows_are_those_of_a_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(binning, "SAMPLED_ROWS", 100)
    X, _ = classes(1000)
    sample = binning.sampled_rows(1000)
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
        assert (tmp_path / "whole" / "codes.npy").read_bytes() == (tmp_path / made.path / "codes.npy").read_bytes()
    assert table.shape == (300, 4)


def test_what_is_wrong_with_a_table(tmp_path):
    X, y = classes(60)
    with pytest.raises(BinnedTableError, match="have 60 rows, n_rows is 70"):
        BinnedTable.from_batches(tmp_path / "table", [X], 70)
    with pytest.raises(BinnedTableError, match="more than n_rows=50"):
        BinnedTable.from_batches(tmp_path / "table", [X], 50)
    with pytest.raises(BinnedTableError, match="batches is empty"):
        BinnedTable.from_batches(tmp_path / "table", [], 50)
    holed = X.copy()
    holed[7, 2] = np.nan
    with pytest.raises(TaskError, match="Feature 2 of part 7 is NaN"):
        BinnedTable.from_array(tmp_path / "table", holed)
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError, match="no binned table"):
        BinnedTable.open(tmp_path / "table")
    table = BinnedTable.from_array(tmp_path / "table", X)
    with pytest.raises(FileExistsError, match="exists already"):
        BinnedTable.from_array(tmp_path / "table", X)
    with pytest.raises(TaskError, match="one part an example"):
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


class NeedsInputs(MulticlassTask):
    reads_inputs = True


def test_queries_need_their_rows_together(tmp_path):
    X, y = classes(30)
    table = BinnedTable.from_array(tmp_path / "table", X)
    with pytest.raises(ValueError, match="30 examples and Y 1"):
        StructBoost(RankingTask(), C=1.0).fit(table, [y])
