"""Speculative decoding: the same tokens in fewer passes of the model."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
from generate.storytellers import speaker
from generate.test_engine import MODELS
from glassformer.errors import InputError
from glassformer.generate.job import prepare
from glassformer.generate.sampling import generate_tokens
from glassformer.generate.speculative import (
    ALLOWED,
    GUESS,
    MOST,
    PromptLookup,
    SpeculativeEngine,
    speculative_engine,
)
from glassformer.loaded import Model
from sampling import mostly_slow

MODEL = speaker("bpe")
OTHER = Model(copy.deepcopy(MODEL.task), MODEL.tokenizer)
with torch.no_grad():
    for parameter in OTHER.parameters():  # it guesses much, not all, of what the model says
        parameter += 0.02 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
DRAFTS = {"prompt": "prompt", "other": OTHER, "itself": MODEL}


@pytest.mark.parametrize("draft", mostly_slow(DRAFTS, keep=2))
@settings(max_examples=8)
@given(
    prompt=st.lists(st.integers(3, 20), min_size=1, max_size=30),
    new=st.integers(1, 30),
    temperature=st.sampled_from([0.0, 0.7, 1.5]),
    seed=st.integers(0, 100),
)
def test_a_draft_never_changes_the_text(
    draft: str, prompt: list[int], new: int, temperature: float, seed: int
) -> None:
    options = {"max_new_tokens": new, "repetition_penalty": 1.1, "logprobs": True}
    options |= {"temperature": temperature, "do_sample": True, "seed": seed} if temperature else {}
    (usual,) = MODEL.generate([prompt], **options)
    (ours,) = MODEL.generate([prompt], draft=DRAFTS[draft], **options)
    assert (ours.ids, ours.stopped) == (usual.ids, usual.stopped)
    torch.testing.assert_close(ours.logprobs, usual.logprobs, rtol=1e-3, atol=1e-4)


def test_sampled_tokens_have_the_distribution_of_the_model() -> None:
    """The second token, whose logits come from a pass that also read the guess."""
    prompt, count = [5, 6, 7, 8, 5, 6, 7], 400
    options = {"max_new_tokens": 2, "do_sample": True, "top_k": 4, "seed": 3}
    texts = MODEL.generate([prompt], num_return_sequences=count, draft="prompt", **options)
    first = max({text.ids[0] for text in texts}, key=[t.ids[0] for t in texts].count)
    drawn = torch.tensor([t.ids[1] for t in texts if t.ids[0] == first and len(t.ids) > 1])
    logits = MODEL.logits([[*prompt, first]])[0][-1]
    best, tokens = logits.topk(4)
    expected = best.softmax(0) * len(drawn)
    observed = torch.stack([(drawn == token).sum() for token in tokens])
    assert observed.sum() == len(drawn)
    chi_squared = ((observed - expected).square() / expected).sum()
    assert chi_squared < 16.3  # three degrees of freedom: p = 0.001


def test_good_guesses_save_passes() -> None:
    job = prepare(MODEL.task, None, None, [[5, 6, 7]], {"max_new_tokens": 40, "eos_token_id": ()})
    engine = speculative_engine(MODEL.task, MODEL.task, 50)
    tokens = [choice.token for choice in generate_tokens(engine, job.requests(), job.settings)]
    assert len(tokens) == 40
    assert engine.passes == pytest.approx(40 / (MOST + 1), abs=1)


def test_prompt_lookup_continues_the_latest_repetition() -> None:
    lookup = PromptLookup()
    assert lookup.guess([1, 2, 3, 4, 9, 1, 2, 3, 5, 6, 1, 2, 3], 2) == [5, 6]
    assert lookup.guess([1, 2, 3, 4], 2) == [] == lookup.guess([7], 2)
    assert lookup.guess([4, 4, 4, 4], 9) == [4]


class Wrong(PromptLookup):
    def __init__(self) -> None:
        self.counts: list[int] = []

    def guess(self, text: object, count: int) -> list[int]:
        self.counts.append(count)
        return [1] * count  # a token that never comes


def test_wrong_guesses_become_shorter_and_rare() -> None:
    engine = SpeculativeEngine(MODELS["decoder"], draft := Wrong(), capacity=9)
    engine.read([[5, 6]], [0])
    for token in (7, 8, 9, 10):
        engine.step(torch.tensor([token]))
    assert draft.counts == [6, 2]


def test_wrong_guesses_cost_at_most_what_is_allowed() -> None:
    engine = SpeculativeEngine(MODELS["decoder"], draft := Wrong(), capacity=41)
    engine.read([[5, 6]], [0])
    tokens = 38
    for _ in range(tokens):
        engine.step(torch.tensor([7]))
    assert sum(draft.counts) * GUESS <= MOST * GUESS + tokens * ALLOWED
    assert draft.counts[-1] == 1  # it still tries


def test_a_text_without_guesses_does_not_make_them_longer() -> None:
    engine = SpeculativeEngine(MODELS["decoder"], PromptLookup(), capacity=12)
    engine.read([[5, 6]], [0])
    engine.length = 1
    for token in (7, 8, 9, 10):
        engine.step(torch.tensor([token]))
    assert engine.length == 1


def test_what_cannot_be_a_draft_is_refused() -> None:
    small = {"max_new_tokens": 2}
    for draft, words in (
        ("lookup", "write 'prompt'"), (3, "give a model"), (speaker("bytes"), "tokenizer"),
        (Model(MODELS["encoder"] if "encoder" in MODELS else MODELS["seq2seq"]), "decoder with"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            MODEL.generate([[5, 6]], draft=draft, **small)
    with pytest.raises(InputError, match="num_beams = 1"):
        MODEL.generate([[5, 6]], draft="prompt", num_beams=2, **small)
    with pytest.raises(InputError, match="only a decoder"):
        gf.load("gf-en-ru").generate("It is cold.", draft="prompt", **small)
