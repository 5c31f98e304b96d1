"""`tag`: a label for each word whatever its pieces, and the spans of BIO labels."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import glassformer as gf
from folders import one_line
from glassformer.errors import InputError
from glassformer.inference import chunks, tag
from speakers import LONG, bert, bytewise, close, said

NER = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
NAMES = {"id2label": dict(enumerate(NER))}
TEXT = "Abigail, the cats of Paris, didn't sat-on  Ohio."
WORDS = ["Abigail", ",", "the", "cats", "of", "Paris", ",", "didn't", "sat-on", "Ohio", "."]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[gf.Model, Any]:
    return bert("BertForTokenClassification", tmp_path_factory.mktemp("m"), **LONG, **NAMES)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> gf.Model:
    return bert("BertForTokenClassification", tmp_path_factory.mktemp("m"), **NAMES)[0]


def check_labels(model: gf.Model, reference: Any, text: str, found: Any) -> None:
    """A plain loop: the first piece that stands in a word decides."""
    read = model.tokenizer.encode(text)
    theirs = said(reference, model, text).logits[0].softmax(-1)
    for word in found.words:
        assert text[word.start : word.end] == word.text
        for row, (start, end), special in zip(theirs, read.spans, read.special, strict=True):
            if not special and start < word.end and end > word.start:
                assert word.label == NER[int(row.argmax())]
                close(word.score, row.max())
                break
        else:
            raise AssertionError(word)


def test_one_label_a_word_as_in_a_plain_loop(pair: tuple[gf.Model, Any]) -> None:
    model, reference = pair
    found = model.tag(TEXT)
    assert [word.text for word in found.words] == WORDS
    assert found.labels == [word.label for word in found.words]
    assert any(len(model.tokenizer.encode(word).ids) > 4 for word in WORDS)
    check_labels(model, reference, TEXT, found)


@pytest.mark.parametrize("name", ["RobertaForTokenClassification", "GPT2ForTokenClassification"])
def test_words_whose_first_piece_holds_the_space(name: str, tmp_path: Path) -> None:
    model, reference = bytewise(name, tmp_path / "m", **NAMES)
    text = "naïve cats 😀 of Paris."
    found = model.tag(text)
    assert [word.text for word in found.words] == ["naïve", "cats", "😀", "of", "Paris", "."]
    check_labels(model, reference, text, found)


def test_a_list_of_words_has_a_label_for_each(pair: tuple[gf.Model, Any]) -> None:
    model, _ = pair
    words = ["the", "cat's", "mat", ".", "U.S.A.", "\u200b", "a b"]
    (found,) = model.tag([words])
    assert [word.text for word in found.words] == words
    assert found.text == " ".join(words)
    assert found.words[5].score == 0 and found.words[5].label == "O"  # it has no token
    assert model.tag([["the", "cat"]]) == [model.tag("the cat")] == model.tag(["the cat"])
    assert model.tag([[]])[0].words == () == model.tag(" ").words and model.tag([]) == []


def test_spans_have_the_places_of_their_words(pair: tuple[gf.Model, Any]) -> None:
    model, _ = pair
    seen = 0
    for text in (TEXT, "the cat sat on a mat", "paris, ohio. who was on the mat?"):
        found = model.tag(text)
        for span in found.spans:
            inside = [w for w in found.words if span.start <= w.start < span.end]
            assert text[span.start : span.end] == span.text
            assert all(word.label[2:] == span.label for word in inside)
            assert span.score == pytest.approx(sum(w.score for w in inside) / len(inside))
            seen += 1
        outside = [
            w for w in found.words if not any(s.start <= w.start < s.end for s in found.spans)
        ]
        assert {word.label for word in outside} <= {"O"}
    assert seen > 3


def test_parts_of_speech_make_no_spans(tmp_path: Path) -> None:
    names = {"id2label": {0: "NOUN", 1: "VERB", 2: "X"}}
    model, _ = bert("BertForTokenClassification", tmp_path / "m", **LONG, **names)
    found = model.tag("the cat sat on")
    assert len(found.words) == 4 and set(found.labels) <= {"NOUN", "VERB", "X"}
    assert found.spans == ()


def test_many_texts_alone_or_together(short: gf.Model) -> None:
    texts = ["the cat", "", ["who", "sat"], "on the mat " * 12, "a"]
    for text, found in zip(texts, tag(*short.able("tag"), texts), strict=True):
        (alone,) = short.tag([text])
        assert found.labels == alone.labels
        scores = [word.score for word in alone.words]
        assert [word.score for word in found.words] == pytest.approx(scores, abs=1e-6)


def test_a_long_text_has_a_label_for_each_word(short: gf.Model) -> None:
    """17 tokens fit. In the middle of a window, the label is the window's."""
    words = ("the cat sat on a mat who was " * 6).split()
    found = short.tag(" ".join(words))
    assert [word.text for word in found.words] == words
    ids = short.tokenizer.encode(" ".join(words)).ids
    with torch.no_grad():
        first, last = short.logits([ids[:16] + ids[-1:], ids[:1] + ids[-16:]])
    for word, row in ((3, first[4]), (0, first[1]), (-1, last[-2]), (-4, last[-5])):
        close(found.words[word].score, row.softmax(-1).max(), 1e-6)


@pytest.mark.parametrize("wrong", [5, None, ["a", 5], ["a", ""], {"a": 1}])
def test_what_is_no_text_gets_one_line(wrong: Any, short: gf.Model) -> None:
    with pytest.raises(InputError) as caught:
        short.tag([wrong])
    one_line(caught.value, "text 0", "words")


DECODED = {
    "B-A I-A O B-B": [("A", 0, 2), ("B", 3, 4)],
    "B-A B-A": [("A", 0, 1), ("A", 1, 2)],
    "I-A I-A": [("A", 0, 2)],
    "B-A I-B": [("A", 0, 1), ("B", 1, 2)],
    "O I-A O I-A": [("A", 1, 2), ("A", 3, 4)],
    "B-A I-A E-A I-A": [("A", 0, 3), ("A", 3, 4)],
    "S-A S-A U-B": [("A", 0, 1), ("A", 1, 2), ("B", 2, 3)],
    "B-A L-A O": [("A", 0, 2)],
    "PER PER LOC": [("PER", 0, 2), ("LOC", 2, 3)],
    "B-a-b I-a-b": [("a-b", 0, 2)],
    "O": [],
    "": [],
}


@pytest.mark.parametrize("labels", DECODED)
def test_labels_become_spans(labels: str) -> None:
    assert chunks(labels.split()) == DECODED[labels]


SPANS = st.lists(st.tuples(st.sampled_from("ABC"), st.integers(1, 4), st.integers(0, 2)))


@given(SPANS, st.booleans())
def test_spans_written_as_labels_come_back(spans: list[tuple[str, int, int]], ends: bool) -> None:
    labels: list[str] = []
    expected = []
    for kind, size, gap in spans:
        expected.append((kind, len(labels), len(labels) + size))
        inside = [f"B-{kind}", *[f"I-{kind}"] * (size - 1)]
        if ends:
            inside[-1] = f"{'E' if size > 1 else 'S'}-{kind}"
        labels += [*inside, *["O"] * gap]
    assert chunks(labels) == expected


@given(st.lists(st.text(max_size=3) | st.sampled_from([*NER, "E-PER", "S-LOC", "B-", "-"])))
def test_any_labels_make_spans_in_order(labels: list[str]) -> None:
    at = 0
    for _, first, last in chunks(labels):
        assert at <= first < last <= len(labels)
        at = last
