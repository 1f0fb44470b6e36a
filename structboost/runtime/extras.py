"""Packages that only some uses need, by the extra of the distribution that installs them."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

from structboost.errors import MissingExtraError

# Modules by extra, and the names of their distributions.  What PyMaxflow does works without it.
EXTRAS = {
    "vision": {"av": "av", "cv2": "opencv-python", "PIL": "pillow", "skimage": "scikit-image"},
    "plot": {"matplotlib": "matplotlib"},
    "onnx": {"onnx": "onnx"},
    "distributed": {"dask": "dask", "distributed": "distributed"},
}


def require(extra: str, purpose: str, *modules: str) -> None:
    """Raise MissingExtraError if packages of one of `EXTRAS` are missing, without importing them.

    ``purpose`` is what needs them, the subject of the message.  ``modules`` are those that are
    needed, by default all of the extra.
    """
    names = EXTRAS[extra]
    missing = [names[module] for module in modules or names if not is_installed(module)]
    if missing:
        raise MissingExtraError(
            f"{purpose} needs {', '.join(missing)}, not installed here: pip install "
            f'"structboost-learn[{extra}]", or in a checkout pip install -e ".[{extra}]".'
        )


def is_installed(module: str) -> bool:
    """Whether a module is imported, or there is a file to import."""
    if module in sys.modules:
        return sys.modules[module] is not None  # None forbids the import
    return find_spec(module) is not None


def pyplot(purpose: str) -> Any:
    """Import ``matplotlib.pyplot``, or name the extra that brings it."""
    require("plot", purpose)
    import matplotlib.pyplot as plt

    return plt
