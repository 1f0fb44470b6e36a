"""Every face has every behaviour, but for those that it lacks.

More forms of labels and paths are tried by ``test_label_types`` and ``test_paths_of_files``.
"""

import pytest
from sklearn.base import clone

from tests.battery import behaviours_of_inputs, behaviours_of_results, behaviours_of_state
from tests.battery.checked_face import BEHAVIOURS, Face, fault_of_error
from tests.battery.examples_of_tables import Classes, Grades, LabelSets
from tests.battery.table_of_faces import all_faces
from tests.helpers.scikit_learn import check_battery

# Their behaviours are on the list.
_ = behaviours_of_inputs, behaviours_of_results, behaviours_of_state

FACES = all_faces()


@pytest.mark.parametrize(
    ("error", "fault"),
    [(KeyError("X"), "raw error KeyError"), (ValueError("X is bad"), f"raw error of {__name__}")],
)
def test_an_error_from_elsewhere_is_no_clear_refusal(error, fault):
    with pytest.raises(type(error)) as caught:
        raise error
    assert fault in fault_of_error(caught.value, ["X"])


# Parameters with which heavy classes are the ones predicted, and rounding chooses no optimum.
TREES = {"weak_learner": "tree"}
OTHERS = {
    "StructuredSVMClassifier": {"C": 30.0, "tol": 0.01},
    "MultiBoostECCClassifier": {"max_rounds": 10, "theta": 1.0},
    "StructBoostRanker, hinge": TREES,
    "StructBoostMultiLabelClassifier, hinge": TREES,
}
TABLES = [
    name
    for name, (_, kind, *_) in FACES.items()
    if type(kind) in (Classes, Grades, LabelSets)
    and name not in ("CrossFitted", "CrossFitted, label sets", "StructBoostMultiLabelClassifier")
]


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_a_face_of_tables_passes_the_checks_of_scikit_learn(name):
    estimator = clone(FACES[name][0])
    rounds = {"max_rounds": 10} if hasattr(estimator, "max_rounds") else {}
    estimator.set_params(**OTHERS.get(name, rounds))
    check_battery(estimator, 41 if "Ranker" in name else 61)


@pytest.mark.slow
@pytest.mark.parametrize("name", FACES)
def test_a_face_has_every_behaviour_but_those_that_it_lacks(name):
    face = Face(*FACES[name])
    faults = {
        behaviour: list(faults_of(face))
        for behaviour, faults_of in BEHAVIOURS.items()
        if behaviour not in face.lacks
    }
    assert not any(faults.values()), {key: value for key, value in faults.items() if value}
