"""Figures of Tables 1 and 2 of StructBoost (TPAMI 2014), as (mean, standard deviation), in fractions."""

from __future__ import annotations

# Test AUC of the 1-slack formulation and its training seconds.
TABLE_1 = {
    "wine": (0.994, 0.006),
    "glass": (0.844, 0.039),
    "svmguide2": (0.905, 0.036),
    "svmguide4": (0.982, 0.005),
    "vowel": (0.967, 0.013),
    "dna": (0.992, 0.003),
    "segment": (0.999, 0.001),
    "satimage": (0.997, 0.002),
}
TABLE_1_MSLACK = {
    "wine": (0.994, 0.005),
    "glass": (0.849, 0.028),
    "svmguide2": (0.905, 0.036),
    "svmguide4": (0.982, 0.005),
    "vowel": (0.968, 0.013),
}
TABLE_1_SECONDS = {
    "wine": 3,
    "glass": 6,
    "svmguide2": 106,
    "svmguide4": 106,
    "vowel": 952,
    "dna": 1598,
    "segment": 475,
    "satimage": 37769,
}

_DATASETS = "glass svmguide2 svmguide4 vowel dna segment satimage usps pendigits mnist".split()
_TABLE_2_PERCENT = """
structboost_stump 35.8 6.2 21.0 3.9 20.1 2.9 17.5 2.2 6.2 0.7 2.9 0.7 12.1 0.7 6.9 0.6 3.9 0.4 12.5 0.4
structboost_perceptron 37.3 6.2 22.7 4.8 53.4 6.1 6.8 1.8 6.6 0.6 3.8 0.7 11.4 1.1 4.1 0.6 1.8 0.3 6.5 0.6
adaboost_ecc 32.7 4.9 23.3 4.0 19.1 2.3 20.6 1.5 7.6 1.2 2.9 0.8 12.8 0.7 8.4 0.7 8.4 0.7 15.8 0.3
adaboost_mh 32.3 5.0 21.9 4.5 19.3 3.0 18.8 2.1 7.1 0.6 3.7 0.7 12.7 0.9 7.4 0.5 7.4 0.5 13.4 0.4
ssvm 38.8 8.7 21.9 5.9 45.7 3.9 25.6 2.5 6.9 0.9 5.3 1.0 14.9 0.1 5.8 0.3 5.2 0.3 9.6 0.2
ovr_svm 40.8 7.0 17.7 3.5 47.0 3.2 54.4 2.2 6.3 0.5 7.7 0.8 17.5 0.4 5.4 0.5 8.1 0.5 9.2 0.2
"""


def _fractions(words: list[str]) -> dict[str, tuple[float, float]]:
    """One row of Table 2, by data set."""
    percent = [float(word) for word in words]
    pairs = zip(percent[::2], percent[1::2], strict=True)
    return {name: (mean / 100, std / 100) for name, (mean, std) in zip(_DATASETS, pairs, strict=True)}


_rows = [line.split() for line in _TABLE_2_PERCENT.strip().splitlines()]
TABLE_2 = {method: _fractions(words) for method, *words in _rows}
