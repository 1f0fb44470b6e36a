"""The page of all results: its lines are in index.toml; figures of other records are read here."""

import tomllib
from pathlib import Path

from benchmarks.papers import PRINTED
from benchmarks.runner.index import Figure
from benchmarks.runner.records import pick
from benchmarks.structures import hierarchies

INDEX = tomllib.loads(Path(__file__).with_name("index.toml").read_text())
OURS = "structboost"


def _multiboost(records):
    """Ours, and the published code on the same data set by the same method."""
    for r in records:
        if r.get("reference"):
            rounds = PRINTED["multiboost-cw"]["rounds"][len(r["reference"]) - 1]
            seconds = r["seconds"]
            if r["method"] == "multiboost_cw":
                at = PRINTED["multiboost-cw"]["corrective_rounds"].get(r["dataset"])
                seconds = r["cpu"].get(str(at), seconds)
            about = {"dataset": r["dataset"], "part": r["method"]}
            yield Figure(**about, method=OURS, error=r["errors"].get(str(rounds)), seconds=seconds)
            theirs = {"error": r["reference"][-1][0] / 100, "seconds": r["reference_seconds"]}
            yield Figure(**about, method="published code", **theirs)


def _mo_ecc(records):
    for r in pick(records, rounds=500):
        kind, setting = r["method"].split("_", 1)
        yield Figure(r["dataset"], kind, r["value"], part=setting)


def _hierarchical(records):
    """Ours, and the figures that were published with the data."""
    for r in pick(records, metric=hierarchies.METRIC):
        yield Figure(r["dataset"], r["method"], 1.0 - r["value"], r.get("seconds"))
    for name, values in hierarchies.PUBLISHED.items():
        for rival, value in zip(hierarchies.RIVALS, values, strict=True):
            yield Figure(name, rival, 1.0 - value)


def _tracking(records):
    """Ours and those that were run here, and the overlaps of CSRT, which this OpenCV lacks."""
    for r in pick(records, metric="overlap"):
        yield Figure(r["dataset"], r["method"], 1.0 - r["value"], 1.0 / r["fps"])
    for name, overlap in PRINTED["tracking"]["csrt"].items():
        yield Figure(name, "CSRT", 1.0 - overlap)


SPECIAL = {
    "coordinate descent": _multiboost,
    "correcting AdaBoost": _mo_ecc,
    "boxes in a video": _tracking,
    "labels in a hierarchy": _hierarchical,
}
