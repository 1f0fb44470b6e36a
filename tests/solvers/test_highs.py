"""HiGHS prints nothing unless it is asked."""

import numpy as np
import pytest

from structboost.solvers.milp import quiet_highs


def test_making_and_running_a_solver_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    solver = quiet_highs()
    solver.addVar(0.0, 3.0)
    solver.changeColCost(0, -1.0)
    solver.run()
    assert np.asarray(solver.getSolution().col_value).tolist() == [3.0]
    assert "".join(capfd.readouterr()) == ""
