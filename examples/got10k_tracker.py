"""StructBoostTracker in the got10k toolkit (``pip install got10k``), which runs benchmarks.

``python examples/got10k_tracker.py OTB_FOLDER`` tracks all sequences of OTB-2015 in that folder,
downloads what is missing, and writes the toolkit's report.
"""

from __future__ import annotations

import argparse
from typing import Any

from got10k.trackers import Tracker

from structboost.tracking import StructBoostTracker


class Got10kTracker(Tracker):
    """The toolkit's interface: ``init`` and ``update`` with pictures of Pillow.

    Boxes are left, top, width and height in pixels there, too. The same seed gives the same boxes,
    so the toolkit runs each sequence once.
    """

    def __init__(self, name: str = "StructBoost", **settings: Any) -> None:
        super().__init__(name=name, is_deterministic=True)
        self.settings = settings

    def init(self, image: Any, box: Any) -> None:
        """Learn the object from the first frame."""
        self.tracker = StructBoostTracker(**self.settings).init(image, box)

    def update(self, image: Any) -> Any:
        """Box in the next frame."""
        return self.tracker.update(image)


if __name__ == "__main__":
    from got10k.experiments import ExperimentOTB

    parser = argparse.ArgumentParser(description="Track all sequences of OTB-2015.")
    parser.add_argument("folder", help="folder of OTB-2015; what is missing is downloaded")
    experiment = ExperimentOTB(parser.parse_args().folder, version=2015)
    tracker = Got10kTracker(random_state=0)
    experiment.run(tracker)
    experiment.report([tracker.name])
