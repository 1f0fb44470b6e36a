"""
Tags of sequences
=================

A letter of a word is easier to read beside its neighbours. The tagger learns the letters and the
pairs of neighbours together, and Viterbi finds the best word.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from structboost import StructBoostTagger

# %%
# The made language: each word counts up or down from a digit, in pictures of 8 x 8 pixels, with
# some pixels painted over.

rng = np.random.default_rng(0)
pictures, digits = load_digits(return_X_y=True)
by_digit = [np.flatnonzero(digits == d) for d in range(10)]


def word(part):
    """A word of 4 to 7 digits, from every second picture of each digit."""
    length, step = rng.integers(4, 8), rng.choice([-1, 1])
    tags = (rng.integers(10) + step * np.arange(length)) % 10
    seen = pictures[[rng.choice(by_digit[t][part::2]) for t in tags]].copy()
    seen[rng.random(seen.shape) < 0.5] = 0
    return seen, tags


train, test = ([word(part) for _ in range(150)] for part in (0, 1))
tagger = StructBoostTagger(
    objective="hinge", C=100, tol=0.1, max_iter=30, weak_learner=["linear", "stump"]
)
tagger.fit(*zip(*train, strict=True))
print(f"letters right: {tagger.score(*zip(*test, strict=True)):.3f}")

# %%
# Some words and what the tagger reads:

figure, axes = plt.subplots(4, 1, figsize=(6, 5), layout="constrained")
for axis, (seen, tags) in zip(axes, test, strict=False):
    axis.imshow(np.hstack(seen.reshape(-1, 8, 8)), cmap="gray_r")
    read = tagger.predict([seen])[0]
    axis.set_title(f"read {' '.join(map(str, read))}, true {' '.join(map(str, tags))}", size=9)
    axis.set_axis_off()
plt.show()

# %%
# The pairs of neighbours that it has learned: steps of one, up and down.

figure, axis = plt.subplots(figsize=(4, 3.4), layout="constrained")
image = axis.imshow(tagger.transitions_, cmap="RdBu_r")
axis.set(xlabel="next digit", ylabel="digit", xticks=range(10), yticks=range(10))
figure.colorbar(image)
plt.show()
