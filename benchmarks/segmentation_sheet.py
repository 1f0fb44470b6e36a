"""A contact sheet (fig. 7): image, truth, AdaBoost, SSVM, StructBoost.

``python -m benchmarks.segmentation_sheet NAME --data DIR --out FILE.png``; the pictures are the data's, so the file
stays out of the project.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import segmentation
from structboost.segmentation.crf_model import CRFModel
from structboost.segmentation.crf_training import fit_crf
from structboost.segmentation.drawing import contact_sheet
from structboost.segmentation.image_files import fitted, resized_mask, write_png
from structboost.segmentation.labelled_folder import read_folder

N_ROWS = 6


def main() -> int:
    """Train on a set, draw some of its test images."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.segmentation_sheet", description=__doc__)
    parser.add_argument("name", choices=segmentation.DATASETS)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--C", type=float, default=1.0)
    options = parser.parse_args()
    with threadpool_limits(1):
        rows, n_labels = sheet_rows(options.name, options.data, options.C)
    write_png(options.out, contact_sheet(rows, n_labels))
    return 0


def sheet_rows(name: str, data_dir: Path, C: float) -> tuple[list, int]:
    """Rows of the sheet: test images of several labels, evenly spread over the set, with the masks of every method."""
    train, test = (segmentation.images(name, data_dir, part) for part in ("train", "test"))
    graphs, test_graphs, codebook, _ = segmentation.potentials(train, test, seed=0)
    known = segmentation.known(test)
    models = {method: segmentation.CRFS[method] for method in ("ssvm", "structboost")}
    crfs = {
        m: CRFModel.of(fit_crf(graphs, train.counts, settings, C, train.photographs)) for m, settings in models.items()
    }
    alone = segmentation.fit_alone("adaboost", train, codebook, seed=0)[0]
    source = segmentation.SOURCES[name]
    root = Path(data_dir) / "segmentation" / source.folder
    # Of all test images of a rare class most show nothing.
    telling = [i for i, counts in enumerate(test.counts) if np.count_nonzero(counts.sum(axis=0)) > 1]
    shown = sorted({telling[k] for k in np.linspace(0, len(telling) - 1, N_ROWS).astype(int)})
    found = read_folder(
        root / "images", root / "masks", names=[test.names[i] for i in shown], foreground=source.foreground
    )
    rows = []
    for i, image in zip(shown, found.images, strict=True):
        described = test.described[i]
        rows_of_image = segmentation.rows_alone(test, codebook, i)
        by_method = {"adaboost": alone.predict(rows_of_image)}
        by_method |= {m: crf.labels(test_graphs[i], known[i]) for m, crf in crfs.items()}
        masks = {m: labels.astype(np.uint8)[described.labels] for m, labels in by_method.items()}
        small = fitted(image.image, segmentation.LONGEST)
        rows.append((image.name, small, {"truth": resized_mask(image.mask, small.shape), **masks}))
    return rows, train.counts[0].shape[1]


if __name__ == "__main__":
    sys.exit(main())
