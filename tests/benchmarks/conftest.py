"""A made benchmark; without a mark only a smoke of the benchmarks runs."""

from types import ModuleType

import pytest

PEERS = ("dask", "distributed", "lightgbm", "pyepo", "torch")
VALUE = 0.123456789012345


def pytest_collection_modifyitems(config, items):
    """Leave out what only `-m benchmarks` asks for, whatever else is asked for."""
    if "benchmarks" not in config.option.markexpr:
        left_out = [item for item in items if item.get_closest_marker("benchmarks")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Skip a test that misses one of the peers."""
    try:
        return (yield)
    except ImportError as error:
        missing = error.__cause__ if isinstance(error.__cause__, ImportError) else error
        name = (missing.name or "").partition(".")[0]
        if name in PEERS:
            pytest.skip(f"{name} is not installed")
        raise


class Made(ModuleType):
    """Make a page of a learner on two data sets, whose units can fail."""

    def __init__(self, folder, fails=()):
        from benchmarks.runner.experiment import Experiment

        super().__init__("made", "A made benchmark.")
        self.__file__ = str(folder / "made.py")
        self.computed, self.fails = [], fails
        cases = lambda source, learner: [{"repeat": k} for k in range(3)]  # noqa: E731
        files = {name: (f"{name}.txt",) for name in ("a", "b")}
        self.EXPERIMENTS = [Experiment(files, {"m": float}, self.measure, cases)]

    def measure(self, source, learner, *, repeat):
        self.computed.append((source.name, repeat))
        if repeat in self.fails:
            raise ValueError("no")
        return {"value": VALUE + repeat, "seconds": float(len(self.computed))}


DECLARED = """
[[table]]
head = "Error"
[[target]]
wanted = "error below 1 %"
ours = { dataset = "a" }
take = "max"
limit = 0.01
"""


@pytest.fixture
def page(monkeypatch, tmp_path):
    """A made page of some settings in the place of `auc`."""
    from benchmarks.runner import commands

    (tmp_path / "made.md").write_text("Nothing was chosen on test data.\n")
    (tmp_path / "made.toml").write_text(DECLARED)
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(name)

    def put(**settings):
        made = Made(tmp_path, **settings)
        monkeypatch.setitem(commands.PAGES, "auc", made)
        return made

    return put


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Exit code of `run auc` with some further arguments."""
    from benchmarks.runner import commands

    monkeypatch.setattr(commands, "UNITS", tmp_path / "units")

    def call(*more):
        folders = ["--data", str(tmp_path), "--results", str(tmp_path / "results")]
        return commands.main(["run", "auc", *folders, *more])

    return call
