"""What each objective asks for: the right answers, in the right places, and nowhere else."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.dataset import NO_LABEL, BatchShape, Ragged, concatenate
from glassformer.data.masking import Masking
from glassformer.data.packing import Samples
from glassformer.data.sentence_pairs import ALONE, FOLLOWS, RANDOM, sentence_pairs, sentence_starts
from glassformer.data.special_tokens import SpecialTokenTemplate, end_of_text
from glassformer.errors import ConfigError
from glassformer.objectives.causal_lm import CausalLMDataset
from glassformer.objectives.masked_lm import MaskedLMDataset
from glassformer.objectives.masked_lm_nsp import MaskedLMNSPDataset
from glassformer.objectives.translation import TranslationDataset
from glassformer.text.training import train_tokenizer
from stores import bpe, chars, counted, store_of, translation, wordpiece

CLS, SEP, MASK, PAD, END = 2, 3, 4, 0, 1
BERT = SpecialTokenTemplate((CLS,), (SEP,), (SEP,), (SEP,), True)
PLAIN = SpecialTokenTemplate((), (), (), (), False)
MARIAN = SpecialTokenTemplate((), (END,), (END,), (END,), False)
SHAPE = BatchShape(tokens=64, texts=7, longest=16, label_positions=40)
SIZES = st.lists(st.integers(0, 30), min_size=1, max_size=8)


def masking(rate=0.15):
    forbidden = np.arange(1000) < 10
    return Masking(rate, "token", MASK, 1000, forbidden, ~forbidden)


def texts(batch, which=None):
    """Token lists of a batch, filler included."""
    values = batch.tokens if which is None else which
    return [values[a:b].tolist() for a, b in pairwise(batch.sequences.offsets.tolist())]


# frames


@pytest.mark.parametrize(
    ("tokenizer", "before", "after", "between", "segments", "end"),
    [
        (wordpiece(), ["[CLS]"], ["[SEP]"], ["[SEP]"], True, ["[SEP]"]),
        (bpe(), [], [], [], True, ["<|endoftext|>"]),
        (translation(), [], ["</s>"], ["</s>"], False, ["</s>"]),
        (chars(), [], [], [], True, []),
    ],
    ids=["wordpiece", "bpe", "translation", "chars"],
)
def test_frame_is_what_the_tokenizer_puts_around_texts(
    tokenizer, before, after, between, segments, end
):
    frame = SpecialTokenTemplate.of(tokenizer)
    name = [[tokenizer.token(i) for i in part] for part in
            (frame.before, frame.after, frame.between, frame.closing)]  # fmt: skip
    assert name == [before, after, between, after]
    assert frame.segments == segments
    assert (frame.width, frame.pair_width) == (
        len(before) + len(after), len(before) + len(between) + len(after),
    )  # fmt: skip
    assert [tokenizer.token(i) for i in end_of_text(tokenizer, frame)] == end
    one, two = tokenizer.encode("the cat"), tokenizer.encode(("the cat", "the dog"))
    (cat, dog) = tokenizer.ids(["the cat", "the dog"])
    assert one.ids == [*frame.before, *cat, *frame.after]
    assert two.ids == [*frame.before, *cat, *frame.between, *dog, *frame.closing]


def test_frame_of_a_tokenizer_without_latin_letters():
    frame = SpecialTokenTemplate.of(train_tokenizer(["Кошка сидит на ковре."], "chars"))
    assert (frame.before, frame.after, frame.between, frame.closing) == ((), (), (), ())


# next word


@settings(max_examples=20)
@given(SIZES, st.integers(1, 12), st.integers(-1, 2), st.integers(0, 2))
def test_next_word_is_the_next_of_the_same_document(tmp_path_factory, sizes, length, seed, epoch):
    lists = counted(sizes)
    store = store_of(tmp_path_factory.mktemp("s"), tokens=lists)
    objective = CausalLMDataset(store, PLAIN, length, PAD, seed)
    samples = objective.samples(epoch)
    if not len(samples):
        assert max(sizes) < 2
        return
    batch = objective.batch(samples, epoch, None)
    follower = {a: b for each in lists for a, b in pairwise(each)}
    told = dict(zip(batch.tokens.tolist(), batch.labels.tolist(), strict=True))
    assert told == follower  # each once: numbers are never repeated
    assert len(batch.tokens) == len(follower)
    assert max(map(len, texts(batch))) <= length
    assert objective.costs(samples).tolist() == [len(each) for each in texts(batch)]


# masked words


def test_masked_words_have_their_answers(tmp_path):
    store = store_of(tmp_path, tokens=counted([25, 9, 1, 0, 40], 100))
    objective = MaskedLMDataset(store, BERT, 12, PAD, 0, masking())
    samples = objective.samples(0)
    batch = objective.batch(samples, 0, None)
    row = np.concatenate([each.tolist() for each in objective.store["tokens"].lists()])
    found = [i for each in texts(batch) for i in each[1:-1]]
    assert all(each[0] == CLS and each[-1] == SEP and len(each) <= 12 for each in texts(batch))
    assert objective.costs(samples).tolist() == [len(each) for each in texts(batch)]
    assert len(found) == len(row) == 75
    restored = batch.tokens.clone()
    restored[batch.label_positions] = batch.labels
    assert [i for each in texts(batch, restored) for i in each[1:-1]] == row.tolist()
    assert (batch.labels != NO_LABEL).all()
    text = (
        np.searchsorted(batch.sequences.offsets.numpy(), batch.label_positions.numpy(), "right") - 1
    )
    assert set(text.tolist()) == set(range(len(samples)))  # each text has something to learn


def test_the_end_of_a_document_is_not_ended_twice(tmp_path):
    store = store_of(tmp_path, end=[SEP], tokens=[[20, 21, 22, SEP], [23, SEP], [SEP]])
    batch = MaskedLMDataset(store, BERT, 12, PAD, -1, masking(1e-9)).batch
    samples = MaskedLMDataset(store, BERT, 12, PAD, -1, masking()).samples(0)
    restored = batch(samples, 0, None)
    restored.tokens[restored.label_positions] = restored.labels
    assert texts(restored) == [[CLS, 20, 21, 22, SEP], [CLS, 23, SEP]]


@settings(max_examples=15)
@given(st.lists(st.integers(1, 30), min_size=2, max_size=8), st.integers(0, 2), st.data())
def test_a_mask_does_not_depend_on_the_row(tmp_path_factory, sizes, epoch, data):
    store = store_of(tmp_path_factory.mktemp("s"), tokens=counted(sizes, 100))
    objective = MaskedLMDataset(store, BERT, 12, PAD, 0, masking())
    samples = objective.samples(epoch)
    alone = [texts(objective.batch(samples.take([i]), epoch, None))[0] for i in range(len(samples))]
    order = data.draw(st.permutations(range(len(samples))))
    together = objective.batch(samples.take(list(order)), epoch, None)
    assert texts(together) == [alone[i] for i in order]


@pytest.mark.parametrize("length", [1, 2])
def test_a_length_without_room_for_words_is_refused(tmp_path, length):
    store = store_of(tmp_path, tokens=counted([5]))
    with pytest.raises(ConfigError, match=r"objective\.length"):
        MaskedLMDataset(store, BERT, length, PAD, 0, masking()).samples(0)


# pairs of texts


def spoken(sizes, seed=0):
    """Documents of so many sentences, each of 1 to 9 tokens; every token is another number."""
    draw = np.random.default_rng(seed)
    lengths = [draw.integers(1, 10, size).tolist() for size in sizes]
    begins = [np.concatenate([[0], np.cumsum(each)[:-1]]).astype(int).tolist() for each in lengths]
    return counted([sum(each) for each in lengths], 100), [
        begin if each else [] for begin, each in zip(begins, lengths, strict=True)
    ]


def starts_of(folder, sizes, seed=0):
    tokens, sentences = spoken(sizes, seed)
    store = store_of(folder, tokens=tokens, sentences=sentences)
    return store, *sentence_starts(store["tokens"], store["sentences"])


def test_sentence_starts(tmp_path):
    store = store_of(
        tmp_path, shards=2, tokens=[[1, 2, 3], [], [4, 5, 6, 7]], sentences=[[0, 2], [], [0, 1]]
    )
    starts, document = sentence_starts(store["tokens"], store["sentences"])
    assert (starts.tolist(), document.tolist()) == ([0, 2, 3, 4, 7], [0, 0, 2, 2])


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=8), st.integers(2, 40), st.booleans(),
    st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 3), st.integers(0, 50),
)  # fmt: skip
def test_pairs_are_what_they_are_labelled(
    tmp_path_factory, sizes, length, order, short, epoch, seed
):
    _, starts, document = starts_of(tmp_path_factory.mktemp("s"), sizes, seed)
    found = sentence_pairs(starts, document, length, order, short, seed=seed, epoch=epoch)
    begins, home = set(starts.tolist()), np.append(document, -1)
    for (a, n), (b, m), label in zip(
        found.first.tolist(), found.second.tolist(), found.follows.tolist(), strict=True
    ):
        if label == ALONE:  # a document of one sentence
            assert m == 0 and a in begins and n <= length
            assert (home == home[np.searchsorted(starts, a)]).sum() == 1
            continue
        assert n > 0 and m > 0 and n + m <= length
        assert {a, b, a + n, b + m} <= begins  # no sentence is cut
        of = home[np.searchsorted(starts, [a, a + n - 1, b, b + m - 1], "right") - 1]
        assert of[0] == of[1] and of[2] == of[3]  # a text is of one document
        continues = b == a + n and of[0] == of[2]
        if label == FOLLOWS:
            assert continues
        else:
            assert label == RANDOM and not continues
            assert (a == b + m) if order else (a + n <= b or b + m <= a)  # they share nothing
            assert (home == of[2]).sum() > 1  # a document of one sentence would be known by it


def test_half_of_the_pairs_follow_and_half_of_the_others_are_near(tmp_path):
    _, starts, document = starts_of(tmp_path, [60] * 60)
    found = sentence_pairs(starts, document, 30, False, 0.1, seed=0, epoch=0)
    count, random = len(found), found.follows == RANDOM
    assert abs(random.sum() - count / 2) < 5 * (count / 4) ** 0.5
    first, second = (document[np.searchsorted(starts, spans[random][:, 0], "right") - 1]
                     for spans in (found.first, found.second))  # fmt: skip
    near = (first == second).sum()
    assert abs(near - random.sum() / 2) < 5 * (random.sum() / 4) ** 0.5
    others = second[first != second]
    assert len(np.unique(others)) > 50  # from everywhere


def test_order_swaps_half_of_the_pairs(tmp_path):
    _, starts, document = starts_of(tmp_path, [60] * 60)
    found = sentence_pairs(starts, document, 30, True, 0.1, seed=0, epoch=0)
    swapped = found.follows == RANDOM
    assert abs(swapped.sum() - len(found) / 2) < 5 * (len(found) / 4) ** 0.5
    assert (found.second[swapped].sum(1) == found.first[swapped][:, 0]).all()


def test_a_share_of_the_pairs_is_short(tmp_path):
    _, starts, document = starts_of(tmp_path, [60] * 60)
    sizes = {}
    for short in (0.0, 0.5):
        found = sentence_pairs(starts, document, 60, False, short, seed=0, epoch=0)
        sizes[short] = found.first[:, 1] + found.second[:, 1]
    assert (sizes[0.0] < 20).mean() < 0.1 < (sizes[0.5] < 20).mean()
    assert (sizes[0.5] > 40).mean() > 0.3


def test_every_epoch_and_seed_pairs_in_another_way(tmp_path):
    _, starts, document = starts_of(tmp_path, [30] * 5)
    ways = {
        str(sentence_pairs(starts, document, 30, False, 0.1, seed=s, epoch=e).second.tolist())
        for s in range(3) for e in range(3)
    }  # fmt: skip
    assert len(ways) == 9


def test_one_short_document_has_no_other_text_to_offer(tmp_path):
    _, starts, document = starts_of(tmp_path, [3])
    for seed in range(20):
        found = sentence_pairs(starts, document, 100, False, 0.1, seed=seed, epoch=0)
        assert found.follows.tolist() == [FOLLOWS]


def test_pairs_in_a_batch(tmp_path):
    store, _, _ = starts_of(tmp_path, [9, 1, 14, 7])
    objective = MaskedLMNSPDataset(store, BERT, 30, PAD, 0, masking())
    samples = objective.samples(0)
    batch = objective.batch(samples, 0, None)
    restored = batch.tokens.clone()
    restored[batch.label_positions] = batch.labels
    row = store["tokens"].row.tolist()
    for i, (text, kinds) in enumerate(zip(texts(batch, restored), texts(batch, batch.segments),
                                          strict=True)):  # fmt: skip
        (a, n), (b, m) = samples.first[i], samples.second[i]
        behind = [*row[b : b + m], SEP] if m else []
        assert text == [CLS, *row[a : a + n], SEP, *behind]
        assert kinds == [0] * (n + 2) + [1] * len(behind)
    assert (samples.follows == ALONE).sum() == 1
    assert batch.next_sentence_labels.tolist() == samples.follows.tolist()
    assert objective.costs(samples).tolist() == [len(text) for text in texts(batch)]
    alone = [texts(objective.batch(samples.take([i]), 0, None))[0] for i in range(len(samples))]
    assert texts(batch) == alone


def test_a_tokenizer_that_knows_no_second_kind_of_text_gives_none(tmp_path):
    store, _, _ = starts_of(tmp_path, [9])
    roberta = SpecialTokenTemplate((CLS,), (SEP,), (SEP, SEP), (SEP,), False)
    objective = MaskedLMNSPDataset(store, roberta, 30, PAD, 0, masking())
    assert objective.batch(objective.samples(0), 0, SHAPE).segments is None


def test_pairs_without_room_are_refused(tmp_path):
    store, _, _ = starts_of(tmp_path, [9])
    with pytest.raises(ConfigError, match=r"objective\.length"):
        MaskedLMNSPDataset(store, BERT, 4, PAD, 0, masking()).samples(0)


# translation


def test_translation_is_shifted_by_one(tmp_path):
    store = store_of(
        tmp_path, source=[[10, 11], [12], [13, 14, 15]], target=[[20], [21, 22, 23], [24, 25]]
    )
    objective = TranslationDataset(store, MARIAN, 9, PAD, 0, 7, (END,), 0.1)
    samples = objective.samples(0)
    batch = objective.batch(samples, 0, None)
    assert texts(batch.source) == [[10, 11, END], [12, END], [13, 14, 15, END]]
    assert texts(batch) == [[7, 20], [7, 21, 22, 23], [7, 24, 25]]
    assert texts(batch, batch.labels) == [[20, END], [21, 22, 23, END], [24, 25, END]]
    assert batch.smoothing == 0.1
    assert objective.costs(samples).tolist() == [[3, 2], [2, 4], [4, 3]]


def test_pairs_too_long_or_empty_are_left_out(tmp_path):
    store = store_of(tmp_path, source=[[1] * 5, [2], [], [3], [4] * 6, [5]],
                     target=[[1], [2] * 5, [3], [], [4], [5] * 6])  # fmt: skip
    samples = TranslationDataset(store, MARIAN, 6, PAD, 0, 7, (END,)).samples(0)
    assert samples.first.tolist() == [[0, 5], [5, 1]]
    assert samples.second.tolist() == [[0, 1], [1, 5]]


# fixed shapes


def objectives(folder):
    tokens, sentences = spoken([9, 4, 14, 7])
    store = store_of(folder / "t", tokens=tokens, sentences=sentences)
    pairs = store_of(folder / "p", source=counted([5, 9, 2]), target=counted([3, 12, 8]))
    return [
        CausalLMDataset(store, PLAIN, 13, PAD, 0),
        MaskedLMDataset(store, BERT, 13, PAD, 0, masking()),
        MaskedLMNSPDataset(store, BERT, 13, PAD, 0, masking()),
        TranslationDataset(pairs, MARIAN, 13, PAD, 0, 7, (END,)),
    ]


@pytest.mark.parametrize("which", range(4), ids=["next", "masked", "pairs", "translate"])
def test_a_fixed_shape_adds_filler_that_nobody_learns_from(tmp_path, which):
    objective = objectives(tmp_path)[which]
    samples = objective.samples(0).take(slice(0, 3))
    bare, fixed = (objective.batch(samples, 0, shape) for shape in (None, SHAPE))
    for ours, theirs in ((bare, fixed), (bare.source, fixed.source)):
        if ours is None:
            continue
        real = len(ours.tokens)
        assert len(theirs.tokens) == SHAPE.tokens and theirs.sequences.count == SHAPE.slots
        assert theirs.sequences.longest == SHAPE.longest
        assert theirs.tokens[:real].tolist() == ours.tokens.tolist()
        assert set(theirs.tokens[real:].tolist()) == {PAD}
        offsets = theirs.sequences.offsets
        assert offsets[: len(samples) + 1].tolist() == ours.sequences.offsets.tolist()
        assert offsets[-1] == SHAPE.tokens and (offsets.diff() >= 0).all()
        assert offsets.diff().max() <= SHAPE.longest
        assert list(theirs.sequences.lengths) == offsets.diff().tolist()
    answers = fixed.labels != NO_LABEL
    assert answers.sum() == len(bare.labels)
    if fixed.label_positions is not None:
        assert len(fixed.labels) == len(fixed.label_positions) == SHAPE.label_positions
        assert fixed.label_positions[answers].tolist() == bare.label_positions.tolist()
    else:
        assert not answers[len(bare.tokens) :].any()
    if fixed.next_sentence_labels is not None:
        assert fixed.next_sentence_labels.tolist() == bare.next_sentence_labels.tolist() + [
            NO_LABEL
        ] * (SHAPE.slots - 3)
        assert not fixed.segments[len(bare.tokens) :].any()


def test_a_full_row_needs_no_filler(tmp_path):
    store = store_of(tmp_path, tokens=counted([16] * 4))
    objective = CausalLMDataset(store, PLAIN, 15, PAD, 0)
    batch = objective.batch(objective.samples(0), 0, BatchShape(60, 4, 15, 0))
    assert (batch.labels != NO_LABEL).all() and batch.sequences.count == 4


# laying out


@given(st.lists(st.lists(st.integers(0, 99), max_size=4), min_size=1, max_size=5), st.data())
def test_parts_are_laid_text_by_text(lists, data):
    others = data.draw(st.lists(st.lists(st.integers(0, 99), max_size=4), min_size=len(lists),
                                max_size=len(lists)))  # fmt: skip

    def ragged(each):
        values = np.array([i for one in each for i in one], dtype=np.int64)
        return Ragged(values, np.array([len(one) for one in each]))

    found = concatenate((1, 2), ragged(lists), (), ragged(others), (3,))
    wanted = [[1, 2, *a, *b, 3] for a, b in zip(lists, others, strict=True)]
    assert found.values.tolist() == [i for each in wanted for i in each]
    assert found.sizes.tolist() == [len(each) for each in wanted]


def test_samples_take_all_they_have():
    spans = np.arange(8).reshape(4, 2)
    found = Samples(spans, spans + 1, np.array([0, 1, 0, 1])).take([3, 0])
    assert found.first.tolist() == [[6, 7], [0, 1]]
    assert found.second.tolist() == [[7, 8], [1, 2]]
    assert found.follows.tolist() == [1, 0]
