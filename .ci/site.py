"""Check of the built site: its search, the copies in Markdown, and links from names of classes.

Guides and reference answer a search, decisions do not.  Scores are those of ``searchtools.js`` of
Sphinx: 15 for a title, 11 for an object, 5 for a word of the text; all words must occur.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

from sphinx.search.en import SearchEnglish

QUERIES = ("depth", "class weights", "predict_proba", "learning_rate", "save", "probability")
UNSEARCHED = ("decisions", "results/", "changelog")


def places(entry):
    """List the pages of a word, which the index writes as a number or a list."""
    return entry if isinstance(entry, list) else [entry]


def first_pages(index, query):
    """Rank the pages that have all words of a query."""
    language = SearchEnglish({})
    totals, counts = Counter(), Counter()
    for word in query.lower().split():
        found = Counter()
        for page in places(index["terms"].get(language.stem(word), [])):
            found[page] += 5
        for page in places(index["titleterms"].get(language.stem(word), [])):
            found[page] += 15
        for entries in index["objects"].values():
            for page, *_, name in entries:
                if word in name.lower():
                    found[page] = max(found[page], 11)
        totals.update(found)
        counts.update(found.keys())
    n_words = len(query.split())
    ranked = [page for page, _ in totals.most_common() if counts[page] == n_words]
    return [index["docnames"][page] for page in ranked]


site = Path(sys.argv[1])
listed = re.findall(r"\]\((\S+?)\)", (site / "llms.txt").read_text(encoding="utf-8"))
missing = [link for link in listed if not (site / link).is_file()]
assert listed, "llms.txt has no links"
assert not missing, f"llms.txt links to {missing}, which are not there"

FACE = "reference/structboost.StructBoostClassifier"
page = (site / "which-method").with_suffix
assert f'href="{FACE}.html#' in page(".html").read_text(encoding="utf-8"), "names are no links"
assert f"[`StructBoostClassifier`]({FACE}.md#" in page(".md").read_text(encoding="utf-8")

text = (site / "searchindex.js").read_text(encoding="utf-8")
index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
for query in QUERIES:
    pages = first_pages(index, query)
    assert pages, f"the search for {query!r} has no result"
    wrong = [page for page in pages if page.startswith(UNSEARCHED)]
    assert not wrong, f"the search for {query!r} shows {wrong}"
    print(f"{query}: {', '.join(pages[:3])}")
