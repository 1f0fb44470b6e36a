"""Pairs of tags that a scheme of chunks forbids, for the tagger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from structboost._typing import IntArray
from structboost.tasks.chunk_tags import (
    SCHEMES,
    ChunkTags,
    forbidden_by_scheme,
    has_tag,
    observed_pairs,
    scheme_of,
)
from structboost.training.boosting import AUTO
from structboost.validation import checked_choice


def scheme_of_tags(scheme: Any, classes: NDArray[Any], tags: Sequence[IntArray]) -> str | None:
    """Return the scheme that predictions follow, if any.

    The tags are indices into ``classes``, -1 where unknown.  ValueError if there is no such scheme,
    or it lacks one of the tags.
    """
    if scheme is None:
        return None
    checked_choice(scheme, "scheme", (AUTO, *SCHEMES))
    names: list[Any] = [*classes.tolist(), None]
    if scheme == AUTO:
        if not ChunkTags.is_scheme(classes):
            return None
        return scheme_of(observed_pairs([names[k] for k in of] for of in tags))
    strange = next((tag for tag in names[:-1] if not has_tag(scheme, tag)), None)
    if strange is not None:
        raise ValueError(
            f"scheme is {scheme!r}, which does not have the tag {strange!r} of y; give the scheme "
            "of the tags, or None."
        )
    return str(scheme)


def with_scheme(
    forbidden: Sequence[tuple[Any, Any]] | None, scheme: str | None, classes: NDArray[Any]
) -> Sequence[tuple[Any, Any]] | None:
    """Return the forbidden pairs of tags, those of the scheme included."""
    if scheme is None:
        return forbidden
    return [*(forbidden or ()), *forbidden_by_scheme(classes.tolist(), scheme)]
