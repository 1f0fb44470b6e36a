"""Benchmarks on real data: our methods beside the papers' figures and their peers.

``python -m benchmarks list`` names the pages, ``run --data DIR [NAME ...]`` measures some
or all of them, and ``index`` makes the page that sums them up.

`papers` says what each page measures, `ours` and `peers` hold methods that several pages have, and
`runner` does the measuring and writes the pages.
"""
