"""Measurements of pages on made data, and units that are stored, shared, resumed or interrupted."""

import os
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng
from sklearn.datasets import make_classification

from benchmarks.ours import decisions as ours
from benchmarks.ours import methods, sparse
from benchmarks.papers import auc, decisions, mo_ecc, multiclass
from benchmarks.runner import commands, experiment, machine, protocol
from benchmarks.runner.datasets import Table, parts, split
from benchmarks.runner.experiment import (
    Experiment,
    Runner,
    Source,
    Unit,
    code_of_all_results,
    content_of,
)
from benchmarks.runner.records import FIELDS, record, summary
from benchmarks.structures import hierarchies, label_sets, pairs
from structboost import HierarchicalMultiLabelTask, MatchingTask, StructuredSVM
from tests.helpers.engine_tasks import PressingTask

pytestmark = pytest.mark.benchmarks


def tables(n_classes=3):
    X, y = make_classification(200, 6, n_informative=4, n_classes=n_classes, random_state=0)
    return parts(Table(X.astype(np.float32), y), 0)


# Tables


def test_a_split_is_seeded_stratified_and_a_partition():
    y = np.repeat([0, 1, 2, 3], [40, 20, 4, 2])
    train, validation, test = split(y, seed=3)
    assert sorted(np.concatenate([train, validation, test])) == list(range(len(y)))
    assert np.bincount(y[train]).tolist() == [20, 10, 2, 2]
    assert np.bincount(y[validation], minlength=4).tolist() == [10, 5, 1, 0]
    assert np.array_equal(train, split(y, seed=3).train)
    assert not np.array_equal(train, split(y, seed=4).train)


def test_a_tie_of_candidates_goes_to_the_earlier_one(monkeypatch):
    method = methods.SSVM()
    values = {1.0: 0.5, 10.0: 0.2, 100.0: 0.2}
    tried = [protocol.Trial({"C": C}, value) for C, value in values.items()]
    monkeypatch.setattr(method, "trials", lambda *_: tried, raising=False)
    assert protocol.measure(method, protocol.ERROR, tables(), 3)["C"] == 10.0


def test_spread_weights_are_taken_only_where_they_help_the_validation_part(monkeypatch):
    parts_of, method = tables(), methods.stumps(0.05)
    for helps in (True, False):

        def output(model, X, helps=helps):
            is_good = (getattr(model, "spread", 0.0) > 0) == helps
            held = len(X) == len(parts_of.validation.y)
            return parts_of.validation.y * is_good if held else np.zeros(len(X))

        monkeypatch.setattr(method, "output", output)
        result = protocol.measure(method, protocol.ERROR, parts_of, 2)
        assert result["params"].get("spread") == (0.05 if helps else None)
        assert len(result["validation"]) == 3  # two C, and the better one with spread weights


CLASSIFIERS = multiclass.learners(Source("glass", Path()))
RANKERS = {one.name: one for one in (*auc.METHODS, methods.M_SLACK)}


@pytest.mark.parametrize("name", [*CLASSIFIERS, *RANKERS])
def test_a_method_of_the_tables_beats_guessing_with_settings_of_its_own(name, monkeypatch):
    monkeypatch.setattr("benchmarks.peers.classifiers.MAX_ADABOOST_ROUNDS", 20, raising=False)
    monkeypatch.setattr(methods, "MAX_ROUNDS", 30)
    if name in CLASSIFIERS:
        result = protocol.measure(CLASSIFIERS[name], protocol.ERROR, tables(), 1)
        assert result["value"] < 0.5
    else:
        result = protocol.measure(RANKERS[name], protocol.AUC, tables(2), 1)
        assert result["value"] > 0.7
    assert len(result["validation"]) <= 2
    assert result["seconds"] > 0
    assert result["predict_us"] > 0


def test_a_slow_formulation_is_timed_beside_ours_in_processes_of_their_own():
    result = auc.compare(Source("wine", Path()), methods.M_SLACK, **{"class": 0})
    assert result["status"] == "ok"
    assert result["value"] > 0.9
    assert result["ratio"] == pytest.approx(result["seconds"] / result["seconds_1slack"])


def test_code_words_and_shared_features_are_learned_on_made_tables():
    train, _, test = tables()
    result = mo_ecc.compare("mo", "stump", "stage_wise", train, test, 0)
    assert max(row["test_error"] for row in result["rows"][-2:]) < 0.5
    curve = sparse.shared(train, test, 4)
    assert curve.features[-1] <= 5
    assert min(curve.errors) < 0.6


# Decisions


@pytest.mark.parametrize("name", [ours.TWO_STAGE[0].name, ours.LINEAR])
def test_costs_for_testing_only_choose_no_setting(name):
    instance, rows = ours.routes(4, 135, n=40, n_test=40), np.arange(40)
    instance = instance._replace(chosen_on=(rows[:30], rows[30:]))
    method = decisions.learners(Source("degree_4", Path()))[name]
    result = ours.tuned(method, instance, 2)
    assert 0.0 < result["value"] < 1.0
    costs = instance.costs.copy()
    costs[40:] += 100.0
    repeat = ours.tuned(method, instance._replace(costs=costs), 2)
    assert repeat["params"] == result["params"]
    assert repeat["validation"] == result["validation"]


# Structures


def test_losses_of_sets_and_cuts_are_those_of_their_definitions():
    true, predicted = np.array([[1, 1, 0], [0, 0, 0]]), np.array([[1, 0, 0], [0, 0, 0]])
    losses = [loss(true, predicted) for loss in label_sets.LOSSES.values()]
    assert losses == pytest.approx([1 / 6, 1 / 2, 1 - (2 / 3 + 1) / 2])
    responses, seen = np.array([[0.4, -0.2, -3.0]]), np.array([[0, 0, 1], [1, 0, 0]])
    assert label_sets.decide_by_cut(responses, true, -0.5).tolist() == [[1, 1, 0]]
    assert label_sets.decide_seen(responses, seen, 0.0).tolist() == [[1, 0, 0]]


def test_records_are_compared_only_where_they_agree_in_a_key():
    empty = dict.fromkeys(pairs.FIELDS, "")
    left = [{**empty, "given_name": "anna", "postcode": "12"}, {**empty, "surname": "ray"}]
    right = [{**empty, "postcode": "99"}, {**empty, "given_name": "anne", "postcode": "12"}]
    x = pairs.candidates(left, right)
    assert x.pairs.tolist() == [[0, 1]]  # nothing in common is no key
    # Letter pairs " a", "an", "nn" of 5 and 5; only the name and the postcode are not empty.
    assert x.features[0, :2].tolist() == [0.6, 0.0]
    assert x.features[0, 1::2].sum() == len(pairs.FIELDS) - 2
    assert pairs.among_candidates(x, np.array([1, 0])).tolist() == [1, -1]
    # A true pair that is no candidate counts as missed.
    part = pairs.Pairs([x], [np.array([1, -1])])
    task = MatchingTask(unmatched=True)
    assert pairs.error(task, lambda x: np.ones(1, int), part) == pytest.approx(100 / 3)


def test_scores_of_a_hierarchy_are_closed_and_count_where_they_are_evaluated():
    Y = np.array([[1, 0, 0], [1, 1, 1], [1, 0, 1]])
    task = HierarchicalMultiLabelTask(3, [[0, 1]])
    counts, part = np.array([True, True, False]), np.array([0, 2, 2])
    data = hierarchies.Rows(np.zeros((3, 1)), Y, part, counts, task)
    p = np.array([[0.1, 0.9, 0.0], [0.8, 0.2, 0.0]])
    # 0.9, 0.9, 0.8 are right, and the label above has the score of the one below it.
    assert hierarchies.score(data, hierarchies.TEST, p) == 1.0


# Units


def unit_of(run, **case):
    one = Experiment({}, {}, lambda source, learner, **case: run())
    return Unit(one, Source("d", Path()), "m", None, case)


def counting(calls, **case):
    return unit_of(lambda: {"value": 1 / 3, "n": calls.append(1)}, **case)


def test_a_unit_is_measured_once_for_each_of_its_cases_with_the_digits_of_a_page(tmp_path, capsys):
    calls = []
    for _ in range(2):
        ((_, result),) = Runner(tmp_path, 1).finish([counting(calls)])
        assert result["value"] == 0.33333333
    assert len(calls) == 1
    assert "kept" in capsys.readouterr().err
    Runner(tmp_path, 2).finish([counting(calls, repeat=1)])
    assert len(calls) == 2
    path = tmp_path / f"{counting(calls).key}.json"
    path.write_bytes(path.read_bytes()[:20])  # torn
    Runner(tmp_path, 1).finish([counting(calls)])
    assert len(calls) == 3


def test_records_are_told_apart_by_cases_and_have_the_facts_of_results():
    """The gap that was reached is in the record, not lost beside the gap that was asked for."""
    measure = {"metrics": {"error": "error"}, "by": ("n",)}
    one = Experiment({}, {}, lambda source, learner: None, **measure)
    units = [unit_of(dict, gap=0.02, repeat=k, n=k // 2) for k in range(3)]
    results = [{"error": 0.1, "gap": 0.004}, {"error": 0.3, "gap": 0.01}]
    results.append({"gap": 0.1, "rows": [{"error": 0.5}, {"error": 0.6, "method": "p"}]})
    made = one.records("d", list(zip(units, results, strict=True)))
    told = [(r["method"], r["n"], r["value"], r["gap"]) for r in made]
    assert told == [("m", 0, 0.2, 0.01), ("m", 1, 0.5, 0.1), ("p", 1, 0.6, 0.1)]
    assert "repeat" not in made[0]


def test_ctrl_c_ends_the_run_and_keeps_finished_units_but_not_half_a_fit(tmp_path):
    """A task presses Ctrl-C, and the machine keeps its weights, as trackers do."""

    def trains_on():
        machine = StructuredSVM(PressingTask(at=3), C=300.0, tol=1e-9, random_state=0)
        machine.fit(default_rng(0).normal(size=(40, 3)), np.arange(40) % 3)
        return {"value": 0.5}

    calls, unit = [], unit_of(trains_on, repeat=1)
    runner = Runner(tmp_path, 3)
    with pytest.raises(KeyboardInterrupt):
        runner.finish([counting(calls), unit, counting(calls, repeat=2)])
    assert len(calls) == 1
    assert runner.kept(unit) == {}
    assert runner.kept(counting(calls))


def test_a_key_follows_the_code_the_data_the_case_and_the_data_set(tmp_path, monkeypatch):
    def key(name="d", **case):
        content_of.cache_clear()
        code_of_all_results.cache_clear()
        one = Experiment({name: ["d.txt"]}, {"m": len}, dict, lambda *_: [case])
        return one.units(name, tmp_path)[0].key

    root, module = tmp_path / "root", tmp_path / "root/structboost/deep/module.py"
    module.parent.mkdir(parents=True)
    module.write_text("a = 1\n")
    (tmp_path / "d.txt").write_text("rows")
    monkeypatch.setattr(experiment, "ROOT", root)
    keys = [key(), key()]
    (module.parent / "module.pyc").write_text("compiled")
    keys.append(key())
    assert len(set(keys)) == 1
    keys += [key(repeat=1), key("e")]
    module.write_text("a = 2\n")
    keys.append(key())
    (tmp_path / "d.txt").write_text("other rows")
    keys.append(key())
    monkeypatch.setattr(experiment, "versions", lambda: ["numpy 99.0"])
    keys.append(key())
    assert len(set(keys)) == 6


# The command line


def test_a_page_with_a_failed_unit_names_it_and_has_the_others(page, command, tmp_path, capsys):
    made = page(fails=(1,))
    assert command() == 1
    assert "ValueError: no" in capsys.readouterr().err
    assert len(made.computed) == 6
    assert "2 of 6 units are missing: a, m repeat 1" in (tmp_path / "results/auc.md").read_text()


def test_a_page_is_measured_once_and_says_of_which_commits(page, command, tmp_path, monkeypatch):
    made, results = page(), tmp_path / "results"
    for name, more in (("1111111111", ["--only", "a"]), ("2222222222", []), ("3333333333", [])):
        there = {**machine.this_run(), "commit": name}
        monkeypatch.setattr(experiment, "this_run", lambda there=there: there)
        assert command(*more) == 0
    assert len(made.computed) == 6
    text = (results / "auc.md").read_text()
    for name, is_said in (("1111111111", True), ("2222222222", True), ("3333333333", False)):
        assert (f"\n- commit {name}" in text) == is_said
    assert {path.name for path in results.iterdir()} == {"auc.md", "auc.json"}


def test_unknown_names_and_missing_files_are_named(page, command, capsys, tmp_path):
    page()
    assert command("--only", "nowhere") == 2
    assert "auc has a, b" in capsys.readouterr().err
    assert commands.main(["run", "nothing", "--data", str(tmp_path)]) == 2
    assert "Benchmarks: auc, " in capsys.readouterr().err
    (tmp_path / "b.txt").unlink()
    assert command() == 2
    assert "b.txt is missing; --data must name a directory" in capsys.readouterr().err


def test_models_fit_and_predict_with_the_code_of_all_processors_with_avx2():
    program = """
import numpy as np, numba
from threadpoolctl import threadpool_info
from benchmarks.runner import machine
from structboost import StructBoostClassifier
X = np.random.default_rng(0).normal(size=(80, 4)); y = (X[:, 0] > X[:, 1]).astype(int)
model = StructBoostClassifier("hinge", C=10.0, random_state=0).fit(X, y)
assert model.score(X, y) > 0.8
assert machine.this_run()["portable"]
assert "512" not in numba.core.config.CPU_FEATURES
assert {library["num_threads"] for library in threadpool_info()} == {1}
assert {library.get("architecture") for library in threadpool_info()} <= {"Haswell", None}
"""
    child = [sys.executable, "-c", program]
    starter = f"from benchmarks.runner.machine import measured_alike; measured_alike({child!r})"
    environment = {**os.environ, "PYTHONPATH": str(machine.ROOT)}
    subprocess.run([sys.executable, "-c", starter], env=environment, check=True)


def test_a_limit_ends_a_process_and_a_death_is_an_error():
    assert machine.limited(0.2, dict, time.sleep, 60) == {"status": "time_limit"}
    assert machine.limited(60, dict, dict, [("at", 2)]) == {"at": 2, "status": "ok"}
    with pytest.raises(BrokenProcessPool):
        machine.limited(60, dict, os.abort)


# Records, tables


def test_a_record_has_all_fields_and_no_nan_and_a_failed_write_leaves_the_old_file(tmp_path):
    made = record("d", "m", "auc", np.float64("nan"), gap=np.inf, more=[np.float32(1)])
    assert list(made)[: len(FIELDS)] == list(FIELDS)
    assert (made["value"], made["gap"], made["more"]) == (None, None, [1.0])


def test_repeats_are_summarised_by_mean_median_and_largest_gap():
    rows = [{"value": v, "seconds": s, "gap": g} for v, s, g in ((1.0, 1, 0.1), (3.0, 5, 0.2))]
    fields = summary(rows)
    assert [fields[k] for k in ("value", "seconds", "gap", "repeats")] == [2.0, 3.0, 0.2, 2]
    assert fields["std"] == pytest.approx(np.sqrt(2))
    stopped = summary([*rows, {"value": None, "status": "time_limit"}])
    assert (stopped["gap"], stopped["status"]) == (None, "time_limit")
