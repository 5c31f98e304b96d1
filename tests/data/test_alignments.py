"""Gold alignments: sure and possible links, and what is wrong with a file."""

import pytest

from glassformer.data.readers.alignments import Gold, read_gold
from glassformer.errors import InputError


def write(folder, texts, links):
    (folder / "x.src-tgt").write_text(texts)
    (folder / "x.gold").write_text(links)
    return folder / "x"


def test_sure_and_possible_links(tmp_path):
    stem = write(tmp_path, "the cat  ||| le chat  \n. ||| .\n", "1-1 2p2\n1-1\n")
    first, second = read_gold(stem)
    assert first == Gold(["the", "cat"], ["le", "chat"], frozenset({(0, 0)}),
                         frozenset({(0, 0), (1, 1)}))  # fmt: skip
    assert second.sure == second.possible == {(0, 0)}
    assert next(read_gold(write(tmp_path, "a ||| b\n", "0-0\n"), base=0)).sure == {(0, 0)}


@pytest.mark.parametrize(
    ("texts", "links", "said"),
    [
        ("a | b\n", "1-1\n", "line 1: write SOURCE"),
        ("a ||| b\n", "1:1\n", "'1:1': write a link as 1-1"),
        ("a ||| b\n", "1-2\n", "'1-2': the texts have 1 and 1 words, counted from 1"),
        ("a ||| b\n", "0-1\n", "counted from 1"),
        ("a ||| b\nc ||| d\n", "1-1\n", "different numbers of lines"),
    ],
)
def test_refused(tmp_path, texts, links, said):
    with pytest.raises(InputError, match=said):
        list(read_gold(write(tmp_path, texts, links)))
