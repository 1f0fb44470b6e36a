"""A package outside structboost defines every plug-in with public names only."""

import ast
import importlib
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import structboost
from structboost import StructBoost, StructBoostClassifier
from structboost.errors import CheckpointError
from structboost.runtime import blocks
from structboost.training import checkpoint
from tests.files.test_checkpoint import Broken, broken_after
from tests.helpers.refusals import refused
from tests.outside.family import BandFamily, BandTable
from tests.outside.formulation import PricedNorm
from tests.outside.rule import BestOfAll
from tests.outside.task import ChooseCandidate, examples
from tests.training.test_engines import what_was_learned

HERE = Path(__file__).parent
MODULES = ("family", "formulation", "rule", "task")
LOOP = Path(structboost.__file__).parent
X, Y = examples(90)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_ROWS", 64)


def trainer(**parameters):
    plug_ins = {"formulation": PricedNorm(), "weak_learner": "band", "pricing": BestOfAll()}
    own = {"C": 60.0, "tol": 0.02, "max_rounds": 60, **plug_ins, **parameters}
    return StructBoost(ChooseCandidate(), **own)


@pytest.fixture(scope="module")
def serial():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_ROWS", 64)
        return trainer(engine="serial").fit(X, Y)


def test_the_modules_import_public_names_only():
    for name in MODULES:
        for node in ast.walk(ast.parse((HERE / f"{name}.py").read_text())):
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith("structboost") for alias in node.names)
            if isinstance(node, ast.ImportFrom) and node.module.startswith("structboost"):
                package = importlib.import_module(node.module)
                assert node.module.partition(".")[2] in {"", *structboost._PACKAGES}
                assert {alias.name for alias in node.names} <= set(package.__all__), name


@pytest.mark.slow
def test_training_ends_in_a_certificate_and_learns(serial):
    last = serial.history_[-1]
    assert last["certified"]
    assert last["gap"] <= 0.02
    fresh = examples(200, seed=1)
    assert serial.score(*fresh) > -0.3  # chance is -0.76


@pytest.mark.slow
def test_the_optimum_is_that_of_the_one_slack_form_at_another_C(serial):
    """``price sum(w) + C risk`` is ``price`` times ``sum(w) + C / price risk``."""
    other = trainer(formulation="one_slack", C=30.0, pricing="own").fit(X, Y)
    assert serial.objective_ >= 2.0 * other.history_[-1]["bound"] - 1e-9
    assert 2.0 * other.objective_ >= serial.history_[-1]["bound"] - 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_every_engine_learns_the_same_bits(engine, serial):
    other = trainer(engine=engine, n_jobs=2).fit(X, Y)
    assert what_was_learned(other) == what_was_learned(serial)


@pytest.mark.slow
def test_features_in_shards_learn_the_same_bits_on_every_engine():
    one, *others = (
        trainer(engine=engine, n_jobs=2, weak_learner="stump", max_rounds=6).fit(X, Y)
        for engine in ("serial", "threads", "processes")
    )
    assert {str(what_was_learned(other)) for other in others} == {str(what_was_learned(one))}


@pytest.mark.slow
def test_a_broken_run_resumes_with_another_engine_to_the_same_model(serial, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    path = tmp_path / "run.npz"
    for stop, engine in ((2, "serial"), (4, "processes")):
        breaking = trainer(checkpoint=path, engine=engine, callbacks=[broken_after(stop)])
        with pytest.raises(Broken):
            breaking.fit(X, Y)
    resumed = trainer(checkpoint=path, engine="threads").fit(X, Y)
    assert what_was_learned(resumed) == what_was_learned(serial)
    for changes in ({"formulation": PricedNorm(3.0)}, {"formulation": "one_slack"}):
        with pytest.raises(CheckpointError, match="other data or parameters"):
            trainer(checkpoint=path, **changes).fit(X, Y)


def test_a_run_of_plug_ins_that_cannot_resume_is_refused(tmp_path, monkeypatch):
    for plug_in in (BandFamily, BestOfAll, PricedNorm):
        with monkeypatch.context() as patch:
            patch.setattr(plug_in, "can_resume", False)
            message = f"checkpoint needs can_resume, which {plug_in.__name__} does not declare"
            refused(message, trainer(checkpoint=tmp_path / "run.npz").fit, X, Y)


@pytest.mark.slow
def test_a_saved_model_loads_once_the_module_of_its_family_is_imported(serial, tmp_path):
    path = tmp_path / "bands.model"
    serial.save(path)
    program = textwrap.dedent(
        """
        import sys
        from structboost import StructBoost
        from structboost.errors import ModelFileError
        from tests.outside.task import ChooseCandidate, examples
        try:
            StructBoost.load(sys.argv[1], ChooseCandidate())
        except ModelFileError as error:
            assert "Import the module that registers it" in str(error), error
        import tests.outside.family
        loaded = StructBoost.load(sys.argv[1], ChooseCandidate())
        print(loaded.predict(examples(30, seed=2)[0]))
        """
    )
    command = [sys.executable, "-c", program, str(path)]
    assert subprocess.check_output(command, text=True).strip() == str(
        serial.predict(examples(30, seed=2)[0])
    )


def test_a_name_belongs_to_one_family():
    structboost.learners.register_weak_learner(BandFamily, BandTable)

    class Other(BandFamily):
        pass

    refused("'band' is already", structboost.learners.register_weak_learner, Other, BandTable)


def test_a_family_is_made_with_what_it_declares_to_take():
    given = []

    class Told(BandFamily):
        takes_missing = True

        def __init__(self, features, response, *, directions=None, categorical=None, **options):
            given.append((directions, categorical))
            super().__init__(features, response, **options)

    table, labels = np.random.default_rng(0).integers(3, size=(60, 2)), np.arange(60) % 2
    common = {"objective": "hinge", "weak_learner": Told, "C": 10.0, "max_iter": 2}
    StructBoostClassifier(monotonic_cst=[0, -1], **common).fit(table, labels)
    StructBoostClassifier(categorical_features=[1], **common).fit(table, labels)
    assert [tuple(given[0][0]), given[0][1]] == [(0, -1), None]
    assert [given[1][0], tuple(given[1][1])] == [None, (1,)]
    model = StructBoostClassifier(
        objective="hinge", weak_learner=BandFamily, C=10.0, monotonic_cst=[0, -1]
    )
    refused("monotonic_cst needs stumps or trees", model.fit, table, labels)


def test_callbacks_see_a_fitted_trainer_of_their_round():
    seen = []

    def look(record, fitted):
        assert fitted.history_[-1] is record
        assert fitted.objective_ == record["primal"]
        seen.append((fitted.predict(X[:20]), fitted.score(X, Y)))

    fitted = trainer(max_rounds=3, callbacks=[look]).fit(X, Y)
    staged = list(fitted.staged_predict(X[:20]))
    assert [predicted for predicted, _ in seen] == staged
    assert seen[-1][1] == fitted.score(X, Y)


@pytest.mark.parametrize(
    "module",
    [
        "training/boosting",
        "training/loop",
        "training/history",
        "training/plan",
        "objectives/base",
        "objectives/master",
    ],
)
def test_the_loop_imports_contracts_and_no_plug_in(module):
    contracts = {
        "structboost.objectives": {"base", "master", "values"},
        "structboost.learners": {"base", "pricing", "registry", "table", "terms"},
    }
    for node in ast.walk(ast.parse((LOOP / f"{module}.py").read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("structboost."):
            package, _, name = node.module.rpartition(".")
            assert name in contracts.get(package, {name}), node.module
