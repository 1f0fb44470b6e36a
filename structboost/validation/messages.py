"""Texts of errors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

# Largest number of characters of a value in an error.
_LONGEST_SHOWN = 100


def shown(value: Any) -> str:
    """Format ``value`` for an error, on one line."""
    try:
        is_scalar = isinstance(value, np.generic) and value.dtype.kind not in "mM"
        text = repr(value.item() if is_scalar else value)
    except Exception:  # whole numbers of many thousand digits raise, and deeply nested lists
        text = f"a value of type {type(value).__name__}"
    text = re.sub(r"\s*\n\s*", " ", text)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def lacks_and_has(missing: Any, unknown: Any, what: str = "") -> str:
    """Return the end of a sentence about names that are missing, and names that are unknown."""
    lacks = [f"lacks {what}{shown(missing)}"] if missing else []
    # The second verb needs no noun if the first has one.
    has = [f"has {'' if missing else what}{shown(unknown)} besides"] if unknown else []
    return " and ".join(lacks + has)
