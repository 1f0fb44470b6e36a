"""Natural trees of the classes of three data sets, as nested lists of class numbers 0..n_classes-1."""

from __future__ import annotations

from typing import Any

# Red soil; grey, damp grey and very damp grey soil; cotton crop, and soil with vegetation stubble.
SATIMAGE = [[0, [2, 3, 5]], [1, 4]]

# Man-made: brickface, cement, window, path. Natural: sky, and foliage with grass.
SEGMENT = [[0, 3, 4, 5], [1, [2, 6]]]


def _letters(groups: str) -> list[Any]:
    return [[ord(letter) - ord("A") for letter in group] for group in groups.split()]


# Letters by the vowel of their English names: B ee, A ay, F eh, Q oo, I eye, R ah, O oh.
ISOLET = [
    [*_letters("BCDEGPTVZ AHJK")],
    [*_letters("FLMNSX")],
    [*_letters("QUW"), 14],
    [*_letters("IY"), 17],
]

TAXONOMIES = {"satimage": SATIMAGE, "segment": SEGMENT, "isolet1": ISOLET}
