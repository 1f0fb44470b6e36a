import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from structboost.faces.string_index import StringIndex

# Few characters, so that strings meet; one of two bytes, a lone surrogate and a null.
TEXTS = st.text("ab=é\ud800", max_size=4)


@settings(deadline=None)
@given(
    st.lists(TEXTS, max_size=12),
    TEXTS,
    TEXTS,
    st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8),
)
def test_the_index_finds_what_a_dict_finds(strings, one, other, values):
    places = {string: k for k, string in enumerate(strings)}
    columns = [*zip(*values, strict=True)]
    found = StringIndex(strings).find([one, other], columns)
    assert sorted(found) == [0, 1]
    for k, prefix in enumerate((one, other)):
        wanted = [places.get(prefix + value, -1) for value in columns[k]]
        assert found[k].tolist() == wanted


def test_the_index_finds_each_of_many_strings():
    strings = [f"word={k}" for k in range(5000)]
    found = StringIndex(strings).find(["word="], [[str(k) for k in range(-5, 6000)]])
    wanted = [k if 0 <= k < 5000 else -1 for k in range(-5, 6000)]
    assert np.array_equal(found[0], wanted)


def test_columns_of_other_values_and_null_characters_are_left_to_the_caller():
    index = StringIndex(["a=b", "a=b\0c"])
    assert sorted(index.find(["a=", "a="], [["b", 1], ["b", "c"]])) == [1]
    assert index.find(["a="], [["b\0c", "b"]]) == {}
    assert index.find(["a\0"], [["b"]]) == {}
    assert index.find([], []) == {}
