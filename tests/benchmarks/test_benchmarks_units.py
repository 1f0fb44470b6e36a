"""Units of measurement: kept, shared, interrupted; and the code that their versions follow."""

import json
import signal
import warnings

import numpy as np
import pytest

from benchmarks.runner import commands, tables
from benchmarks.runner.records import FIELDS, record, write_json
from benchmarks.runner.sources import code_version, imported_sources
from benchmarks.runner.statistics import summary
from benchmarks.runner.units import Runner, Unit, share
from structboost import MulticlassTask, StructuredSVM
from structboost.exceptions import InterruptedFitWarning


def counting_unit(calls, version="1", needs=None, **params):
    def run(*needed):
        calls.append(needed)
        return {"value": 0.5}

    return Unit("auc", "d", "m", params, version, run, needs)


def test_units_resume(tmp_path, capsys):
    calls = []
    for _ in range(2):
        Runner(tmp_path, 1).finish([counting_unit(calls)])
    assert len(calls) == 1
    assert "kept" in capsys.readouterr().err
    others = [counting_unit(calls, version="2"), counting_unit(calls, repeat=1)]
    Runner(tmp_path, 2).finish(others)
    assert len(calls) == 3


def test_results_found_elsewhere_do_not_replace_kept_ones(tmp_path):
    first, second = counting_unit([]), counting_unit([], repeat=1)
    runner = Runner(tmp_path, 2)
    runner.finish([first])
    runner.adopt(
        [first, second], {unit.key: {"result": {"value": 0.7}} for unit in (first, second)}
    )
    assert [runner.kept(unit)["result"]["value"] for unit in (first, second)] == [0.5, 0.7]


def test_unit_gets_what_it_needs(tmp_path):
    first_calls, calls = [], []
    first = counting_unit(first_calls, repeat=0)
    second = counting_unit(calls, needs=first)
    assert Runner(tmp_path, 2).finish([second]) == []  # not there yet
    Runner(tmp_path, 2).finish([first, second])
    assert calls[0][0]["value"] == 0.5
    assert second.key != counting_unit([], needs=counting_unit([], version="2", repeat=0)).key


def test_failing_unit_does_not_stop_the_others(tmp_path, capsys):
    def fail():
        raise ValueError("no")

    failing = Unit("auc", "d", "bad", {}, "1", fail)
    runner = Runner(tmp_path, 2)
    assert len(runner.finish([failing, counting_unit([])])) == 1
    assert runner.failures == ["auc d bad"]
    assert "ValueError: no" in capsys.readouterr().err


def test_only_kept_runs_nothing(tmp_path):
    calls = []
    Runner(tmp_path, 1).finish([counting_unit(calls)])
    both = [counting_unit(calls), counting_unit(calls, repeat=1)]
    assert len(Runner(tmp_path, 2, only_kept=True).finish(both)) == 1
    assert len(calls) == 1


def keeps_what_it_has():
    """As our trainers and trackers do."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        warnings.warn("Training was interrupted.", InterruptedFitWarning, stacklevel=1)
    return {"value": 0.5}


def makes_another_error_of_it():
    """As compiled code does."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as error:
        raise SystemError("returned a result with an exception set") from error


@pytest.mark.parametrize("run", [keeps_what_it_has, makes_another_error_of_it])
def test_ctrl_c_ends_the_run_whatever_the_unit_makes_of_it(tmp_path, run):
    """The result of half a training is not kept, and the next unit does not start."""
    calls = []
    unit = Unit("made", "data", "method", {}, "1", run)
    runner = Runner(tmp_path, 2)
    before = signal.set_wakeup_fd(-1)
    with pytest.raises(KeyboardInterrupt):
        runner.finish([unit, counting_unit(calls)])
    assert signal.set_wakeup_fd(before) == -1
    assert runner.kept(unit) == {}
    assert runner.failures == []
    assert calls == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class PressingTask(MulticlassTask):
    """A signal comes during the fourth pass over the examples."""

    def __init__(self, sent):
        super().__init__(3)
        self.sent, self.passes = sent, 0

    def separate(self, X, Y, scores):
        self.passes += 1
        if self.passes == 4:
            signal.raise_signal(self.sent)
        return super().separate(X, Y, scores)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_no_fit_follows_an_interrupted_linear_one(tmp_path, sent):
    """The machine keeps its weights and returns; the figures of the unit would go on from them."""
    rng, tasks = np.random.default_rng(0), []

    def fits_twice():
        for _ in range(2):
            tasks.append(PressingTask(sent))
            machine = StructuredSVM(tasks[-1], C=300.0, tol=1e-9, random_state=0)
            machine.fit(rng.normal(size=(40, 3)), np.arange(40) % 3)
        return {"value": 0.5}

    unit = Unit("made", "data", "method", {}, "1", fits_twice)
    runner = Runner(tmp_path, 1)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            runner.finish([unit])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [task.passes for task in tasks] == [4]
    assert runner.kept(unit) == {}


def test_all_processes_of_an_interrupted_run_are_told_before_one_is_waited_for(monkeypatch):
    calls = []

    class Process:
        def __init__(self, command):
            self.number = command[-2]

        def wait(self):
            calls.append(f"wait {self.number}")
            if len(calls) == 1:
                raise KeyboardInterrupt
            return commands.INTERRUPTED

        def terminate(self):
            calls.append(f"terminate {self.number}")

    monkeypatch.setattr(commands.subprocess, "Popen", Process)
    with pytest.raises(KeyboardInterrupt):
        commands._finish_in_processes([], 2)
    assert calls == ["wait 0", "terminate 0", "terminate 1", "wait 0", "wait 1"]


def test_units_meet_pythons_own_handler_of_ctrl_c(tmp_path):
    """The library waits with Ctrl-C for a consistent moment only where it does."""
    met = []
    note = lambda: {"value": met.append(signal.getsignal(signal.SIGINT))}  # noqa: E731
    unit = Unit("made", "data", "method", {}, "1", note)
    assert len(Runner(tmp_path, 1).finish([unit])) == 1
    assert met == [signal.default_int_handler]


def test_ctrl_c_is_left_to_whoever_handles_it(tmp_path):
    """Where it is ignored, as in a shell's background job, a unit goes on."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        unit = Unit("made", "data", "method", {}, "1", keeps_what_it_has)
        assert len(Runner(tmp_path, 1).finish([unit])) == 1
    finally:
        signal.signal(signal.SIGINT, before)


def test_interrupted_run_keeps_finished_units(tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    calls = []
    units = [counting_unit(calls), Unit("auc", "d", "stop", {}, "1", interrupt)]
    with pytest.raises(KeyboardInterrupt):
        Runner(tmp_path, 2).finish(units)
    Runner(tmp_path, 1).finish([counting_unit(calls)])
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
    Runner(tmp_path, 1).finish([unit])
    assert len(calls) == 1


def test_a_version_follows_the_code_and_what_it_imports(tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text("from structboost.tasks.ranking import RankingTask")
    monkeypatch.syspath_prepend(tmp_path)
    before = code_version(["own"], ["numpy"])
    assert before == code_version(["own"], ["numpy"])
    assert before.endswith(np.__version__)
    assert before != code_version(["own", "structboost.tasks.boxes"], ["numpy"])
    (tmp_path / "own.py").write_text("from structboost.tasks.boxes import BoxOverlapTask")
    assert before != code_version(["own"], ["numpy"])


def test_a_version_does_not_depend_on_where_the_checkout_lies(tmp_path, monkeypatch):
    versions = set()
    for folder in ("one", "another"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "somewhere.py").write_text(
            "from structboost.contract.task import Task"
        )
        with monkeypatch.context() as here:
            here.syspath_prepend(tmp_path / folder)
            versions.add(code_version(["somewhere"]))
    assert len(versions) == 1


def test_imports_are_followed():
    def names(*modules):
        return {"/".join(path.parts[-2:]) for path in imported_sources(*modules).values()}

    of_task = names("structboost.tasks.multiclass")
    assert {"tasks/multiclass.py", "contract/task.py", "tasks/tables.py"} <= of_task
    assert not any("masters" in name or "__init__" in name for name in of_task)
    # What is imported from the package itself, or only named in a registry, counts too.
    of_ours = names("benchmarks.ours.methods")
    assert {"runner/protocol.py", "training/loop.py", "masters/one_slack.py"} <= of_ours
    assert {"masters/m_slack.py", "weak/stump.py", "weak/linear.py"} <= of_ours
    assert {"engines/processes.py", "weak/histogram.py", "tasks/ranking.py"} <= of_ours
    assert {"runner/protocol.py", "runner/datasets.py"} <= of_ours
    # Tables and pages do not.
    assert not {"runner/tables.py", "runner/pages.py", "runner/units.py"} & of_ours
    assert not any(name.startswith(("papers", "segmentation")) for name in of_ours)
    with pytest.raises(ModuleNotFoundError):
        imported_sources("structboost.nothing_of_the_kind")


def test_records_have_all_fields_and_no_nan():
    made = record(
        "d", "m", "auc", np.float64("nan"), gap=np.inf, rounds=np.int64(3), extra=[np.float32(1)]
    )
    assert list(made)[: len(FIELDS)] == list(FIELDS)
    assert made["value"] is None
    assert made["gap"] is None
    assert made["extra"] == [1.0]
    json.dumps(made, allow_nan=False)


def test_summary_of_repeats():
    results = [
        {"value": 0.1, "seconds": 1.0, "gap": 0.01},
        {"value": 0.3, "seconds": 5.0, "gap": 0.02},
    ]
    fields = summary(results)
    assert fields["value"] == pytest.approx(0.2)
    assert fields["std"] == pytest.approx(np.std([0.1, 0.3], ddof=1))
    assert [fields[k] for k in ("seconds", "gap", "repeats", "status")] == [3.0, 0.02, 2, "ok"]
    assert summary([*results, {"value": None, "status": "time_limit"}])["gap"] is None
    assert summary([*results, {"value": None, "status": "time_limit"}])["status"] == "time_limit"


def test_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "records.json"
    write_json(path, [1])
    with pytest.raises(TypeError):
        write_json(path, [object()])
    assert json.loads(path.read_text()) == [1]
    assert list(tmp_path.iterdir()) == [path]


def test_aligned_table():
    assert tables.aligned(["", "a"], [["row", "1"]]).splitlines() == ["     a", "---  -", "row  1"]
