"""Sizes that do not fit into memory are refused before memory is taken, with what they need."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array

from structboost import (
    AdaBoostECCClassifier,
    ChainTask,
    EnumeratedTask,
    HierarchicalMultiLabelTask,
    MulticlassTask,
    MultiLabelTask,
    SegmentTask,
    StructBoost,
    StructBoostClassifier,
    StructBoostTagger,
    StructuredSVM,
    TaxonomyTask,
)
from structboost.runtime import memory
from structboost.tasks import CodedTask

MANY = 20_000
WORDS = np.ones((MANY, 2), np.int8)
X = np.zeros((4, 1))
WIDE = csr_array(([1.5], ([0], [0])), (40, 10**7))


@pytest.fixture(autouse=True)
def small_machine(monkeypatch):
    monkeypatch.setattr(memory, "physical_memory", lambda: 1e9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MulticlassTask(MANY), r"20000 classes take 3\.2 GB, and this machine has 1"),
        (lambda: MulticlassTask(10**9), r"take 8e\+09 GB"),
        (lambda: CodedTask(WORDS), "take fewer classes"),
        (lambda: EnumeratedTask(range(MANY), WORDS), "take fewer classes"),
        (lambda: ChainTask(10**9), "take fewer tags"),
        (lambda: SegmentTask(10**9, 2), "take fewer labels"),
        (lambda: TaxonomyTask({"all": [0, 1]}, n_classes=MANY), "group the classes"),
        (lambda: HierarchicalMultiLabelTask(10**11, [[0, 1]]), "take fewer labels"),
        (
            lambda: StructBoost(MultiLabelTask(10**10), C=1).fit(X, [[]] * 4),
            r"4 parts on the 10000000000 channels of kind 'x' take 320 GB",
        ),
        (
            lambda: StructBoostTagger(weak_learner="tree").fit([WIDE] * 2, [["a", "b"] * 20] * 2),
            "A dense table of 80 tokens and 10000000 features take .*fewer features",
        ),
    ],
)
def test_sizes_beyond_memory_are_refused_before_memory_is_taken(make, message):
    tracemalloc.start()
    try:
        with pytest.raises(MemoryError, match=message):
            make()
        assert tracemalloc.get_traced_memory()[1] < 5e8
    finally:
        tracemalloc.stop()


def test_a_linear_function_beyond_memory_is_refused():
    with pytest.raises(MemoryError, match=r"weights of a linear function take .*fewer features"):
        StructuredSVM(MultiLabelTask(10**8), C=1).fit(X, [[]] * 4)


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize("face", [StructBoostClassifier(), AdaBoostECCClassifier()])
def test_a_label_for_each_of_twenty_thousand_samples_is_refused(face):
    labels = np.arange(MANY)
    with pytest.raises(MemoryError, match="20000 classes take"):
        face.fit(labels[:, None].astype(np.float32), labels)
