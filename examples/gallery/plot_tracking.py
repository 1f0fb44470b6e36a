"""
A box in a video
================

The tracker learns online to predict the overlap of boxes with the object, and says when the object
is lost.
"""

import matplotlib.pyplot as plt
import numpy as np

from examples.synthetic_clip import make_synthetic_clip
from structboost.tracking import StructBoostTracker, draw_box, evaluate

clip = make_synthetic_clip(60)
tracker = StructBoostTracker(random_state=0)
tracker.init(clip.frames[0], clip.boxes[0])
boxes, confidences, lost = [clip.boxes[0]], [1.0], [False]
for frame in clip.frames[1:]:
    boxes.append(tracker.update(frame))
    confidences.append(tracker.confidence)
    lost.append(tracker.lost)
measures = evaluate(np.array(boxes), clip.boxes)
print(f"mean overlap {measures.mean_overlap:.2f}")

# %%
# Every tenth frame:

figure, axes = plt.subplots(2, 3, figsize=(9, 5), layout="constrained")
for axis, number in zip(axes.flat, range(0, 60, 10), strict=True):
    label = "lost" if lost[number] else f"{confidences[number]:.2f}"
    axis.imshow(draw_box(clip.frames[number], boxes[number], label))
    axis.set_title(f"frame {number}")
    axis.set_axis_off()
plt.show()
