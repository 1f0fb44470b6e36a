"""Learn to segment images, on made ones: train, save, load, segment, score, draw.

It needs about half a minute.

With photographs of your own: ``read_folder("images", "masks").images`` instead of
``make_synthetic_images``.
"""

import tempfile
from pathlib import Path

from structboost.segmentation import (
    SegmentationScores,
    Segmenter,
    confusion,
    contact_sheet,
    make_synthetic_images,
    write_png,
)

train, test = make_synthetic_images(24), make_synthetic_images(6, random_state=1)
print(train.name)

segmenter = Segmenter(n_segments=150, verbose=1).fit(train.images, train.masks)
last = segmenter.history_[-1]
print(f"C = {segmenter.C_:g}, {last['round']} rounds, gap {last['gap']:.1%}")

folder = Path(tempfile.mkdtemp(prefix="segment-"))
segmenter.save(folder / "coins.model")
segmenter = Segmenter.load(folder / "coins.model")

found = [segmenter.predict(image) for image in test.images]
scores = SegmentationScores.of(
    [confusion(truth, mask, 2) for truth, mask in zip(test.masks, found, strict=True)]
)
print({name: round(value, 3) for name, value in scores.as_record().items()})

rows = [
    (f"image {i}", image, {"truth": truth, "found": mask})
    for i, (image, truth, mask) in enumerate(zip(test.images, test.masks, found, strict=True))
]
write_png(folder / "sheet.png", contact_sheet(rows))
print(f"model and contact sheet are in {folder}")
