"""Check of the search of the built site: guides and reference answer, decisions do not.

Scores are those of ``searchtools.js`` of Sphinx: 15 for a title, 11 for an object, 5
for a word of the text; all words must occur.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from sphinx.search.en import SearchEnglish

QUERIES = ("depth", "class weights", "predict_proba", "learning_rate", "save", "probability")
UNSEARCHED = ("decisions/", "results/", "changelog")


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


text = Path(sys.argv[1], "searchindex.js").read_text(encoding="utf-8")
index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
for query in QUERIES:
    pages = first_pages(index, query)
    assert pages, f"the search for {query!r} has no result"
    wrong = [page for page in pages if page.startswith(UNSEARCHED)]
    assert not wrong, f"the search for {query!r} shows {wrong}"
    print(f"{query}: {', '.join(pages[:3])}")
