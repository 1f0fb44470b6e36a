"""A contact sheet (fig. 7): image, truth, AdaBoost, SSVM, StructBoost.

``python -m benchmarks.papers.segmentation_sheet NAME --data DIR --out FILE.png``; the pictures are
the data's, so the file stays out of the project.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.ours import segmenting
from benchmarks.papers import segmentation
from structboost.segmentation.crf_model import CRFModel
from structboost.segmentation.crf_training import fit_crf
from structboost.segmentation.drawing import contact_sheet
from structboost.segmentation.image_files import fitted, resized_mask, write_png
from structboost.segmentation.labelled_folder import read_folder

N_ROWS = 6


def main() -> int:
    """Train on a set, draw some of its test images."""
    parser = argparse.ArgumentParser(description=__doc__)
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
    """Test images of several labels, evenly spread over the set, with every method's masks."""
    source = segmentation.SOURCES[name]
    train, test = (segmenting.images(source, data_dir, part) for part in ("train", "test"))
    graphs, test_graphs, codebook, _ = segmenting.potentials(train, test, seed=0)
    crfs = {}
    for method in (segmenting.BASELINE, segmenting.OURS):
        settings = segmenting.CRFS[method]
        crfs[method] = CRFModel.of(fit_crf(graphs, train.counts, settings, C, train.photographs))
    alone = segmenting.fit_alone("adaboost", train, codebook, seed=0)[0]
    # Most test images show nothing of a rare class.
    n_shown = [np.count_nonzero(counts.sum(axis=0)) for counts in test.counts]
    telling = [i for i, n in enumerate(n_shown) if n > 1]
    shown = sorted({telling[k] for k in np.linspace(0, len(telling) - 1, N_ROWS).astype(int)})
    root = source.root(data_dir)
    names = [test.names[i] for i in shown]
    folders = (root / "images", root / "masks")
    found = read_folder(*folders, names=names, foreground=source.foreground)
    known = test.known()
    rows = []
    for i, image in zip(shown, found.images, strict=True):
        labels = {"adaboost": alone.predict(segmenting.rows_alone(test, codebook, i))}
        labels |= {m: crf.labels(test_graphs[i], known[i]) for m, crf in crfs.items()}
        at = test.described[i].labels
        masks = {method: own.astype(np.uint8)[at] for method, own in labels.items()}
        small = fitted(image.image, segmenting.LONGEST)
        rows.append((image.name, small, {"truth": resized_mask(image.mask, small.shape), **masks}))
    return rows, train.n_labels


if __name__ == "__main__":
    sys.exit(main())
