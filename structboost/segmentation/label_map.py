"""Meaning of the values of masks, with the names and colours of classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from structboost.segmentation.image_files import VOID, ImageFileError, Mask, text_lines
from structboost.validation import checked_flag, is_whole, shown

Colour = tuple[int, int, int]
# Masks of two values with soft edges have at least so many values, including a large one, that
# fill a small part of the mask, or more values than a photograph has classes.
_FEWEST_SOFT = 3
_LARGEST_RIM = 0.2
_MOST_CLASSES = 100


@dataclass(frozen=True)
class LabelMap:
    """Meaning of the values of masks.

    Parameters
    ----------
    classes : tuple of int
        The value of each class, ascending.  If empty, a value is the index of a class.
    foreground : tuple of int
        Values that together form class 1, against all others.
    names : tuple of str
        Names of the values 0, 1, ..., as far as they have any.
    colours : tuple of (int, int, int)
        Colours of the values 0, 1, ..., RGB, as far as they have any.
    has_void : bool
        Whether 255 was void in these masks, so that it stays void in masks of 0 and 255 alone.
    """

    classes: tuple[int, ...] = ()
    foreground: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    colours: tuple[Colour, ...] = ()
    has_void: bool = False

    def __post_init__(self) -> None:
        checks: dict[str, tuple[Callable[[Any], bool], str]] = {
            "classes": (_is_value, "whole numbers from 0 to 255, such as (0, 255)"),
            "foreground": (_is_value, "whole numbers from 0 to 255, such as (1,)"),
            "names": (lambda name: isinstance(name, str), "names, such as ('sky', 'cow')"),
            "colours": (_is_colour, "three numbers from 0 to 255 each, such as ((250, 0, 0),)"),
        }
        for name, (is_good, wanted) in checks.items():
            entries = getattr(self, name)
            if not isinstance(entries, tuple | list) or not all(map(is_good, entries)):
                raise TypeError(f"{name} is {shown(entries)}; give a tuple of {wanted}.")
            object.__setattr__(self, name, tuple(entries))
        checked_flag(self.has_void, "has_void")

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> LabelMap:
        """Build the meaning from a record of a model file."""
        meaning = cls(
            **{
                **record,
                "classes": tuple(int(value) for value in record["classes"]),
                "foreground": tuple(int(value) for value in record["foreground"]),
                "names": tuple(str(name) for name in record["names"]),
                "colours": tuple(tuple(colour) for colour in record["colours"]),
            }
        )
        if any(not 0 <= value <= VOID for value in (*meaning.classes, *meaning.foreground)):
            raise ValueError("values of masks are from 0 to 255")
        return meaning

    def labels(self, mask: Mask) -> Mask:
        """Convert a mask to class indices.

        Parameters
        ----------
        mask : ndarray of uint8, shape (height, width)
            Values of the mask.

        Returns
        -------
        labels : ndarray of uint8, shape (height, width)
            0..n_labels-1, and 255 where void.
        """
        if not self.foreground and not self.classes:
            return mask
        table = np.zeros(VOID + 1, np.uint8)
        if self.foreground:
            table[VOID] = VOID
            table[list(self.foreground)] = 1
        else:
            table[:] = VOID
            table[list(self.classes)] = np.arange(len(self.classes))
        return table[mask]

    def values(self, labels: Mask) -> Mask:
        """Convert class indices to values of such masks.

        Parameters
        ----------
        labels : ndarray of uint8, shape (height, width)
            Class indices.

        Returns
        -------
        mask : ndarray of uint8, shape (height, width)
            Values of the mask; with ``foreground``, or without ``classes``, the class indices
            themselves.
        """
        if self.foreground or not self.classes:
            return labels
        table = np.arange(VOID + 1, dtype=np.uint8)
        table[: len(self.classes)] = self.classes
        return table[labels]

    def n_labels(self, values: set[int]) -> int:
        """Return the number of classes of masks with these values.

        Parameters
        ----------
        values : set of int
            All values that occur.

        Returns
        -------
        n_labels : int
            At least 2.

        Raises
        ------
        ValueError
            If all pixels are of one class, or void.
        """
        if self.foreground and not values & {*self.foreground}:
            raise ValueError(
                f"foreground is {[*self.foreground]}, and the masks hold the values "
                f"{sorted(values)} only; give values that occur."
            )
        if self.foreground:
            return n_labels_of(set(np.unique(self.labels(np.array([*values], np.uint8))).tolist()))
        return len(self.classes) or n_labels_of(values)

    def name(self, label: int) -> str:
        """Return the name of a class, or its value where it has none.

        Parameters
        ----------
        label : int
            Class index.

        Returns
        -------
        name : str
            With ``foreground``, class 0 is "rest".
        """
        if self.foreground:
            wanted = [_entry(self.names, value, str(value)) for value in self.foreground]
            return "+".join(wanted) if label else "rest"
        if self.classes:
            other = ("background", "foreground")[label]
            return _entry(self.names, self.classes[label], other)
        return _entry(self.names, label, str(label))

    def colour(self, label: int) -> Colour | None:
        """Return the colour of a class, if it has one.

        Parameters
        ----------
        label : int
            Class index.

        Returns
        -------
        colour : (int, int, int) or None
            RGB, 0..255.
        """
        if self.foreground:
            return None
        value = self.classes[label] if self.classes else label
        return self.colours[value] if value < len(self.colours) else None

    def __str__(self) -> str:
        if self.foreground:
            wanted = " and ".join(str(value) for value in self.foreground)
            return f"class {wanted} is one class and all others are the other, 255 is void"
        if self.classes == (0, VOID):
            return "masks hold only 0 and 255: 255 is taken for the foreground"
        if self.classes:
            first, second = self.classes
            return f"masks hold two values: {second} is taken for the foreground, {first} is not"
        return "values of masks are class indices, 255 is void"


def meaning_of(values: set[int], of_model: LabelMap | None = None, n_labels: int = 2) -> LabelMap:
    """Derive the meaning of masks from all their values.

    Two values are two classes, the larger one the foreground.  Otherwise a value is the index of a
    class, and 255 is void.  The meaning ``of_model``, whose masks a model of ``n_labels`` classes
    was trained on, is used wherever the values allow it.
    """
    of_model = of_model or LabelMap()
    if of_model.foreground or n_labels > 2:
        return of_model
    if of_model.classes and values <= {*of_model.classes, VOID}:
        return of_model
    if of_model.has_void and values <= {*range(n_labels), VOID}:
        return of_model
    inside = sorted(values - {VOID})
    if values == {0, VOID}:
        classes: tuple[int, ...] = (0, VOID)
    elif len(inside) == 2 and inside != [0, 1]:
        classes = tuple(inside)
    elif len(values) == 2 and VOID in values and inside != [1]:
        classes = (inside[0], VOID)
    else:
        classes = ()
    has_void = not classes and VOID in values
    return LabelMap(classes, names=of_model.names, colours=of_model.colours, has_void=has_void)


def check_hard_edges(mask: Mask, name: str) -> None:
    """Raise ValueError if a mask without a known meaning seems to be a resized one of 0 and 255."""
    values, counts = np.unique(mask, return_counts=True)
    between = (values > 0) & (values < VOID)
    if not {0, VOID} <= {*values.tolist()} or between.sum() < _FEWEST_SOFT:
        return
    is_rim = counts[between].sum() < _LARGEST_RIM * mask.size or between.sum() > _MOST_CLASSES
    if is_rim and values[between].max() > VOID // 2:
        raise ValueError(
            f"{name} holds {len(values)} values from 0 to {VOID}, as masks of two values with soft "
            f"edges do; threshold it: 255 * (mask > {VOID // 2}). If the values are classes, give "
            "their names (--classes), or meaning=LabelMap() to Segmenter."
        )


def n_labels_of(values: set[int]) -> int:
    """Return the number of classes of masks with these values, at least 2.

    ValueError if all pixels are of one class, or void.
    """
    present = sorted(values - {VOID})
    if not present:
        raise ValueError(
            f"Every pixel of the masks is void ({VOID}); there is nothing to learn from."
        )
    if len(present) < 2:
        raise ValueError(
            f"The masks hold the classes {present} only; give at least two to learn from."
        )
    return present[-1] + 1


def read_classes(path: str | PathLike[str]) -> LabelMap:
    """Read the names of classes, from lines ``INDEX NAME``.

    ImageFileError if there is no such file, or a line, which is named, has another form.
    """
    names: dict[int, str] = {}
    for i, line in enumerate(text_lines(path, "a table of classes"), 1):
        words = line.replace(",", " ").split()
        if not words:
            continue
        value = int(words[0]) if words[0].isdigit() else -1
        # A name ends before statistics such as ``pixels=0.2``.
        n_words = next((k for k, word in enumerate(words) if "=" in word), len(words))
        if not 0 <= value <= VOID or n_words < 2 or value in names:
            raise ImageFileError(
                f"{path}, line {i} is {line.strip()!r}; give INDEX NAME, with an index of 0..255, "
                "each once."
            )
        names[value] = " ".join(words[1:n_words])
    names.pop(VOID, None)
    return LabelMap(
        names=tuple(names.get(value, "") for value in range(max(names, default=-1) + 1))
    )


def _is_value(value: Any) -> bool:
    return is_whole(value) and 0 <= value <= VOID


def _is_colour(levels: Any) -> bool:
    return isinstance(levels, tuple | list) and len(levels) == 3 and all(map(_is_value, levels))


def _entry(names: tuple[str, ...], value: int, other: str) -> str:
    return (names[value] if value < len(names) else "") or other
