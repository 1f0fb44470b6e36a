"""The size of the house, and how far a fit walks through it.

::

    python -m tests.house --lower    write the ledger anew, where something became less
    python -m tests.house --page     print a table of sizes and walks
"""

import argparse
import ast
import inspect
import re
import sys
import threading
import tokenize
import tomllib
import traceback
from collections import Counter
from pathlib import Path

from tests.helpers.source import MODULES, PACKAGE, imported

ROOT = Path(__file__).parents[1]
LEDGER = Path(__file__).with_name("house.toml")
PAGES = {"guides": "*.md", "decisions": "decisions.md", "results": "results/**/*.md"}
LAYOUT = {
    tokenize.STRING, tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT,
    tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING,
}  # fmt: skip


def tokens(folder):
    """Count the tokens of all Python files of a folder, without strings, comments and layout."""
    total = 0
    for path in folder.rglob("*.py"):
        with path.open("rb") as file:
            total += sum(token.type not in LAYOUT for token in tokenize.tokenize(file.readline))
    return total


def words(pattern):
    """Count the words of the pages that match a pattern below ``docs``."""
    pages = set((ROOT / "docs").glob(pattern))
    if pattern == PAGES["guides"]:
        pages -= set((ROOT / "docs").glob(PAGES["decisions"]))
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def sizes():
    """Return the numbers of the ledger as they are now."""
    counted = {name: tokens(ROOT / folder) for name, folder in FOLDERS.items()}
    return counted | {"docs": sum(map(words, PAGES.values()))}


FOLDERS = {"package": "structboost", "tests": "tests", "benchmarks": "benchmarks"}


def ledger():
    """Read the numbers that nothing may exceed."""
    return tomllib.loads(LEDGER.read_text(encoding="utf-8"))


def lower():
    """Write the sizes of now into the ledger where they are less."""
    text = LEDGER.read_text(encoding="utf-8")
    for name, size in sizes().items():
        if size < (ledger()[name] or size + 1):
            text = re.sub(rf"^{name} = \d+$", f"{name} = {size}", text, flags=re.M)
    LEDGER.write_text(text, encoding="utf-8")


# -- how far a fit walks -----------------------------------------------------------------------


def walk(run):
    """Count the files, distinct lines and nested frames of the package that a call passes."""
    lines, deepest = set(), 0

    def ours(frame):
        return frame.f_code.co_filename.startswith(str(PACKAGE))

    def local(frame, event, arg):
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def enter(frame, event, arg):
        nonlocal deepest
        if not ours(frame):
            return None
        deepest = max(deepest, sum(ours(above) for above, _ in traceback.walk_stack(frame)))
        return local

    run()  # compiles and imports
    threading.settrace(enter)
    sys.settrace(enter)
    try:
        run()
    finally:
        sys.settrace(None)
        threading.settrace(None)
    return len({file for file, _ in lines}), len(lines), deepest


def fits():
    """Return a name and a call for each fit whose walk is drawn."""
    from sklearn.datasets import load_iris

    from structboost import StructBoost, StructBoostClassifier
    from tests.helpers.slow_task import SlowTask

    X, y = load_iris(return_X_y=True)
    return {
        "default": lambda: StructBoostClassifier(random_state=0).fit(X, y),
        "hinge": lambda: StructBoostClassifier("hinge", C=10.0).fit(X, y),
        "a user's Task": lambda: StructBoost(SlowTask(0.0), C=20.0).fit(X, y),
    }


def printed_for_a_wrong_argmax():
    """Count the lines that Python prints where a user's own search fails."""
    from sklearn.datasets import load_iris

    from structboost import StructBoost
    from tests.helpers.slow_task import SlowTask

    class Wrong(SlowTask):
        def argmax(self, x, scores, y=None):
            return scores.no_such_attribute

    X, y = load_iris(return_X_y=True)
    try:
        StructBoost(Wrong(0.0), C=1.0).fit(X, y)
    except AttributeError as error:
        return len("".join(traceback.format_exception(error)).splitlines())
    raise AssertionError("the wrong search went unnoticed")


def imports():
    """Return the modules of the package that each module imports, types left out."""
    found = {}
    for name, path in MODULES.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):  # imports for types are read by no interpreter
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                node.body = []
        found[name] = imported(tree)
    return found


def chains_of_imports():
    """Return the longest chain of imports, and how many modules one needs on average."""
    graph, depth, needed = imports(), {}, {}

    def visit(name):
        if name not in depth:
            depth[name], needed[name] = 1, set()  # a circle inside functions ends here
            for other in graph[name]:
                visit(other)
            depth[name] = 1 + max((depth[other] for other in graph[name]), default=0)
            needed[name] = graph[name].union(*(needed[other] for other in graph[name]))

    for name in graph:
        visit(name)
    return max(depth.values()), sum(map(len, needed.values())) / len(needed)


def faces():
    """Return the most parameters that a face lists, the most classes of ours behind one, and the
    private methods that two of these classes write.

    Further keywords, which belong to the objective, are not among the parameters.
    """
    import structboost
    from structboost.runtime.called_class import MORE

    found = [getattr(structboost, name) for name in structboost.__all__]
    found = [c for c in found if inspect.isclass(c) and hasattr(c, "set_params")]
    counts = [len(set(inspect.signature(c).parameters) - {MORE}) for c in found]
    ours = [[b for b in c.__mro__ if b.__module__.startswith("structboost")] for c in found]
    written = Counter(
        (c.__name__, name)
        for c, behind in zip(found, ours, strict=True)
        for b in behind
        for name, value in vars(b).items()
        if re.match("_[a-z]", name)
        and inspect.isfunction(value)
        and not hasattr(value, "__isabstractmethod__")
    )
    return max(counts), max(map(len, ours)), [name for name, n in written.items() if n > 1]


def rows():
    """Return the name and value of each row of the table."""
    files = list(PACKAGE.rglob("*.py"))
    yield from sizes().items()
    yield "lines of the package", sum(len(f.read_text().splitlines()) for f in files)
    yield "files of the package", len(files)
    for name, pattern in PAGES.items():
        yield f"words of {name}", words(pattern)
    for name, run in fits().items():
        for what, count in zip(("files", "distinct lines", "frames"), walk(run), strict=True):
            yield f"{what} of a warm fit, {name}", count
    yield "lines printed for a wrong argmax", printed_for_a_wrong_argmax()
    longest, needed = chains_of_imports()
    yield "longest chain of imports", longest
    yield "modules that one needs, on average", f"{needed:.1f}"
    parameters, classes, twice = faces()
    yield "most parameters of a face", parameters
    yield "most classes of ours in the MRO of a face", classes
    yield "private methods that two of them write", len(twice)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument("--lower", action="store_true", help="write the ledger where it fell")
    parser.add_argument("--page", action="store_true", help="print sizes and walks as a table")
    arguments = parser.parse_args()
    if arguments.lower:
        lower()
    if arguments.page:
        print("| what | now |\n| --- | --- |")
        for name, value in rows():
            print(f"| {name} | {value} |", flush=True)


if __name__ == "__main__":
    main()
