"""Damages: a file whose bytes are other ones, and crafted ones with a checksum that is right."""

import copy
import warnings

import numpy as np

from tests.helpers.damaged_files.archives import put_together, taken_apart

NUMBERS = [-1, 0, 2, 255, 10**9, 1 << 40, -(1 << 63), np.nan, np.inf, -np.inf, 1e300, 0.5]
JUNK = [None, True, "x", [], {}, -1, 0, 10**6, 10**30, 0.5, np.nan, np.inf, [[[]]], {"a": 1}]


def flipped(content, random):
    changed = bytearray(content)
    for place in random.integers(len(changed), size=random.integers(1, 4)):
        changed[place] ^= int(random.integers(1, 256))
    return bytes(changed)


def cut(content, random):
    return content[: random.integers(len(content))]


def extended(content, random):
    return content + random.bytes(random.integers(1, 200))


def moved(content, random):
    a, b = sorted(random.integers(len(content), size=2))
    return content[:a] + content[b:] + content[a:b]


DAMAGES = (flipped, cut, extended, moved)


def other_entries(arrays, name, random):
    array = arrays[name]
    if not array.size:
        return
    flat = array.reshape(-1).copy()
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        value = np.array(NUMBERS[random.integers(len(NUMBERS))]).astype(array.dtype)
    if random.random() < 0.3:
        flat[:] = value
    else:
        flat[random.integers(flat.size, size=random.integers(1, 4))] = value
    arrays[name] = flat.reshape(array.shape)


def shuffled(arrays, name, random):
    array = arrays[name].reshape(-1)
    arrays[name] = random.permutation(array).reshape(arrays[name].shape)


def other_shape(arrays, name, random):
    array = arrays[name]
    if not array.ndim:
        arrays[name] = np.repeat(array, 3)
        return
    axis = int(random.integers(array.ndim))
    changes = [
        lambda a: np.repeat(a, 3, axis=axis),
        lambda a: np.delete(a, range(a.shape[axis] // 2, a.shape[axis]), axis=axis),
        lambda a: a[None],
        lambda a: a.T,
        lambda a: a.reshape(-1),
        lambda a: np.zeros((0, *a.shape[1:]), a.dtype),
        lambda a: np.concatenate((a, a[-1:])),
    ]
    arrays[name] = changes[random.integers(len(changes))](array)


def other_type(arrays, name, random):
    with np.errstate(all="ignore"):
        arrays[name] = arrays[name].astype(
            random.choice(["float32", "int8", ">i8", "float64", "U3", "complex64"])
        )


def missing(arrays, name, random):
    del arrays[name]


def doubled(arrays, name, random):
    arrays[name + "x"] = arrays[name]


def swapped(arrays, name, random):
    other = list(arrays)[random.integers(len(arrays))]
    arrays[name], arrays[other] = arrays[other], arrays[name]


CRAFTS = (
    other_entries,
    other_entries,
    other_entries,
    shuffled,
    other_shape,
    other_type,
    missing,
    doubled,
    swapped,
)


def other_header(header, random):
    """One value somewhere in the header is another."""
    header = copy.deepcopy(header)
    place = header
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = keys[random.integers(len(keys))]
        if not isinstance(place[key], dict | list) or not place[key] or random.random() < 0.2:
            break
        place = place[key]
    if isinstance(place, dict) and random.random() < 0.1:
        del place[key]
    else:
        place[key] = JUNK[random.integers(len(JUNK))]
    return header


def variant(content, random):
    """A damaged file, what was done, and whether a file that loads must be the one that was
    saved."""
    is_archive = content[:2] == b"PK"
    if not is_archive or random.random() < 0.4:
        damage = DAMAGES[random.integers(len(DAMAGES)) if random.random() < 0.5 else 0]
        return damage(content, random), damage.__name__, True
    header, arrays = taken_apart(content)
    if random.random() < 0.3:
        header, name = other_header(header, random), "other_header"
    else:
        craft = CRAFTS[random.integers(len(CRAFTS))]
        craft(arrays, list(arrays)[random.integers(len(arrays))], random)
        name = craft.__name__
    return put_together(header, arrays, sealed=bool(random.random() < 0.5)), name, False
