"""Taggers of trees on vectors go back to about the best held-out round."""

import numpy as np

from structboost import StructBoostTagger


def sticky_chain(n_sequences, seed):
    """Sequences of vectors whose tags mostly stay, and are seen through noise."""
    random = np.random.default_rng(seed)
    X, Y = [], []
    for _ in range(n_sequences):
        tags = [int(random.integers(3))]
        for _ in range(random.integers(4, 14)):
            tags.append(tags[-1] if random.random() < 0.8 else int(random.integers(3)))
        rows = random.normal(size=(len(tags), 5))
        rows[np.arange(len(tags)), np.array(tags) - 1] += 1.2 * (np.array(tags) > 0)
        X.append(rows)
        Y.append(tags)
    return X, Y


def test_rounds_that_overfit_are_dropped():
    X, Y = sticky_chain(60, 0)
    X_test, Y_test = sticky_chain(300, 1)
    model = StructBoostTagger(random_state=0).fit(X, Y)
    losses = {of["round"]: of["held_out_loss"] for of in model.history_ if "held_out_loss" in of}
    losses = {n: loss for n, loss in losses.items() if loss is not None}
    assert model.n_iter_ == 2 * min(losses, key=losses.get)
    assert model.ending_ == "held_out"
    assert len(model.history_) == model.model_.n_stages == model.n_iter_
    few = StructBoostTagger(max_iter=20, random_state=0).fit(X, Y).score(X_test, Y_test)
    assert model.score(X_test, Y_test) > few - 0.02
    marginals = model.predict_marginals(X_test)
    losses_of_tags = [-np.log(p[i][t]) for p, y in zip(marginals, Y_test, strict=True)
                      for i, t in enumerate(y)]  # fmt: skip
    # All 120 rounds have .73, CRFsuite .5.
    assert np.mean(losses_of_tags) < 0.66


def test_rounds_of_the_user_are_all_kept():
    X, Y = sticky_chain(60, 0)
    assert StructBoostTagger(max_iter=50, random_state=0).fit(X, Y).n_iter_ == 50
