"""Fits that use one core, whatever ``n_jobs`` is, warn once."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
from sklearn.base import clone

import structboost.learners.stump
from structboost import BinaryTask, StructBoost, StructBoostClassifier
from structboost.objectives import StageWiseLikelihood
from structboost.training import Engine
from tests.battery.checked_face import Face
from tests.battery.table_of_faces import all_faces

JOBS = {name: face for name, face in all_faces().items() if hasattr(face[0], "n_jobs")}
del JOBS["Segmenter"]  # its fit is slow


@pytest.fixture
def started(monkeypatch):
    """Engines and searches that started on several cores, or would with more examples."""
    makers = []

    def counted(make):
        def start(*arguments, **options):
            makers.append(make)
            return make(*arguments, **options)

        return start

    monkeypatch.setattr(Engine, "start", counted(Engine.start))
    monkeypatch.setattr(
        structboost.learners.stump, "ThreadPoolExecutor", counted(ThreadPoolExecutor)
    )
    monkeypatch.setattr(structboost.learners.stump, "_MIN_THREADED_WORK", 0)
    monkeypatch.setattr(joblib, "Parallel", counted(joblib.Parallel))
    return makers


def idle_jobs(fit):
    """Texts of the warnings of a fit that name n_jobs."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        fit()
    return [str(one.message) for one in caught if "n_jobs" in str(one.message)]


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_a_fit_uses_several_jobs_or_warns_once(name, started):
    face = Face(*JOBS[name])
    X, y, more = face.examples.X, face.examples.y, face.examples.more
    several = face.fresh(n_jobs=2)
    with joblib.parallel_config("threading"):
        texts = idle_jobs(lambda: several.fit(X, y, **more))
    assert len(texts) == (0 if started else 1), (texts, started)
    assert not idle_jobs(lambda: face.fresh(n_jobs=1).fit(X, y, **more))
    with joblib.parallel_config("threading", n_jobs=2):
        assert not idle_jobs(lambda: face.fresh().fit(X, y, **more))


X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)
STAGE_WISE = StructBoost(
    BinaryTask(), C=np.inf, formulation=StageWiseLikelihood(), weak_learner="tree", max_rounds=2
)
TABLES = {
    "early stopping": StructBoostClassifier(max_iter=3, early_stopping=True),
    "one linear function": StructBoostClassifier("svm", C=1.0, tol=0.3),
    "trainer": STAGE_WISE,
    "serial": StructBoostClassifier("hinge", C=1.0, tol=0.3, engine="serial"),
    "an engine": StructBoostClassifier(
        objective="hinge", C=1.0, tol=0.3, engine=Engine("threads", 1)
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_settings_that_leave_jobs_idle_are_named_once(name):
    model = clone(TABLES[name]).set_params(n_jobs=2)
    y = 2 * Y - 1 if name == "trainer" else Y
    (text,) = idle_jobs(lambda: model.fit(X, y))
    about = getattr(model, "engine", "") if name in ("serial", "an engine") else "trains on one"
    assert text.startswith("n_jobs is 2, ")
    assert str(about) in text
    stumps = clone(model).set_params(weak_learner="stump", engine="threads")
    if name in ("early stopping", "trainer"):
        assert not idle_jobs(lambda: stumps.fit(X, y))
