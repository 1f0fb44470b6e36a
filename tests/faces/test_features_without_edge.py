"""Features that tell nothing: the empty model is certified and said, whatever rounding leaves."""

import numpy as np
import pytest

from structboost import (
    StructBoostClassifier,
    StructBoostMultiLabelClassifier,
    StructBoostRanker,
    StructBoostTagger,
)
from structboost.errors import EmptyModelWarning

pytestmark = pytest.mark.filterwarnings("ignore")

FORMS = ({}, {"formulation": "m_slack"}, {"weak_learner": "linear"}, {"weak_learner": "tree"})


def within_queries(seed):
    """Items whose features are those of their query, and their relevance."""
    rng = np.random.default_rng(seed)
    n_queries = 6
    queries = np.repeat(np.arange(n_queries), rng.integers(3, 8, n_queries))
    return rng.normal(size=(n_queries, 3))[queries], rng.integers(0, 3, len(queries)), queries


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("C", ["auto", 50.0])
@pytest.mark.parametrize(("loss", "seed"), [("pairs", 0), ("ndcg", 1)])
def test_rankers_of_features_that_are_constant_within_queries_are_empty(loss, C, form, seed):
    X, y, queries = within_queries(seed)
    model = StructBoostRanker("hinge", loss=loss, C=C, **form)
    with pytest.warns(EmptyModelWarning, match="No larger C helps"):
        model.fit(X, y, qid=queries)
    assert not model.model_.weights.any()


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("C", [5.0, 1e6])
def test_other_faces_of_constant_features_are_empty(form, C):
    X, y = np.full((48, 2), 0.1), np.tile([0, 1], 24)
    sets = np.column_stack((y, 1 - y))
    sequences = [X[i : i + 4] for i in range(0, 48, 4)]
    for face, *examples in (
        (StructBoostClassifier, X, y),
        (StructBoostMultiLabelClassifier, X, sets),
        (StructBoostTagger, sequences, [y[:4]] * 12),
    ):
        model = face(objective="hinge", C=C, **form).fit(*examples)
        if face is not StructBoostTagger:  # tags follow from those before them
            assert not model.model_.weights.any()
