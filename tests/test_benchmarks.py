"""The benchmarks' own machinery, on made data."""

import json
import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score

from benchmarks import __main__ as command_line
from benchmarks import auc, multiclass, paper, protocol, speed, table
from benchmarks.datasets import made_table, some_of_each_class
from benchmarks.methods import rankboost
from benchmarks.methods.adaboost import AdaBoost
from benchmarks.methods.base import Table, Trial
from benchmarks.methods.boosted_trees import HistGradientBoosting
from benchmarks.methods.linear import OneVsAllSVM
from benchmarks.records import FIELDS, record, summary, write_json
from benchmarks.splits import split
from benchmarks.units import Runner, Store, Unit, share, source_hash
from structboost import InterruptedFitWarning


def ranking_tables(seed=0, n=120):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 8, size=(n, 4)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] + rng.normal(scale=3.0, size=n) > 9).astype(np.int64)
    return protocol.parts(X, y, y, repeat=0)


def class_tables(n=200):
    X, y = make_classification(n, 6, n_informative=4, n_classes=3, random_state=0)
    return protocol.parts(X.astype(np.float32), y, y, repeat=0)


# RankBoost


def pairwise_rankboost(X, y, criterion, shrinkage, n_rounds):
    """Figure 1 of the RankBoost paper on all pairs, one weight for each."""
    worse, better = np.meshgrid(np.flatnonzero(y == 0), np.flatnonzero(y == 1), indexing="ij")
    worse, better = worse.ravel(), better.ravel()
    smoothing = 1.0 / len(worse)
    stumps = [(f, t, X[:, f] > t) for f in range(X.shape[1]) for t in np.unique(X[:, f])[:-1]]
    D = np.full(len(worse), 1.0 / len(worse))
    scores = np.zeros(len(y))
    for _ in range(n_rounds):
        gains, weights = [], []
        for _, _, h in stumps:
            step = h[better].astype(float) - h[worse]
            right, wrong = D[step > 0].sum(), D[step < 0].sum()
            r = right - wrong
            if criterion == "Z":
                gains.append(-(1 - right - wrong + 2 * np.sqrt(right * wrong)))
                weights.append(0.5 * np.log((right + smoothing) / (wrong + smoothing)))
            else:
                gains.append(abs(r))
                weights.append(0.5 * np.log((1 + r + smoothing) / (1 - r + smoothing)))
        k = int(np.argmax(gains))
        h, weight = stumps[k][2], shrinkage * weights[k]
        scores += weight * h
        D *= np.exp(weight * (h[worse].astype(float) - h[better]))
        D /= D.sum()
    return scores, D, worse, better


@pytest.mark.parametrize("criterion", ["r", "Z"])
@pytest.mark.parametrize("shrinkage", [1.0, 0.3])
def test_rankboost_equals_boosting_all_pairs(criterion, shrinkage):
    train, _, _ = ranking_tables()
    params = {"criterion": criterion, "shrinkage": shrinkage, "rounds": 12}
    method = rankboost.RankBoost()
    scores = method.output(method.fit(train, params), train.X)
    expected, D, worse, better = pairwise_rankboost(train.X, train.y, criterion, shrinkage, 12)
    # Stumps of equal gain may be taken in another order: what they do to the pairs must agree.
    assert np.allclose(scores[better] - scores[worse], expected[better] - expected[worse], atol=1e-8)
    v = rankboost.pair_factors(scores, train.y == 1)
    assert np.allclose(v[worse] * v[better], D, atol=1e-12)


def test_rankboost_gain_and_weights_equal_those_of_pairs():
    train, _, _ = ranking_tables(seed=1)
    positive = train.y == 1
    v = rankboost.pair_factors(np.random.default_rng(0).normal(size=len(positive)), positive)
    assert v[positive].sum() == pytest.approx(1)
    assert v[~positive].sum() == pytest.approx(1)
    codes = train.X.T.astype(np.int32)
    for minimise_z in (False, True):
        f, b, p, q = rankboost.best_stump(codes, np.full(4, 8), positive, v, minimise_z)
        h = codes[f] > b
        assert p == pytest.approx(v[positive & h].sum())
        assert q == pytest.approx(v[~positive & h].sum())


def test_rankboost_auc_counts_ties_half():
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores = rng.integers(0, 5, 30).astype(float)
        y = np.arange(30) % 3 == 0
        assert rankboost.auc(scores, y) == pytest.approx(roc_auc_score(y, scores))


def test_rankboost_stops_where_nothing_is_left_to_learn():
    constant = Table(np.ones((6, 2), np.float32), np.array([0, 1, 0, 1, 0, 1]))
    model = rankboost.RankBoost().fit(constant, {"criterion": "r", "shrinkage": 1.0, "rounds": 5})
    assert len(model.weight) == 0


# Protocol


def test_split_is_seeded_stratified_and_a_partition():
    y = np.repeat([0, 1, 2, 3], [40, 20, 4, 2])
    train, validation, test = split(y, seed=3)
    assert sorted(np.concatenate([train, validation, test])) == list(range(len(y)))
    assert np.bincount(y[train]).tolist() == [20, 10, 2, 2]
    assert np.bincount(y[validation], minlength=4).tolist() == [10, 5, 1, 0]
    assert np.array_equal(train, split(y, seed=3).train)
    assert not np.array_equal(train, split(y, seed=4).train)


def test_spread_keeps_the_last_candidate():
    candidates = [{"C": C} for C in range(6)]
    assert protocol.spread(candidates, 6) == candidates
    assert [c["C"] for c in protocol.spread(candidates, 2)] == [0, 5]
    assert [c["C"] for c in protocol.spread(candidates, 3)] == [0, 2, 5]
    assert [c["C"] for c in protocol.spread(candidates, 1)] == [5]


def test_protocol_says_what_was_cut():
    assert protocol.Protocol().note is None
    assert "3 of 5 repeats" in protocol.Protocol(3, 6).note


class Recorder(OneVsAllSVM):
    """Two candidates, the second one better."""

    def trials(self, train, validation, candidates, objective):
        return [Trial({"C": 1.0}, 0.5), Trial({"C": 10.0}, 0.2), Trial({"C": 100.0}, 0.2)]


def test_measure_takes_the_first_of_the_best_candidates():
    result = protocol.measure(Recorder(), protocol.ERROR, class_tables(), 3)
    assert result["C"] == 10.0
    assert 0 <= result["value"] < 0.5
    assert result["seconds"] > 0
    assert result["predict_us"] > 0


@pytest.mark.parametrize("method", [OneVsAllSVM(), HistGradientBoosting(), AdaBoost()], ids=lambda m: m.name)
def test_classifiers_beat_chance(method, monkeypatch):
    monkeypatch.setattr("benchmarks.methods.adaboost.MAX_ROUNDS", 20)
    result = protocol.measure(method, protocol.ERROR, class_tables(), 1)
    assert result["value"] < 0.5
    assert len(result["validation"]) == 1


def test_lightgbm_beats_chance():
    pytest.importorskip("lightgbm")
    from benchmarks.methods.boosted_trees import LightGBMClassifier, LightGBMRanker

    assert protocol.measure(LightGBMClassifier(), protocol.ERROR, class_tables(), 1)["value"] < 0.5
    assert protocol.measure(LightGBMRanker(), protocol.AUC, ranking_tables(), 1)["value"] > 0.6


def test_every_grid_has_the_same_size():
    for method in (*auc.METHODS, *multiclass.METHODS):
        assert len(method.candidates) == protocol.CANDIDATES, method.name


def test_paper_figures():
    assert paper.TABLE_2["structboost_stump"]["vowel"] == (pytest.approx(0.175), pytest.approx(0.022))
    assert paper.TABLE_2["ovr_svm"]["mnist"] == (pytest.approx(0.092), pytest.approx(0.002))
    assert all(len(row) == 10 for row in paper.TABLE_2.values())


# Records and units


def test_records_have_all_fields_and_no_nan():
    made = record("d", "m", "auc", np.float64("nan"), gap=np.inf, rounds=np.int64(3), extra=[np.float32(1)])
    assert list(made)[: len(FIELDS)] == list(FIELDS)
    assert made["value"] is None
    assert made["gap"] is None
    assert made["extra"] == [1.0]
    json.dumps(made, allow_nan=False)


def test_summary_of_repeats():
    results = [{"value": 0.1, "seconds": 1.0, "gap": 0.01}, {"value": 0.3, "seconds": 5.0, "gap": 0.02}]
    fields = summary(results)
    assert fields["value"] == pytest.approx(0.2)
    assert fields["std"] == pytest.approx(np.std([0.1, 0.3], ddof=1))
    assert (fields["seconds"], fields["gap"], fields["repeats"], fields["status"]) == (3.0, 0.02, 2, "ok")
    assert summary([*results, {"value": None, "status": "time_limit"}])["gap"] is None
    assert summary([*results, {"value": None, "status": "time_limit"}])["status"] == "time_limit"


def test_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "records.json"
    write_json(path, [1])
    with pytest.raises(TypeError):
        write_json(path, [object()])
    assert json.loads(path.read_text()) == [1]
    assert list(tmp_path.iterdir()) == [path]


def counting_unit(calls, version="1", needs=None, **params):
    def run(*needed):
        calls.append(needed)
        return {"value": 0.5}

    return Unit("auc", "d", "m", params, version, run, needs)


def test_units_resume(tmp_path, capsys):
    calls = []
    for _ in range(2):
        Runner(Store(tmp_path), 1).finish([counting_unit(calls)])
    assert len(calls) == 1
    assert "kept" in capsys.readouterr().err
    Runner(Store(tmp_path), 2).finish([counting_unit(calls, version="2"), counting_unit(calls, repeat=1)])
    assert len(calls) == 3


def test_unit_gets_what_it_needs(tmp_path):
    first_calls, calls = [], []
    first = counting_unit(first_calls, repeat=0)
    second = counting_unit(calls, needs=first)
    assert Runner(Store(tmp_path), 2).finish([second]) == []  # not there yet
    Runner(Store(tmp_path), 2).finish([first, second])
    assert calls[0][0]["value"] == 0.5
    assert second.key != counting_unit([], needs=counting_unit([], version="2", repeat=0)).key


def test_failing_unit_does_not_stop_the_others(tmp_path, capsys):
    def fail():
        raise ValueError("no")

    failing = Unit("auc", "d", "bad", {}, "1", fail)
    runner = Runner(Store(tmp_path), 2)
    assert len(runner.finish([failing, counting_unit([])])) == 1
    assert runner.failures == ["auc d bad"]
    assert "ValueError: no" in capsys.readouterr().err


def test_only_kept_runs_nothing(tmp_path):
    calls = []
    Runner(Store(tmp_path), 1).finish([counting_unit(calls)])
    both = [counting_unit(calls), counting_unit(calls, repeat=1)]
    assert len(Runner(Store(tmp_path), 2, only_kept=True).finish(both)) == 1
    assert len(calls) == 1


def test_a_model_kept_at_ctrl_c_is_no_result(tmp_path):
    """Trainers end with a warning and a usable model; the benchmark must not keep what such a model gives."""

    def run():
        warnings.warn("Training was interrupted.", InterruptedFitWarning, stacklevel=1)
        return {"value": 0.5}

    unit = Unit("made", "data", "method", {}, "1", run)
    with pytest.raises(KeyboardInterrupt):
        Runner(Store(tmp_path), 1).finish([unit])
    assert Store(tmp_path).get(unit) is None


def test_interrupted_run_keeps_finished_units(tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    calls = []
    units = [counting_unit(calls), Unit("auc", "d", "stop", {}, "1", interrupt)]
    with pytest.raises(KeyboardInterrupt):
        Runner(Store(tmp_path), 2).finish(units)
    Runner(Store(tmp_path), 1).finish([counting_unit(calls)])
    assert len(calls) == 1


def test_shares_cover_all_units_and_keep_what_belongs_together():
    first = [counting_unit([], repeat=k) for k in range(5)]
    units = [unit for one in first for unit in (one, counting_unit([], needs=one))]
    shares = [share(units, k, 2) for k in range(2)]
    assert sorted(map(units.index, shares[0] + shares[1])) == list(range(10))
    for own in shares:
        assert all(unit.needs is None or unit.needs in own for unit in own)


def test_torn_unit_file_counts_as_none(tmp_path):
    calls = []
    unit = counting_unit(calls)
    (tmp_path / f"{unit.key}.json").write_text('{"resu')
    Runner(Store(tmp_path), 1).finish([unit])
    assert len(calls) == 1


def test_source_hash_follows_the_code(tmp_path):
    (tmp_path / "a.py").write_text("1")
    before = source_hash([tmp_path])
    assert before == source_hash([tmp_path])
    (tmp_path / "a.py").write_text("2")
    assert before != source_hash([tmp_path])


# Command line and tables


def finished(method, value, **params):
    result = {"value": value, "train_value": value, "seconds": 1.0, "predict_us": 2.0, "gap": 0.01, "C": 10.0}
    if method.startswith("structboost"):
        result |= {"gap_at_1000": 0.005, "certified": True}
    return Unit("b", "glass", method, {"note": None, **params}, "1", dict), result


def test_auc_records_by_class_and_mean():
    done = [finished("structboost_1slack", 0.8 + 0.1 * c, **{"class": c, "repeat": r}) for c in (0, 1) for r in (0, 1)]
    slow = {"status": "time_limit", "ratio": 50.0, "seconds": 50.0, "seconds_1slack": 1.0, "pairs": 7, "value": None}
    done.append((finished("structboost_printed", None, **{"class": 0})[0], slow))
    made = auc.records("glass", done)
    assert [(r["method"], r["class"]) for r in made] == [
        ("structboost_1slack", 0),
        ("structboost_1slack", 1),
        ("structboost_1slack", "mean"),
        ("structboost_printed", 0),
        ("structboost_printed", "mean"),
    ]
    assert made[2]["value"] == pytest.approx(0.85)
    assert made[2]["repeats"] == 2
    assert made[2]["paper"] == 0.844
    assert made[2]["gap_at_1000"] == 0.005
    text = auc.show(made)
    assert "1: 90.00 / 84.4" in text
    assert ">50.0" in text


def test_multiclass_table_has_the_papers_figures():
    made = multiclass.records("glass", [finished("structboost_1slack", 0.3), finished("lightgbm", 0.25)])
    assert [r["paper"] for r in made] == [pytest.approx(0.358), None]
    assert "30.0 (35.8)" in multiclass.show(made)


def test_speed_fits_exponents_on_large_sizes():
    sizes = [10_000, 100_000, 200_000, 400_000]
    done = [
        (
            Unit("speed", "rows", "m", {"rows": n, "features": 8, "classes": 2}, "1", dict),
            {"status": "ok", "round_seconds": n / 1e6, "bytes_per_example": 64.0, "seconds": n / 1e5},
        )
        for n in sizes
    ]
    made = speed.records("rows", done)
    slopes = {r["metric"]: r["value"] for r in made if r["metric"].endswith("exponent")}
    assert slopes == {
        "fit_seconds_exponent": pytest.approx(1.0),
        "round_seconds_exponent": pytest.approx(1.0),
        "bytes_exponent": pytest.approx(1.0),
    }
    assert "400000" in speed.show(made)


def test_command_line(tmp_path, capsys, monkeypatch):
    assert command_line.main(["list"]) == 0
    assert "satimage" in capsys.readouterr().out
    run = ["run", "auc", "--data", str(tmp_path), "--json", str(tmp_path / "out.json")]
    assert command_line.main([*run, "--only", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
    monkeypatch.setattr(auc, "units", lambda name, data_dir, quick: [counting_unit([])])
    monkeypatch.setattr(auc, "records", lambda name, done: [record(name, "m", "auc", len(done))])
    monkeypatch.setattr(auc, "show", lambda made: "the table")
    assert command_line.main([*run, "--only", "wine", "--quick"]) == 0
    assert "the table" in capsys.readouterr().out
    assert json.loads((tmp_path / "out.json").read_text())[0]["dataset"] == "wine"
    assert len(list((tmp_path / ".bench").iterdir())) == 1


def test_jobs_run_the_shares_of_a_command(tmp_path, monkeypatch):
    started = []

    class Finished:
        def __init__(self, command):
            started.append(command[command.index("--share") :])

        def wait(self):
            return 0

    monkeypatch.setattr(command_line.subprocess, "Popen", Finished)
    monkeypatch.setattr(auc, "units", lambda name, data_dir, quick: [counting_unit([])])
    monkeypatch.setattr(auc, "records", lambda name, done: [])
    monkeypatch.setattr(auc, "show", lambda made: "")
    run = ["run", "auc", "--data", str(tmp_path), "--json", str(tmp_path / "out.json"), "--only", "wine"]
    assert command_line.main([*run, "--jobs", "2"]) == 0
    assert started == [["--share", "0", "2"], ["--share", "1", "2"]]


def test_aligned_table():
    assert table.aligned(["", "a"], [["row", "1"]]).splitlines() == ["     a", "---  -", "row  1"]


def test_made_data_and_samples():
    data = made_table(500, 3, 4)
    assert data.X.shape == (500, 3)
    assert data.X.dtype == np.float32
    assert data.content == made_table(500, 3, 4).content
    assert data.content != made_table(500, 3, 4, seed=1).content
    y = np.repeat([0, 1], 50)
    assert np.bincount(y[some_of_each_class(y, 7, seed=0)]).tolist() == [7, 7]


def test_imports_are_followed():
    from benchmarks.imports import imported_sources

    names = {"/".join(path.parts[-2:]) for path in imported_sources("structboost.tasks.multiclass")}
    assert {"tasks/multiclass.py", "structboost/task.py", "tasks/tables.py"} <= names
    assert not any("masters" in name or "__init__" in name for name in names)
    with pytest.raises(ModuleNotFoundError):
        imported_sources("structboost.nothing_of_the_kind")
