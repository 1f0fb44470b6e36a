"""State and errors of every trainer of tasks: threads, copies, parameters, paths, notices."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from scipy.sparse import csr_array
from scipy.special import softmax
from sklearn.metrics import log_loss

from structboost import EarlyStopping, MulticlassTask, StructBoost, StructuredSVM
from structboost.contract.parts import deeply_equal
from structboost.learners import StumpFamily
from structboost.linear.linear_trainer import LinearTrainer
from structboost.objectives import SVM, Hinge, LogLoss, NormBoundedHinge, StageWiseLikelihood
from tests.helpers.refusals import refused
from tests.helpers.task_problems import task_problems

PROBLEMS = task_problems(24)
boosted = partial(StructBoost, C=5.0, tol=0.2, max_rounds=5)
LINEAR = {"C": 1.0, "tol": 0.2, "max_epochs": 5, "random_state": 0}
TRAINERS = {
    "one_slack": boosted,
    "m_slack": partial(boosted, formulation="m_slack"),
    "norm_bounded": partial(boosted, C=2.0, formulation=NormBoundedHinge()),
    "log": partial(boosted, formulation="log"),
    "svm": partial(StructuredSVM, **LINEAR),
    "linear": partial(LinearTrainer, **LINEAR),
    "likelihood": partial(LinearTrainer, loss="log_loss", **LINEAR),
}
each_trainer = pytest.mark.parametrize("make", TRAINERS.values(), ids=TRAINERS)
each_with_a_path = pytest.mark.parametrize("make", [boosted, TRAINERS["svm"]], ids=["boost", "svm"])
pytestmark = pytest.mark.filterwarnings("ignore")
TASK, X, Y, WRONG = PROBLEMS["chain"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "trainer"),
    [*(("chain", name) for name in TRAINERS), ("trees", "one_slack"), ("segments", "one_slack")],
)
def test_fits_in_threads_with_one_task_are_those_one_after_the_other(name, trainer):
    task, inputs, outputs, _ = PROBLEMS[name]
    make = TRAINERS[trainer]
    parts = [(inputs[k::3], outputs[k::3]) for k in range(3)]
    alone = [make(task).fit(*part).predict(inputs) for part in parts]
    with ThreadPoolExecutor(3) as pool:
        together = [pool.submit(make(task).fit, *part) for part in parts]
        assert deeply_equal([fit.result().predict(inputs) for fit in together], alone)


@pytest.mark.parametrize(
    ("objective", "loss"), [("svm", "hinge"), (SVM(), "hinge"), (LogLoss(), "log_loss")]
)
def test_an_objective_of_one_linear_function_is_fitted_by_its_trainer(objective, loss, tmp_path):
    model = StructBoost(TASK, objective=objective, C=1.0, weak_learner="linear").fit(X, Y)
    assert model.objective_ == LinearTrainer(TASK, tol=0.01, loss=loss).fit(X, Y).objective_
    model.save(path := tmp_path / "model")
    assert deeply_equal(StructBoost.load(path, TASK).predict(X), model.predict(X))
    refused("path boosts weak learners", model.path, X, Y, [1.0])
    refused("spread is 0.5, which", model.set_params(spread=0.5).fit, X, Y)
    refused("weak_learner .*'tree'", model.set_params(weak_learner="tree").fit, X, Y)


BAD_CS = {
    "Cs is empty": [],
    "Cs is 3.0": 3.0,
    "Cs is '123'": "123",
    r"Cs\[\d\] is nan": [1.0, np.nan],
    r"Cs\[\d\] is 0.0": [0.0],
    r"Cs\[\d\] is 'auto'": [1.0, "auto"],
    r"Cs\[\d\] is True": [True],
}


@each_with_a_path
@pytest.mark.parametrize(("message", "Cs"), BAD_CS.items(), ids=BAD_CS)
def test_a_path_refuses_bad_Cs_before_it_trains(make, message, Cs):
    refused(message, lambda: list(make(TASK).path(X, Y, Cs)))


@each_with_a_path
@pytest.mark.parametrize("kind", [np.array, iter])
def test_a_path_takes_arrays_and_generators(make, kind):
    assert [trainer.C_ for trainer in make(TASK).path(X, Y, kind([1.0, 2.0]))] == [1.0, 2.0]


@each_trainer
def test_a_repr_of_a_fitted_trainer_has_the_words_of_a_face(make):
    trainer = make(TASK).fit(X, Y)
    call, words = repr(trainer).split("  # ")
    assert call == repr(make(TASK))
    assert words.startswith("minimised ")
    assert words.endswith(trainer.ending_text_)
    assert trainer.gap_text_ in words


LIBRARIES = {"pandas": lambda frame: frame, "polars": polars.from_pandas, "Arrow": pyarrow.table}


@each_trainer
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["binary", "multiclass", "label sets"])
def test_columns_of_later_frames_are_found_by_their_names(name, library, make, tmp_path):
    task, inputs, outputs, _ = PROBLEMS[name]
    table, form = np.array(inputs), LIBRARIES[library]
    frame = pandas.DataFrame(table, index=range(9, 9 + len(table))).rename(columns="x{}".format)
    outputs, later = pandas.Series(list(outputs), frame.index[::-1]), form(frame[[*frame][::-1]])
    expected, trainer = (make(task).fit(of, outputs) for of in (table, form(frame)))
    trainer.save(path := tmp_path / "model")
    fitted = [trainer, type(trainer).load(path, task)]
    fitted.append(type(trainer).from_model(trainer.model_, task))
    fitted += trainer.path(form(frame), outputs, [trainer.C])
    for one in fitted:
        assert deeply_equal(one.predict(later), expected.predict(inputs))
        assert one.score(later, outputs) == expected.score(inputs, outputs)
        refused("feature names .* X lacks", one.scores, form(frame.rename(columns={"x0": "z"})))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        assert deeply_equal(trainer.predict(table), trainer.predict(later))


def test_a_plug_in_and_a_callback_get_the_columns_of_a_frame_as_in_training():
    class OwnTask(MulticlassTask):
        pass

    _, inputs, outputs, _ = PROBLEMS["multiclass"]
    frame = pandas.DataFrame(np.array(inputs)).rename(columns="x{}".format)
    of_family = partial(boosted, weak_learner=StumpFamily)
    of_objective = partial(StructBoost, objective=Hinge(C=10.0, tol=0.1), max_rounds=3)
    for make in (of_family, of_objective):
        losses = []
        plain = np.array(inputs)
        for table, held in (
            (plain, plain),
            (frame, frame[[*frame][::-1]]),
            (plain, csr_array(plain)),
        ):
            stopping = EarlyStopping(held, outputs)
            trainer = make(OwnTask(3), callbacks=[stopping])
            predicted = [*trainer.fit(table, outputs).staged_predict(held)]
            losses.append((stopping.losses, predicted))
        assert losses[0] == losses[1] == losses[2]


def test_early_stopping_measures_the_model_of_each_round_and_forgets_earlier_fits(tmp_path):
    rng = np.random.default_rng(0)
    table, outputs = rng.normal(size=(40, 4)), np.arange(40) % 3
    stopping = EarlyStopping(table, outputs)
    stage_wise = {"C": np.inf, "formulation": StageWiseLikelihood(), "weak_learner": "tree"}
    trainer = boosted(MulticlassTask(3), callbacks=[stopping], **stage_wise)
    # The last fit goes on from the first one.
    for max_rounds, checkpoint in ((4, tmp_path / "run"), (7, None), (9, tmp_path / "run")):
        trainer.set_params(max_rounds=max_rounds, checkpoint=checkpoint)
        scores = [m.scores(table) for m in trainer.fit(table, outputs).staged_models()]
        expected = [log_loss(outputs, softmax(2.0 * rows, axis=1)) for rows in scores]
        np.testing.assert_allclose(stopping.losses, expected, rtol=1e-12)
    assert len(stopping.losses) == 9
