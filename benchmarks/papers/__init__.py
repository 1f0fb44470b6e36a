"""What is measured: one module for each page of results, its prose in the .md file beside it.

A page has ``DATASETS`` and ``QUICK_DATASETS``; ``units(name, data_dir, quick=)``, the units of a
data set; ``records(name, finished)``, the records made of their results; ``show(made)``, the
records as text; ``targets(made)``, what was to be reached. It may have ``plot(made, path)``,
``PEERS``, the packages that the data sets need, and ``NOT_COMPARED``, the facts that differ from
run to run.
"""

import tomllib
from pathlib import Path

PRINTED = tomllib.loads(Path(__file__).with_name("printed.toml").read_text())
