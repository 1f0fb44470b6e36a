"""Turn masks of colours into masks of class numbers, which ``structboost segment`` reads.

``python examples/colour_masks.py classes.txt colours masks`` reads lines ``R G B NAME``.  It writes
the pictures of the folder ``colours`` to the folder ``masks``, and ``masks/classes.txt`` with lines
``INDEX NAME`` for ``--classes``.  The name "void" is 255.
"""

import argparse
from pathlib import Path

import numpy as np

from structboost.segmentation import read_photograph, write_png

VOID = 255


def main(table: str, colours: str, masks: str) -> None:
    """Convert the pictures of a folder."""
    Path(masks).mkdir(parents=True, exist_ok=True)
    rows = [line.split(maxsplit=3) for line in Path(table).read_text().splitlines() if line.strip()]
    palette = [tuple(map(int, row[:3])) for row in rows]
    names = [row[3].strip() for row in rows]
    classes = [name for name in names if name != "void"]
    values = [VOID if name == "void" else classes.index(name) for name in names]
    for path in sorted(Path(colours).glob("*.png")):
        picture = read_photograph(path)
        mask = np.full(picture.shape[:2], VOID, np.uint8)
        known = np.zeros(mask.shape, np.bool_)
        for colour, value in zip(palette, values, strict=True):
            inside = (picture == colour).all(axis=2)
            mask[inside] = value
            known |= inside
        if not known.all():
            colour = picture[~known][0].tolist()
            raise SystemExit(f"{path} has the colour {colour}, which is not in {table}.")
        write_png(Path(masks) / path.name, mask)
    text = "".join(f"{index} {name}\n" for index, name in enumerate(classes))
    (Path(masks) / "classes.txt").write_text(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", help="lines R G B NAME")
    parser.add_argument("colours", help="folder of pictures")
    parser.add_argument("masks", help="folder that is written")
    main(**vars(parser.parse_args()))
