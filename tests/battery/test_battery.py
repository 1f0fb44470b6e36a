"""Every face has every behaviour, but for those that it lacks.

More forms of labels and paths are tried by ``test_label_types`` and ``test_paths_of_files``.
"""

from __future__ import annotations

import pytest

from tests.battery import behaviours_of_inputs, behaviours_of_results, behaviours_of_state
from tests.battery.checked_face import BEHAVIOURS, Face, fault_of_error
from tests.battery.table_of_faces import all_faces

# Their behaviours are on the list.
_ = behaviours_of_inputs, behaviours_of_results, behaviours_of_state

FACES = all_faces()


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (KeyError("X"), "raw error KeyError"),
        (ValueError("X is bad"), f"raw error of {__name__}"),
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
    faults = {
        behaviour: list(faults_of(face))
        for behaviour, faults_of in BEHAVIOURS.items()
        if behaviour not in face.lacks
    }
    assert not any(faults.values()), {key: value for key, value in faults.items() if value}
