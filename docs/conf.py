"""How Sphinx builds the site: ``make docs``."""

import os
import sys
from pathlib import Path

from docutils.nodes import document
from sphinx.application import Sphinx

import structboost

sys.path.insert(0, str(Path(__file__).parents[1]))  # the examples import each other's helpers
os.environ.setdefault("MPLBACKEND", "Agg")

project = "structboost"
author = "The structboost developers"
version = release = structboost.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "show_memory": False,
    "capture_repr": ("_repr_html_",),  # the address of a display says nothing
    "abort_on_example_error": True,
}
autosummary_generate = True
templates_path = ["_templates"]
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # the docstrings say them
numpydoc_show_class_members = False
exclude_patterns = ["_build", "_extra", "_templates"]

html_theme = "pydata_sphinx_theme"
html_title = "structboost"
html_static_path = ["_static"]
html_extra_path = ["_extra"]  # llms.txt
html_css_files = ["cards.css", "tables.css"]
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "results/index": []},
}


# Pages that a search of the site leaves out.
UNSEARCHED = ("decisions/", "results/", "changelog", "how-this-library-is-tested", "architecture")


def leave_out_of_search(app: Sphinx, doctree: document) -> None:
    """Mark the pages that are no guide, reference or example."""
    name = app.env.docname
    if name.startswith(UNSEARCHED):
        app.env.metadata[name]["nosearch"] = True


def setup(app: Sphinx) -> None:
    """Leave out what scikit-learn's base classes add, and pages for contributors in the search."""
    app.connect("doctree-read", leave_out_of_search)
    app.connect(
        "autodoc-skip-member",
        lambda app, what, name, thing, skip, options: (
            True if (getattr(thing, "__module__", "") or "").startswith("sklearn.") else None
        ),
    )
