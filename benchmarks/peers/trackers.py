"""Learners of the trackers in Tables 4 and 5 of StructBoost, binary AdaBoost and Struck.

Both run in our :class:`structboost.tracking.BoxTracker`, on our features.
"""

import numpy as np

from structboost.inference.boxes import overlaps
from structboost.runtime.compiled import compiled
from structboost.solvers.products import ordered_times_vector
from structboost.tracking.box_features import N_GRADIENT, N_GREY
from structboost.tracking.online_learner import N_BINS, FrameStore, StumpVote


class AdaBoost:
    """Discrete AdaBoost on stumps that separate the object from the background.

    Boxes that overlap the object by more than 0.8 are positive examples, those by at most 0.3
    negative ones (section 4.4), and each class has half of the weight.  Each training starts anew
    on 1,500 boxes and with 48 features per round, all drawn at random, since 500 rounds on all
    boxes and features would take seconds.
    """

    n_rounds = 500

    def begin(self, n_boxes, n_features, random):
        self.frames, self.random = FrameStore(60, n_boxes, n_features, 0.1), random

    def add(self, features, boxes, *, first):
        self.frames.add(features, boxes, first=first)

    def train(self, *, initial):
        overlap = 1.0 - self.frames.losses[: self.frames.n_rows]
        classes = np.flatnonzero(overlap > 0.8), np.flatnonzero(overlap <= 0.3)
        rows = [self.random.permutation(part)[:750] for part in classes]
        sizes = [len(part) for part in rows]
        signs = np.repeat([1.0, -1.0], sizes)
        weights = np.repeat([0.5 / max(size, 1) for size in sizes], sizes)
        codes = np.ascontiguousarray(self.frames.codes[np.concatenate(rows)].T)
        tried = self.random.randint(0, len(codes), (self.n_rounds, 48))
        features, bins, votes = _adaboost(codes, signs, weights, tried)
        thresholds = self.frames.thresholds[features, bins]
        return StumpVote(features, thresholds, votes / np.abs(votes).sum())


@compiled
def _adaboost(codes, signs, weights, tried):
    """Boost stumps, each of which votes for the object up to its bin.

    The object has the sign 1, and the background -1.  Round k compares the features ``tried[k]``.
    """
    n_rounds = len(tried)
    features, bins = np.zeros(n_rounds, np.int64), np.zeros(n_rounds, np.int64)
    votes, histogram = np.zeros(n_rounds), np.zeros(N_BINS)
    for r in range(n_rounds):
        total = (weights * signs).sum()
        largest, edge = -1.0, 0.0
        for f in tried[r]:
            histogram[:] = 0.0
            for i in range(len(signs)):
                histogram[codes[f, i]] += weights[i] * signs[i]
            left = 0.0
            for b in range(N_BINS - 1):
                left += histogram[b]
                if abs(2.0 * left - total) > largest:
                    largest, edge = abs(2.0 * left - total), 2.0 * left - total
                    features[r], bins[r] = f, b
        error = min(max(0.5 * (1.0 - abs(edge)), 1e-6), 1.0 - 1e-6)
        vote = 0.5 * np.log((1.0 - error) / error)
        votes[r] = vote if edge > 0 else -vote
        for i in range(len(signs)):
            response = 1.0 if codes[features[r], i] <= bins[r] else -1.0
            weights[i] *= np.exp(-votes[r] * response * signs[i])
        weights /= weights.sum()
    return features, bins, votes


class Struck:
    """LaRank on the overlap loss with a Gaussian kernel and a budget.

    Hare, Saffari and Torr, "Struck: Structured Output Tracking with Kernels" (ICCV 2011).  The
    features are our grey values and gradients, divided by their std in the first frame; Struck has
    Haar features.  A pattern is a frame: the features and losses of its boxes, the object first.
    """

    selected = np.arange(N_GREY + N_GRADIENT)
    budget, C, width = 50, 100.0, 1.0

    def begin(self, n_boxes, n_features, random):
        self.random, self.scale, self.patterns = random, None, []
        # For each support vector: pattern and box, features, coefficient and gradient.
        self.places, self.vectors = [], np.zeros((0, len(self.selected)))
        self.coefficients, self.gradients, self.kernel = np.zeros(0), np.zeros(0), np.zeros((0, 0))

    def add(self, features, boxes, *, first):
        used = features[:, self.selected].astype(np.float64)
        if self.scale is None:
            self.scale = (used.std(axis=0) + 1e-3) * np.sqrt(len(self.selected))
        pattern = used / self.scale, 1.0 - overlaps(boxes[0], boxes)
        self.patterns.append(pattern)
        gradients = self._dual_gradients(pattern)
        self._step(pattern, 0, int(np.argmin(gradients)), gradients)
        for _ in range(10):  # passes over old patterns, and steps in each, as in Struck
            self._learn_from_old(all_boxes=True)
            for _ in range(10):
                self._learn_from_old(all_boxes=False)

    def train(self, *, initial):
        return self  # trained by `add`

    def scores(self, features):
        """Return ``sum_s beta_s k(x_s, x)`` of boxes, over the support vectors."""
        return self._scores(features / self.scale)

    def _scores(self, features):
        return ordered_times_vector(self._gaussian(features), self.coefficients)

    def _gaussian(self, a):
        """Return ``exp(-width |a_i - x_s|^2)`` for each support vector s."""
        b = self.vectors
        products = np.zeros((len(a), len(b)))
        _add_products(np.ascontiguousarray(a), np.ascontiguousarray(b.T), products)
        squares = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2.0 * products
        return np.exp(-self.width * np.maximum(squares, 0.0))

    def _dual_gradients(self, pattern):
        """Return the gradient of the dual for every box of a pattern, ``-loss - F``."""
        features, losses = pattern
        return -losses - self._scores(features) if self.places else -losses

    def _support(self, pattern):
        """Return the indices of a pattern's support vectors by their boxes."""
        return {box: s for s, (frame, box) in enumerate(self.places) if frame is pattern}

    def _learn_from_old(self, *, all_boxes):
        """Take a step on a random pattern, from all boxes or from its support vectors only."""
        pattern = self.patterns[self.random.randint(len(self.patterns))]
        support = self._support(pattern)
        free = [
            box
            for box, s in support.items()
            if self.coefficients[s] < (self.C if box == 0 else 0.0) - 1e-12
        ]
        if not free:
            return
        up = max(free, key=lambda box: self.gradients[support[box]])
        if all_boxes:
            gradients = self._dual_gradients(pattern)
            self._step(pattern, up, int(np.argmin(gradients)), gradients)
        else:
            down = min(support, key=lambda box: self.gradients[support[box]])
            self._step(pattern, up, down, None)

    def _step(self, pattern, up, down, gradients):
        """Move weight between two boxes of a pattern until the dual is largest."""
        if up == down:
            return
        a, b = (self._support_vector(pattern, box, gradients) for box in (up, down))
        rise = self.gradients[a] - self.gradients[b]
        if rise > 1e-5:
            curvature = self.kernel[a, a] + self.kernel[b, b] - 2.0 * self.kernel[a, b]
            most = (self.C if up == 0 else 0.0) - self.coefficients[a]
            length = min(rise / max(curvature, 1e-12), most)
            self.coefficients[a] += length
            self.coefficients[b] -= length
            self.gradients -= length * (self.kernel[:, a] - self.kernel[:, b])
        support = self._support(pattern).values()
        self._drop([s for s in support if abs(self.coefficients[s]) < 1e-8])
        while len(self.places) > self.budget:
            self._drop_cheapest()

    def _support_vector(self, pattern, box, gradients):
        """Return the index of the support vector of a box, which is added if missing."""
        n, support = len(self.places), self._support(pattern)
        if box not in support:
            vector = pattern[0][box]
            row = self._gaussian(vector[None])[0]
            kernel = np.ones((n + 1, n + 1))
            kernel[:n, :n], kernel[n, :n], kernel[:n, n] = self.kernel, row, row
            self.kernel, self.vectors = kernel, np.vstack((self.vectors, vector))
            self.coefficients = np.append(self.coefficients, 0.0)
            self.gradients = np.append(self.gradients, gradients[box])
            self.places.append((pattern, box))
        return support.get(box, n)

    def _drop_cheapest(self):
        """Drop the cheapest negative support vector, whose weight goes to a positive one."""
        negative = [s for s, (_, box) in enumerate(self.places) if box != 0]
        positive = [self._support(self.places[s][0])[0] for s in negative]
        k = self.kernel
        distance = k[negative, negative] + k[positive, positive] - 2.0 * k[negative, positive]
        at = int(np.argmin(self.coefficients[negative] ** 2 * distance))
        gone, heir = negative[at], positive[at]
        weight = self.coefficients[gone]
        self.coefficients[heir] += weight
        self.gradients -= weight * (self.kernel[:, heir] - self.kernel[:, gone])
        self._drop([gone] + ([heir] if self.coefficients[heir] < 1e-8 else []))

    def _drop(self, dropped):
        if not dropped:
            return
        rest = np.setdiff1d(np.arange(len(self.places)), dropped)
        self.places = [self.places[s] for s in rest]
        self.vectors, self.coefficients = self.vectors[rest], self.coefficients[rest]
        self.gradients, self.kernel = self.gradients[rest], self.kernel[np.ix_(rest, rest)]
        used = {id(pattern) for pattern, _ in self.places}
        self.patterns = [pattern for pattern in self.patterns if id(pattern) in used]


@compiled
def _add_products(a, b, out):
    """Add ``a @ b`` to ``out``, in one order on every machine."""
    for i in range(len(a)):
        for k in range(len(b)):
            for j in range(len(out[i])):
                out[i, j] += a[i, k] * b[k, j]
