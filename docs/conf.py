"""How Sphinx builds the site: ``make docs``."""

import inspect
import os
import re
import sys
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.osutil import relative_uri
from sphinx_design.shared import PassthroughTextElement
from sphinx_gallery.directives import imgsgnode

import structboost

sys.path.insert(0, str(Path(__file__).parents[1]))  # the examples import each other's helpers
os.environ.setdefault("MPLBACKEND", "Agg")
# The gallery looks at old names, too.
warnings.filterwarnings("ignore", category=FutureWarning, module="sphinx_gallery")

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
    "sphinx_markdown_builder",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "show_memory": False,
    "write_computation_times": False,
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
UNSEARCHED = ("decisions", "results/", "changelog", "how-this-library-is-tested", "architecture")


# A class, its attribute, a name with an underscore, or a call: `thin` alone is a verb.
NAME = re.compile(r"(structboost\.(?:\w+\.)*)?(\w+)(?:\.(\w+))?(\(.*)?", re.DOTALL)


@cache
def public_names() -> dict[str, str]:
    """Full name in the reference of each public name."""
    packages = ["structboost", *(f"structboost.{name}" for name in sorted(structboost._PACKAGES))]
    listed = [(package, name) for package in packages for name in import_module(package).__all__]
    return {name: f"{package}.{name}" for package, name in reversed(listed)}


def named_object(text: str) -> str | None:
    """Full name of the public object that a piece of code names, or None."""
    match = NAME.fullmatch(text)
    if match is None:
        return None
    package, name, attribute, call = match.groups()
    full = public_names().get(name)
    if full is None or not (name[0].isupper() or package or call or "_" in name):
        return None
    thing = getattr(import_module(full.rpartition(".")[0]), name)
    is_public = attribute is not None and not attribute.startswith("_")
    is_method = is_public and inspect.isroutine(getattr(thing, attribute, None))
    return f"{full}.{attribute}" if is_method else full


def link_names(app: Sphinx, doctree: nodes.document) -> None:
    """Make public names in code into links to the reference."""
    for code in list(doctree.findall(nodes.literal)):
        inside = code.parent
        while inside is not None and not isinstance(
            inside, nodes.reference | nodes.title | pending_xref
        ):
            inside = inside.parent
        full = None if inside is not None else named_object(code.astext())
        if full is not None and app.env.docname != f"reference/{full}":
            link = pending_xref(
                "", refdomain="py", reftype="obj", reftarget=full, refdoc=app.env.docname
            )
            code.replace_self(link)
            link += code


class PlainNodes(SphinxPostTransform):
    """Replace nodes that the copies of the pages in Markdown would lose."""

    default_priority = 900  # after the links
    formats = ("markdown",)

    def run(self) -> None:
        """Replace them in one page."""
        for node in list(self.document.findall(nodes.comment)):
            node.parent.remove(node)
        bare = [*self.document.findall(nodes.abbreviation)]
        for node in [*bare, *self.document.findall(PassthroughTextElement)]:
            node.replace_self(node.children)
        for node in list(self.document.findall(nodes.classifier)):  # type of a parameter
            term = node.parent[node.parent.index(node) - 1]
            node.parent.remove(node)
            term += [nodes.Text(" : "), *node.children]
        for node in list(self.document.findall(imgsgnode)):
            node.replace_self(nodes.image(uri=node["uri"], alt=node["alt"]))
        for node in self.document.findall(nodes.image):
            image = self.env.images.get(node["uri"], (None, Path(node["uri"]).name))[1]
            node["uri"] = relative_uri(f"{self.env.docname}.md", f"_images/{image}")
            node["alt"] = " ".join(node.get("alt", "").split())


def leave_out_of_search(app: Sphinx, doctree: nodes.document) -> None:
    """Mark the pages that are no guide, reference or example."""
    name = app.env.docname
    if name.startswith(UNSEARCHED):
        app.env.metadata[name]["nosearch"] = True


def setup(app: Sphinx) -> None:
    """Link names, and keep what scikit-learn adds and contributors' pages out of the search."""
    app.add_post_transform(PlainNodes)
    app.connect("doctree-read", link_names)
    app.connect("doctree-read", leave_out_of_search)
    app.connect(
        "autodoc-skip-member",
        lambda app, what, name, thing, skip, options: (
            True if (getattr(thing, "__module__", "") or "").startswith("sklearn.") else None
        ),
    )
