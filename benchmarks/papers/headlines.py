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
            title = f"{r['dataset']} {r['method']}"
            rounds = PRINTED["multiboost-cw"]["rounds"][len(r["reference"]) - 1]
            seconds = r["seconds"]
            if r["method"] == "multiboost_cw":
                at = PRINTED["multiboost-cw"]["corrective_rounds"].get(r["dataset"])
                seconds = r["cpu"].get(str(at), seconds)
            yield Figure(title, OURS, r["errors"].get(str(rounds)), seconds)
            theirs = r["reference"][-1][0] / 100, r["reference_seconds"]
            yield Figure(title, "published code", *theirs)


def _mo_ecc(records):
    for r in pick(records, rounds=500):
        kind, setting = r["method"].split("_", 1)
        yield Figure(f"{r['dataset']} {setting}", kind, r["value"])


def _searches(records):
    for r in records:
        yield Figure(r["dataset"], OURS, None, r["ours"])
        yield Figure(r["dataset"], "numpy, networkx, scipy, HiGHS", None, r["theirs"])


def _hierarchical(records):
    """Ours, and the figures that were published with the data."""
    for r in pick(records, metric=hierarchies.METRIC):
        yield Figure(r["dataset"], r["method"], 1.0 - r["value"], r.get("seconds"))
    for name, values in hierarchies.PUBLISHED.items():
        for rival, value in zip(hierarchies.RIVALS, values, strict=True):
            yield Figure(name, rival, 1.0 - value)


SPECIAL = {
    "coordinate descent": _multiboost,
    "correcting AdaBoost": _mo_ecc,
    "searches": _searches,
    "labels in a hierarchy": _hierarchical,
}
