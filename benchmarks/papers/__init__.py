"""Pages of results, a module each.  Tables and targets are in a .toml file, words in a .md file.

A page has ``EXPERIMENTS``. It may have ``derived(made)``, records with those that are made of them.
"""

import tomllib
from pathlib import Path

NAMES = (
    *("auc", "multiclass", "speed", "scale", "outside", "taggers"),
    *("multiboost-cw", "hierarchy", "mo-ecc", "shareboost", "segmentation", "tracking"),
    *("structures", "decisions", "tables", "learners", "tools", "thinning"),
)
PRINTED = tomllib.loads(Path(__file__).with_name("printed.toml").read_text())
