"""Batches of labelled data, each against a plain loop over its documents."""

from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.dataset import NO_LABEL, BatchShape
from glassformer.data.label_alignment import (
    LabelledText,
    LabelledWords,
    first_pieces,
    mark_answers,
    mark_texts,
    mark_words,
)
from glassformer.data.readers.squad import Question
from glassformer.data.special_tokens import SpecialTokenTemplate
from glassformer.objectives.classification import ClassificationDataset, DocumentDataset
from glassformer.objectives.question_answering import QuestionAnsweringDataset
from glassformer.objectives.sentence_embedding import SentenceEmbeddingDataset
from glassformer.objectives.token_classification import TokenClassificationDataset
from stores import bpe, counted, store_of, wordpiece

CLS, SEP, PAD = 2, 3, 0
BERT = SpecialTokenTemplate((CLS,), (SEP,), (SEP,), (SEP,), True)
SIZES = st.lists(st.integers(0, 20), min_size=1, max_size=8)


def texts(batch, which=None):
    values = batch.tokens if which is None else which
    return [values[a:b].tolist() for a, b in pairwise(batch.sequences.offsets.tolist())]


def store(folder, **columns):
    return store_of(folder, **columns)


# a class or a value


@settings(max_examples=25, deadline=None)
@given(SIZES, st.integers(3, 12), st.integers(-1, 2))
def test_each_part_of_a_text_has_its_label(tmp_path_factory, sizes, length, epoch):
    lists = counted(sizes)
    held = store(
        tmp_path_factory.mktemp("s"), tokens=lists, labels=[[i] for i in range(len(sizes))]
    )
    objective = ClassificationDataset(held, BERT, length, PAD, 0)
    samples = objective.samples(max(0, epoch))
    if not len(samples):
        return
    batch = objective.batch(samples, 0, None)
    home = {token: i for i, each in enumerate(lists) for token in each}
    found = texts(batch)
    assert sorted(t for each in found for t in each[1:-1]) == sorted(home)
    for text, label in zip(found, batch.labels.tolist(), strict=True):
        assert text[0] == CLS and text[-1] == SEP and len(text) <= length
        assert {home[token] for token in text[1:-1]} == {label}
    assert objective.costs(samples).tolist() == [len(each) for each in found]
    long, empty = objective.skipped()
    assert long.count == sum(size > length - 2 for size in sizes)
    assert empty.count == sizes.count(0)


def test_what_fits_exactly_is_not_read_in_parts(tmp_path):
    """Documents of 5, 0, 10 and 6 tokens; with sentences, of 5, then 4 and 6, then 2 and 4."""
    tokens, labels = counted([5, 0, 10, 6]), [[0], [1], [0], [1]]
    plain = store(tmp_path / "a", tokens=tokens, labels=labels)
    told = store(tmp_path / "b", tokens=tokens, labels=labels, sentences=[[0], [], [0, 4], [0, 2]])
    for held, length, long in ((plain, 8, 1), (plain, 7, 2), (told, 8, 0), (told, 7, 1)):
        objective = DocumentDataset(held, BERT, length, PAD, 0, 0.0)
        parts, empty = objective.skipped()
        assert (parts.count, empty.count) == (long, 1)
        found = texts(objective.batch(objective.samples(0), 0, None))
        whole = 3 if held is plain else 5
        assert len(found) == whole + long  # each of them in two


def test_pairs_and_values(tmp_path):
    held = store(
        tmp_path, tokens=[[10, 11], [12], [13] * 9, [14]], second=[[20], [21, 22], [23], []],
        values=[[0.5], [-2.25], [1.0], [3.0]],
    )  # fmt: skip
    objective = ClassificationDataset(held, BERT, 8, PAD, 0)
    samples = objective.samples(0)
    batch = objective.batch(samples, 0, None)
    assert texts(batch) == [[CLS, 10, 11, SEP, 20, SEP], [CLS, 12, SEP, 21, 22, SEP]]
    assert texts(batch, batch.segments) == [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1]]
    assert batch.labels.tolist() == [0.5, -2.25] and batch.labels.is_floating_point()
    assert [each.count for each in objective.skipped()] == [2]


# tags


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(1, 4), max_size=9), min_size=1), st.integers(6, 11))
def test_sentences_are_cut_between_words(tmp_path_factory, sentences, length):
    lists = counted([sum(each) for each in sentences])
    number, labels = 0, []
    for each in sentences:
        row = []
        for pieces in each:
            row += [number] + [NO_LABEL] * (pieces - 1)
            number += 1
        labels.append(row)
    held = store(tmp_path_factory.mktemp("s"), tokens=lists, labels=labels)
    objective = TokenClassificationDataset(held, BERT, length, PAD, 0)
    samples = objective.samples(0)
    if not number:
        return
    batch = objective.batch(samples, 0, None)
    wanted = dict(zip(chain(*lists), chain(*labels), strict=True))
    for text, told in zip(texts(batch), texts(batch, batch.labels), strict=True):
        assert len(text) <= length and (told[0], told[-1]) == (NO_LABEL, NO_LABEL)
        assert told[1:-1] == [wanted[token] for token in text[1:-1]]
        assert told[1] != NO_LABEL  # it begins with a word: none here is longer than a text
    assert sorted(t for each in texts(batch) for t in each[1:-1]) == sorted(wanted)
    assert objective.skipped()[0].count == sum(len(each) > length - 2 for each in lists)


def test_a_word_longer_than_a_text_is_cut(tmp_path):
    held = store(tmp_path, tokens=[list(range(10, 20))], labels=[[1] + [NO_LABEL] * 9])
    batch = (o := TokenClassificationDataset(held, BERT, 6, PAD, 0)).batch(o.samples(0), 0, None)
    assert [len(text) for text in texts(batch)] == [6, 6, 4]


@pytest.mark.parametrize("tokenizer", [wordpiece(), bpe()], ids=["wordpiece", "bpe"])
def test_the_first_piece_has_the_tag(tokenizer):
    words = ("unbelievably", "good", "olives", ",", "Nobody", "knew")
    (found,) = mark_words([LabelledWords(words, (0, 1, 2, 3, 4, 5))], tokenizer)
    encoding = tokenizer.encode(" ".join(words))
    inside = [i for i, special in enumerate(encoding.special) if not special]
    assert found["tokens"] == [encoding.ids[i] for i in inside]
    at = 0
    for number, word in enumerate(words):  # the slow way: the first token with one of its letters
        letters = set(range(at, at + len(word)))
        first = next(i for i, (a, b) in enumerate(encoding.spans) if letters & set(range(a, b)))
        assert found["labels"][inside.index(first)] == number
        at += len(word) + 1
    assert sum(label != NO_LABEL for label in found["labels"]) == len(words)


def test_a_word_without_a_piece_has_none():
    assert first_pieces(["a", "b", "c"], [(0, 1), (4, 5)]) == [0, None, 1]
    assert first_pieces(["a", "b"], [(0, 3)]) == [0, None]
    assert first_pieces(["a"], []) == [None]


# answers


@settings(max_examples=25, deadline=None)
@given(st.data(), st.integers(8, 16), st.integers(0, 6))
def test_windows_of_a_context_tell_where_the_answer_is(tmp_path_factory, data, length, overlap):
    asked = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    sizes = [data.draw(st.integers(1, 30)) for _ in asked]
    spans = []
    for size in sizes:
        first = data.draw(st.integers(-1, size - 1))
        spans.append([first, -1 if first < 0 else data.draw(st.integers(first, size - 1))])
    questions, contexts = counted(asked, 500), counted(sizes, 1000)
    held = store(tmp_path_factory.mktemp("s"), question=questions, tokens=contexts, labels=spans)
    objective = QuestionAnsweringDataset(held, BERT, length, PAD, 0, overlap)
    samples = objective.samples(0)
    batch = objective.batch(samples, 0, None)
    seen = set()
    for text, kinds, (first, last) in zip(
        texts(batch), texts(batch, batch.segments), batch.labels.tolist(), strict=True
    ):
        split = text.index(SEP)
        number = questions.index(text[1:split])
        context, part = contexts[number], text[split + 1 : -1]
        seen |= set(part)
        assert len(text) <= length and kinds == [0] * (split + 1) + [1] * (len(part) + 1)
        begin, end = spans[number]
        whole = begin >= 0 and {context[begin], context[end]} <= set(part)
        if whole:
            assert text[first : last + 1] == context[begin : end + 1]
        else:
            assert (first, last) == (0, 0)
    assert seen == {token for context in contexts for token in context}


def test_an_answer_is_found_by_its_letters():
    question = Question("1", "Who sat?", "The cat sat on the mat.", [("on the", 12)], False)
    nothing = Question("2", "Who sat?", "The cat sat on the mat.", [], True)
    tokenizer = wordpiece()
    found, none = mark_answers([question, nothing], tokenizer)
    first, last = found["labels"]
    assert tokenizer.decode(found["tokens"][first : last + 1]) == "on the"
    assert none["labels"] == [-1, -1] and none["tokens"] == found["tokens"]


# likeness


def test_pairs_stand_beside_each_other(tmp_path):
    held = store(tmp_path, tokens=[[10, 11], [12], [13] * 9], second=[[20], [21, 22], [23]])
    objective = SentenceEmbeddingDataset(held, BERT, 6, PAD, 0)
    batch = objective.batch(objective.samples(0), 0, None)
    assert texts(batch) == [[CLS, 10, 11, SEP], [CLS, 20, SEP], [CLS, 12, SEP], [CLS, 21, 22, SEP]]
    assert batch.labels.tolist() == [0, 1] and batch.segments is None
    assert [each.count for each in objective.skipped()] == [1]


def test_texts_are_marked():
    tokenizer = wordpiece()
    one = list(mark_texts([LabelledText(("the cat",), 3)], tokenizer, ["tokens", "labels"]))
    assert one == [{"tokens": tokenizer.ids(["the cat"])[0], "labels": [3]}]
    two = list(
        mark_texts([LabelledText(("a", "b"), 0.5)], tokenizer, ["tokens", "second", "values"])
    )
    assert two[0]["values"] == [0.5] and two[0]["second"] == tokenizer.ids(["b"])[0]


# fixed shapes


def objectives(folder):
    tokens = counted([5, 9, 2])
    labels = [[i] + [NO_LABEL] * (len(each) - 1) for i, each in enumerate(tokens)]
    one = store(folder / "a", tokens=tokens, labels=[[0], [1], [2]])
    tags = store(folder / "b", tokens=tokens, labels=labels)
    asked = store(folder / "c", question=[[9], [8], [7]], tokens=tokens, labels=[[0, 1]] * 3)
    alike = store(folder / "d", tokens=tokens, second=tokens, values=[[0.1], [0.2], [0.3]])
    return [
        ClassificationDataset(one, BERT, 13, PAD, 0),
        TokenClassificationDataset(tags, BERT, 13, PAD, 0),
        QuestionAnsweringDataset(asked, BERT, 13, PAD, 0, 3),
        SentenceEmbeddingDataset(alike, BERT, 13, PAD, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("which", range(4), ids=["classify", "tag", "answer", "embed"])
def test_filler_has_no_answers(tmp_path, which):
    objective = objectives(tmp_path)[which]
    samples = objective.samples(0)
    shape = BatchShape(tokens=64, texts=8, longest=16, label_positions=0)
    bare, fixed = (objective.batch(samples, 0, each) for each in (None, shape))
    real = len(bare.tokens)
    assert len(fixed.tokens) == 64 and fixed.sequences.count == shape.slots
    assert fixed.tokens[:real].tolist() == bare.tokens.tolist()
    assert fixed.labels[: len(bare.labels)].tolist() == bare.labels.tolist()
    assert (fixed.labels[len(bare.labels) :] == NO_LABEL).all()
    other = objective.batch(samples, 0, shape)
    assert np.array_equal(other.tokens, fixed.tokens)
