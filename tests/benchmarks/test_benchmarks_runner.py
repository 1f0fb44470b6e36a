"""Units that are kept, shared, resumed or interrupted; the code that versions follow."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest

from benchmarks.runner import commands, experiment, limits, processor, provenance, targets
from benchmarks.runner.experiment import (
    Experiment,
    Learner,
    Runner,
    Source,
    Unit,
    code_of_all_results,
    content_of,
)
from benchmarks.runner.pages import across
from benchmarks.runner.records import FIELDS, record, summary, write_json
from structboost import MulticlassTask, StructuredSVM
from structboost.errors import InterruptedFitWarning

pytestmark = pytest.mark.benchmarks


def unit_of(run, version="1", **params):
    return Unit(Experiment({}, {}, run), "d", "m", params, version, run)


def counting(calls, version="1", **params):
    return unit_of(lambda: {"value": 0.5, "n": calls.append(1)}, version, **params)


# Units


def test_a_unit_is_measured_once_for_each_of_its_parameters_and_versions(tmp_path, capsys):
    calls = []
    for _ in range(2):
        assert len(Runner(tmp_path, 1).finish([counting(calls)])) == 1
    assert len(calls) == 1
    assert "kept" in capsys.readouterr().err
    Runner(tmp_path, 2).finish([counting(calls, version="2"), counting(calls, repeat=1)])
    assert len(calls) == 3


def test_a_fact_of_a_result_has_the_place_of_a_case_of_its_name():
    """The gap that was reached is in the record, not lost beside the gap that was asked for."""
    units = [unit_of(lambda: None, gap=0.02, repeat=k) for k in range(2)]
    results = [{"error": 0.1, "gap": 0.004}, {"error": 0.3, "gap": 0.01}]
    experiment = Experiment({}, {}, lambda: None, metrics={"error": "error"})
    (made,) = experiment.records("d", list(zip(units, results, strict=True)))
    assert (made["value"], made["gap"]) == (0.2, 0.01)
    assert "repeat" not in made


@pytest.mark.parametrize("facts", [{}, {"rows": [{}]}, {"rows": 7}])
def test_records_are_told_apart_by_a_case_that_is_called_rows(facts):
    """Rows of a table are a case of some pages, where others have a list of rows in a result."""
    units = [unit_of(lambda: None, rows=n) for n in (10, 20)]
    results = [{"error": 0.1, **facts}, {"error": 0.3, **facts}]
    experiment = Experiment({}, {}, lambda: None, metrics={"error": "error"}, by=("rows",))
    made = experiment.records("d", list(zip(units, results, strict=True)))
    assert [one["rows"] for one in made] == ([7] if facts.get("rows") == 7 else [10, 20])


def test_a_torn_file_counts_as_no_result(tmp_path):
    calls = []
    Runner(tmp_path, 1).finish([counting(calls)])
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:20])
    Runner(tmp_path, 1).finish([counting(calls)])
    assert len(calls) == 2


def test_a_result_has_the_digits_of_a_page(tmp_path):
    """A page and the store of units give the same figures."""
    unit = unit_of(lambda: {"value": 1 / 3, "curve": [2 / 3, 1]})
    for _ in range(2):
        ((_, result),) = Runner(tmp_path, 1).finish([unit])
        assert (result["value"], result["curve"]) == (0.33333333, [0.66666667, 1])


def test_a_failing_unit_is_named_and_the_others_finish(tmp_path, capsys):
    runner = Runner(tmp_path, 2)
    failing = unit_of(lambda: {"value": 1 / 0}, repeat=7)
    assert len(runner.finish([failing, counting([])])) == 1
    assert runner.failures == ["d, m repeat 7"]
    assert "ZeroDivisionError" in capsys.readouterr().err


def keeps_half_a_model():
    """As trainers and trackers of the library do."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        warnings.warn("Training was interrupted.", InterruptedFitWarning, stacklevel=1)
    return {"value": 0.5}


def trains_on():
    """A task presses Ctrl-C; the machine keeps its weights, and a second fit would follow."""

    class PressingTask(MulticlassTask):
        separates_in_batches = True

        def separate(self, X, Y, scores):
            signal.raise_signal(signal.SIGINT)
            return super().separate(X, Y, scores)

    for _ in range(2):
        machine = StructuredSVM(PressingTask(3), C=300.0, tol=1e-9, random_state=0)
        machine.fit(np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 3)
    return {"value": 0.5}


@pytest.mark.parametrize("run", [keeps_half_a_model, trains_on])
def test_ctrl_c_ends_the_run_and_keeps_finished_units_but_not_half_a_fit(tmp_path, run):
    calls, unit = [], unit_of(run, repeat=1)
    runner = Runner(tmp_path, 3)
    with pytest.raises(KeyboardInterrupt):
        runner.finish([counting(calls), unit, counting(calls, repeat=2)])
    assert len(calls) == 1
    assert runner.kept(unit) == {}
    assert runner.kept(counting(calls))["result"]["value"] == 0.5


# The command line


def test_a_page_with_a_failed_unit_names_it(page, command, tmp_path):
    page(fails=(1,))
    assert command() == 1
    assert "2 of 6 units are missing: a, m repeat 1" in (tmp_path / "results/auc.md").read_text()


def test_results_of_another_commit_are_said_to_be_of_it(page, command, tmp_path, monkeypatch):
    for name, more in (("1111111111", ["--only", "a"]), ("2222222222", [])):
        there = {**provenance.this_run(), "commit": name}
        for module in ("experiment", "pages"):
            monkeypatch.setattr(f"benchmarks.runner.{module}.this_run", lambda there=there: there)
        page()
        assert command(*more) == 0
    text = (tmp_path / "results/auc.md").read_text()
    assert "\n- commit 2222222222" in text
    assert "\n- commit 1111111111" in text


def test_a_page_is_measured_once_and_the_index_is_renewed(page, command, tmp_path):
    made, results = page(), tmp_path / "results"
    assert [command(), command()] == [0, 0]
    assert len(made.computed) == 6
    assert {path.name for path in results.iterdir()} == {"auc.md", "auc.json"}
    assert commands.main(["index", "--results", str(results)]) == 2  # auc has other records
    assert command() == 0
    assert "auc" in (results / "index.md").read_text()


def test_unknown_data_sets_missing_packages_and_missing_files_are_named(
    page, command, capsys, monkeypatch, tmp_path
):
    made = page()
    assert command("--only", "nowhere") == 2
    assert "auc has no nowhere; it has a, b" in capsys.readouterr().err
    (tmp_path / "b.txt").unlink()
    assert command() == 2
    assert "b.txt is missing; --data must name a directory" in capsys.readouterr().err
    learner = made.EXPERIMENTS[0].learners["m"]._replace(packages=("no_such_package",))
    made.EXPERIMENTS[0].learners["m"] = learner
    assert command() == 2
    assert "auc needs no_such_package, not installed; `make bench`" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["SIGILL", "SIGSEGV"])
def test_a_run_that_dies_is_named_with_signal_and_remedy(name, capfd):
    death = f"import os, signal; os.kill(os.getpid(), signal.{name})"
    code = processor.measured_alike([sys.executable, "-c", death])
    assert code == 128 + getattr(signal, name)
    said = capfd.readouterr().err
    assert f"The benchmarks ended by {name}" in said
    assert processor.REMEDIES[name] in said


def test_models_fit_and_predict_with_the_code_of_all_processors_with_avx2():
    program = """
import numpy as np, numba
from threadpoolctl import threadpool_info
from benchmarks.runner import provenance
from structboost import StructBoostClassifier
X = np.random.default_rng(0).normal(size=(80, 4)); y = (X[:, 0] > X[:, 1]).astype(int)
model = StructBoostClassifier(objective="hinge", C=10.0, random_state=0).fit(X, y)
assert model.score(X, y) > 0.8
assert provenance.is_portable(provenance.this_run())
assert "512" not in numba.core.config.CPU_FEATURES
assert {library["num_threads"] for library in threadpool_info()} == {1}
(code,) = [str(provenance.this_run()["simd"])]
assert "512" not in code and "V4" not in code, code
"""
    environment = {**os.environ, "PYTHONPATH": str(provenance.ROOT)}
    child = [sys.executable, "-c", program]
    starter = (
        f"import sys; from benchmarks.runner.processor import measured_alike; "
        f"sys.exit(measured_alike({child!r}))"
    )
    subprocess.run([sys.executable, "-c", starter], env=environment, check=True)


# Versions, records, tables, targets, limits


def test_a_version_follows_the_code_the_data_and_the_packages_of_the_learner(tmp_path, monkeypatch):
    def key():
        content_of.cache_clear()
        code_of_all_results.cache_clear()
        return one.units(Source("d", tmp_path))[0].key

    root, module = tmp_path / "root", tmp_path / "root/structboost/deep/module.py"
    module.parent.mkdir(parents=True)
    module.write_text("a = 1\n")
    (tmp_path / "d.txt").write_text("rows")
    monkeypatch.setattr(experiment, "ROOT", root)
    one = Experiment({"d": ["d.txt"]}, {"m": Learner(len, ("numpy",))}, lambda *_: {})
    keys = [key(), key()]
    (module.parent / "module.pyc").write_text("compiled")
    keys.append(key())
    assert len(set(keys)) == 1
    module.write_text("a = 2\n")
    keys.append(key())
    (tmp_path / "d.txt").write_text("other rows")
    keys.append(key())
    monkeypatch.setattr(np, "__version__", "99.0")
    keys.append(key())
    assert len(set(keys)) == 4


def test_a_record_has_all_fields_and_no_nan_and_a_failed_write_leaves_the_old_file(tmp_path):
    made = record("d", "m", "auc", np.float64("nan"), gap=np.inf, more=[np.float32(1)])
    assert list(made)[: len(FIELDS)] == list(FIELDS)
    assert (made["value"], made["gap"], made["more"]) == (None, None, [1.0])
    write_json(tmp_path / "r.json", made)
    with pytest.raises(TypeError):
        write_json(tmp_path / "r.json", [object()])
    assert json.loads((tmp_path / "r.json").read_text()) == made


def test_repeats_are_summarised_by_mean_median_and_largest_gap():
    rows = [{"value": v, "seconds": s, "gap": g} for v, s, g in ((1.0, 1, 0.1), (3.0, 5, 0.2))]
    fields = summary(rows)
    assert [fields[k] for k in ("value", "seconds", "gap", "repeats")] == [2.0, 3.0, 0.2, 2]
    assert fields["std"] == pytest.approx(np.sqrt(2))
    stopped = summary([*rows, {"value": None, "status": "time_limit"}])
    assert (stopped["gap"], stopped["status"]) == (None, "time_limit")


def test_a_table_has_a_line_for_each_set_and_a_dash_for_a_missing_value():
    made = [record("a", "x", "error", 0.25), record("a", "y", "error", 0.5)]
    made.append(record("b", "y", "error", 0.125, std=0.1, repeats=4))
    lines = across("Error", made, form="{:.1%}").splitlines()
    assert lines[2:4] == ["| dataset | x | y |", "| --- | ---: | ---: |"]
    assert lines[4:] == ["| a | 25.0% | 50.0% |", "| b | - | 12.5±15.9% |"]


@pytest.mark.parametrize(
    ("holds", "met", "measured"),
    [
        ([True, True, False], True, "2 of 4; not c"),
        ([True, False, False], None, "1 of 4; not b, c"),  # the fourth may still hold
        ([False, False, False], False, "0 of 4; not a, b, c"),
        ([], None, "0 of 4"),
    ],
)
def test_a_target_of_some_sets_is_open_as_long_as_it_can_be_met(holds, met, measured):
    target = targets.all_of("two of four", zip("abc", holds, strict=False), 4, 2)
    assert (target.met, target.measured) == (met, measured)
    assert targets.reach("", None, "<", 1.0).met is None
    assert targets.reach("", 1.0, "<", 1.0).met is False


def sleeping(report, seconds):
    import time

    report({"at": 1})
    time.sleep(seconds)
    return {"at": 2}


def dying(report):
    report({})
    os.kill(os.getpid(), signal.SIGSEGV)


def test_a_limit_keeps_the_last_report_and_a_death_names_its_signal():
    assert limits.limited(0.2, sleeping, 60) == {"at": 1, "status": "time_limit"}
    assert limits.limited(60, sleeping, 0) == {"at": 2, "status": "ok"}
    with pytest.raises(RuntimeError, match="ended by SIGSEGV"):
        limits.run_limited(60, dying)


def test_a_page_shares_units_with_another_only_if_they_are_the_same():
    unit = counting([])
    assert unit.key == counting([]).key
    others = [counting([], version="2"), counting([], repeat=1)]
    others.append(dataclasses.replace(unit, dataset="e"))
    assert len({one.key for one in (unit, *others)}) == 4
