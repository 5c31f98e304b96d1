"""Each function over scores: the numbers of transformers', and its own law."""

import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.generate import processors as ours
from glassformer.generate.processors import LogitRows, process, processors
from glassformer.generate.sampling import draw
from glassformer.generate.settings import Settings

VOCAB = 13
FEW = settings(max_examples=60, deadline=None)
TOKENS = st.integers(0, VOCAB - 1)
TEXTS = st.lists(st.lists(TOKENS, min_size=1, max_size=9), min_size=1, max_size=5)
SEEDS = st.integers(0, 10_000)


def scores_for(texts, seed, scale=3.0):
    maker = torch.Generator().manual_seed(seed)
    return scale * torch.randn(len(texts), VOCAB, generator=maker)


def rows_of(texts, left=9):
    return LogitRows.of(texts, [0] * len(texts), [left] * len(texts), "cpu")


def check(mine, reference, texts, seed):
    """All rows at once, ragged, against theirs one by one."""
    scores = scores_for(texts, seed)
    kept = scores.clone()
    found = mine(scores, rows_of(texts))
    assert torch.equal(scores, kept), "the scores were changed in place"
    for row, text, own in zip(found, texts, scores, strict=True):
        expected = reference(torch.tensor([text]), own[None].clone())[0]
        torch.testing.assert_close(row, expected, rtol=0, atol=0)


@FEW
@given(TEXTS, SEEDS, st.sampled_from([0.5, 1.2, 3.0]))
def test_repetition_penalty(texts, seed, penalty):
    reference = transformers.RepetitionPenaltyLogitsProcessor(penalty)
    check(lambda s, r: ours.penalise_repetition(s, r, penalty=penalty), reference, texts, seed)


@FEW
@given(TEXTS, SEEDS, st.integers(1, 4))
def test_no_repeat_ngrams(texts, seed, size):
    texts = [[token % 3 for token in text] for text in texts]  # so that runs come again
    reference = transformers.NoRepeatNGramLogitsProcessor(size)
    check(lambda s, r: ours.forbid_repeated_ngrams(s, r, size=size), reference, texts, seed)


@FEW
@given(TEXTS, SEEDS, st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1))
def test_bad_words(texts, seed, words):
    texts = [[token % 4 for token in text] for text in texts]
    eos = [12]
    chosen = Settings(bad_words_ids=[*words, [12]], eos_token_id=eos)
    reference = transformers.NoBadWordsLogitsProcessor([*words, [12]], eos_token_id=eos)
    steps = processors(chosen, VOCAB, "cpu")
    check(lambda s, r: process(s, r, steps), reference, texts, seed)


@FEW
@given(TEXTS, SEEDS, st.floats(0.05, 5), st.integers(1, 20), st.floats(0.01, 1), st.floats(0, 1))
def test_narrowing(texts, seed, temperature, count, mass, share):
    """Alone, and all of them in their order."""
    pairs = (
        (ours.apply_temperature, "temperature", temperature, transformers.TemperatureLogitsWarper),
        (ours.keep_top_k, "count", count, transformers.TopKLogitsWarper),
        (ours.keep_top_p, "top_p", mass, transformers.TopPLogitsWarper),
        (ours.keep_min_p, "min_p", share, transformers.MinPLogitsWarper),
    )
    for function, name, value, reference in pairs:
        step = {name: value}
        check(lambda s, r, f=function, k=step: f(s, r, **k), reference(value), texts, seed)
    chosen = Settings(temperature=temperature, top_k=count, top_p=mass, min_p=share)
    whole = transformers.LogitsProcessorList(make(value) for _, _, value, make in pairs)
    steps = processors(chosen, VOCAB, "cpu")
    check(lambda s, r: process(s, r, steps), whole, texts, seed)


@FEW
@given(TEXTS, SEEDS, st.integers(0, 3), st.integers(0, 8))
def test_forced_and_forbidden(texts, seed, made, token):
    """Of rows that stand at different places, each gets what its place asks for."""
    chosen = Settings(
        min_new_tokens=2, eos_token_id=[3, 4], forced_bos_token_id=token, forced_eos_token_id=[4],
        suppress_tokens=[9],
    )  # fmt: skip
    rows = LogitRows.of(texts, [made] * len(texts), [i + 1 for i in range(len(texts))], "cpu")
    found = process(scores_for(texts, seed), rows, processors(chosen, VOCAB, "cpu"))
    for i, (row, text) in enumerate(zip(found, texts, strict=True)):
        allowed = set(range(VOCAB)) - ({3, 4} if made < 2 else set())
        if len(text) == 1:
            allowed = {token}
        if i == 0:  # one token left
            allowed = {4}
        allowed -= {9}
        assert {i for i, score in enumerate(row.tolist()) if score > -torch.inf} == allowed


def test_largest_is_topk():
    """Also where the vocabulary is no whole number of pieces, and its best are neighbours."""
    for size in (1_000, 1_024, 4_999):
        for count in (1, 2, 3):
            scores = torch.randn(5, size)
            scores[1, -3:] += 9
            scores[2, 64:70] += 9
            scores[3, 5] = -torch.inf
            for mine, theirs in zip(ours.largest(scores, count), scores.topk(count), strict=True):
                assert torch.equal(mine, theirs)
    even = torch.zeros(2, 1_000)
    assert ours.largest(even, 1)[1].tolist() == [[0], [0]]  # the first of equals, as argmax


def test_nothing_asked_is_nothing_done():
    assert processors(Settings(), VOCAB, "cpu") == ()
    assert processors(Settings(do_sample=True, top_k=0, top_p=1.0), VOCAB, "cpu") == ()


@FEW
@given(SEEDS, st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=6))
def test_draw_never_takes_what_is_forbidden(seed, chances):
    scores = scores_for(chances, seed)
    scores[:, ::2] = -torch.inf
    found = draw(scores, torch.tensor(chances, dtype=torch.float64))
    assert (found % 2 == 1).all()


def test_draw_at_the_borders():
    """Chances ¼, 0, ¾: a number falls on the piece that it lies in, its left end included."""
    scores = torch.tensor([[0.25, 0.0, 0.75]]).log()
    for number, token in ((0.0, 0), (0.2499, 0), (0.25, 2), (0.9999999999999999, 2)):
        assert draw(scores, torch.tensor([number], dtype=torch.float64)).tolist() == [token]
