"""No public face has a fault, and what a face lacks is refused."""

from __future__ import annotations

import pytest

from structboost import AdaBoostMHClassifier
from tests.battery import behaviours_of_inputs, behaviours_of_results, behaviours_of_state
from tests.battery.checked_face import BEHAVIOURS, Face, fault_of_error, faults_of
from tests.battery.examples_of_tables import Classes
from tests.battery.faces import all_faces

# Their behaviours are on the list.
_ = behaviours_of_inputs, behaviours_of_results, behaviours_of_state

FACES = all_faces()


def test_a_declared_power_that_is_there_is_a_fault():
    face = Face(AdaBoostMHClassifier(max_rounds=2), Classes(), {"missing values": "no"})
    (fault,) = faults_of(face, "missing values")
    assert "is declared not to work, but: was not refused" in fault


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (KeyError("X"), "raw error KeyError"),
        (ValueError("X is bad"), "raw error of tests.battery.test_battery"),
    ],
)
def test_an_error_from_elsewhere_is_no_clear_refusal(error, fault):
    with pytest.raises(type(error)) as caught:
        raise error
    assert fault in fault_of_error(caught.value, ["X"])


@pytest.mark.slow
@pytest.mark.parametrize("name", FACES)
def test_a_face_has_every_behaviour_but_those_that_it_lacks(name):
    face = Face(*FACES[name])
    faults = {behaviour: faults_of(face, behaviour) for behaviour in BEHAVIOURS}
    assert not any(faults.values()), {key: value for key, value in faults.items() if value}
