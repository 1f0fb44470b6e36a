"""
A labelling of an image
=======================

A conditional random field on superpixels. The weights of its potentials are learned, and graph cuts
find the best labelling.
"""

import matplotlib.pyplot as plt

from examples.synthetic_images import make_synthetic_images
from structboost.segmentation import (
    SegmentationScores,
    Segmenter,
    confusion,
    draw_segmentation,
)

train, test = make_synthetic_images(8), make_synthetic_images(3, random_state=1)
segmenter = Segmenter(n_segments=100).fit(train.images, train.masks)
found = [segmenter.predict(image) for image in test.images]
pairs = zip(test.masks, found, strict=True)
scores = SegmentationScores.of([confusion(truth, mask, 2) for truth, mask in pairs])
print({name: round(value, 3) for name, value in scores.as_record().items()})

# %%
# Made photographs, their true masks, and what the segmenter finds:

figure, axes = plt.subplots(3, 3, figsize=(8, 6), layout="constrained")
for row, image, truth, mask in zip(axes, test.images, test.masks, found, strict=True):
    row[0].imshow(image)
    row[1].imshow(draw_segmentation(image, truth))
    row[2].imshow(draw_segmentation(image, mask))
for axis, title in zip(axes[0], ("image", "truth", "found"), strict=True):
    axis.set_title(title)
for axis in axes.flat:
    axis.set_axis_off()
plt.show()
