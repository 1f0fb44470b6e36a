"""Files of models that decide."""

from __future__ import annotations

from structboost import PredictThenOptimize
from structboost.decisions import Choose
from tests.helpers.damaged_files.data import PIXELS
from tests.helpers.damaged_files.kind import Kind


def decisions(inputs, **parameters):
    costs = 5 + PIXELS[:, :3] @ PIXELS[:3, :4] + PIXELS[:, 3:7]

    def make(folder):
        PredictThenOptimize(Choose(4, 2), C=1.0, tol=0.1, **parameters).fit(inputs, costs).save(
            folder / "file"
        )

    def use(folder):
        loaded = PredictThenOptimize.load(folder / "file", Choose(4, 2))
        return [loaded.predict_costs(inputs).tolist(), loaded.history_, loaded.path_]

    return Kind(make, "file", use)


KINDS = {
    "decisions": decisions(PIXELS[:, :3]),
    "boosted decisions": decisions(
        PIXELS[:, :12].reshape(-1, 4, 3), weak_learner=["linear", "stump"], start="least_squares"
    ),
}
