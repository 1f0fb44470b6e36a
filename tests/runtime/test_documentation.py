"""The link that notebooks show beside an estimator."""

import pytest

from structboost import (
    MulticlassTask,
    PredictThenOptimize,
    StructBoost,
    StructBoostClassifier,
    StructuredSVM,
)
from structboost.decisions import Choose
from structboost.runtime import documentation
from structboost.segmentation import Segmenter


@pytest.mark.parametrize(
    ("estimator", "page"),
    [
        (StructBoostClassifier(), "structboost.StructBoostClassifier"),
        (StructBoost(MulticlassTask(3), C=1.0), "structboost.StructBoost"),
        (StructuredSVM(MulticlassTask(3), C=1.0), "structboost.StructuredSVM"),
        (PredictThenOptimize(Choose(3, 1)), "structboost.PredictThenOptimize"),
        (Segmenter(), "structboost.segmentation.Segmenter"),
    ],
)
def test_html_links_to_the_page_of_the_estimator(monkeypatch, estimator, page):
    monkeypatch.setattr(documentation, "_address", lambda: "https://example.org/docs")
    assert f'href="https://example.org/docs/reference/{page}.html' in estimator._repr_html_()


def test_package_without_an_address_has_no_link(monkeypatch):
    monkeypatch.setattr(documentation, "_address", lambda: None)
    assert "href" not in StructBoostClassifier()._repr_html_()


def test_the_address_is_the_documentation_of_the_installed_package(monkeypatch):
    class Metadata:
        def get_all(self, name):
            assert name == "Project-URL"
            return ["Source, https://example.org/code", "Documentation, https://example.org/docs/"]

    monkeypatch.setattr(documentation, "metadata", lambda package: Metadata())
    documentation._address.cache_clear()
    try:
        assert documentation._address() == "https://example.org/docs"
    finally:
        documentation._address.cache_clear()
