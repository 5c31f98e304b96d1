"""The same writing by transformers: small hot models, random settings, one text at a time."""

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import (
    BartConfig,
    GPT2Config,
    LlamaConfig,
    M2M100Config,
    MarianConfig,
    MBartConfig,
    T5Config,
    T5GemmaConfig,
    UMT5Config,
)

import glassformer as gf
from glassformer.data.hashing import uniform
from kit import Case

VOCAB, LONGEST = 41, 48
TRANSLATOR = {
    "vocab_size": VOCAB, "d_model": 24, "encoder_layers": 1, "decoder_layers": 2,
    "encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 37,
    "decoder_ffn_dim": 37, "max_position_embeddings": LONGEST, "pad_token_id": 0,
}  # fmt: skip
T5_SIZES = {
    "vocab_size": VOCAB, "d_model": 24, "d_kv": 7, "d_ff": 37, "num_layers": 2, "num_heads": 3,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 11,
    "decoder_start_token_id": 0,
}  # fmt: skip
GEMMA = {
    "vocab_size": VOCAB, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 10, "intermediate_size": 37, "sliding_window": 5,
    "max_position_embeddings": LONGEST, "attn_logit_softcapping": 3.0,
}  # fmt: skip
MODELS = {
    "gpt2": Case(
        "GPT2LMHeadModel",
        GPT2Config,
        {
            "vocab_size": VOCAB, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": LONGEST,
            "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
        },
    ),
    "llama": Case(
        "LlamaForCausalLM",
        LlamaConfig,
        {
            "vocab_size": VOCAB, "hidden_size": 24, "num_hidden_layers": 2,
            "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 37,
            "max_position_embeddings": LONGEST, "pad_token_id": 0,
        },
    ),
    "marian": Case(
        "MarianMTModel",
        MarianConfig,
        TRANSLATOR
        | {
            "scale_embedding": True, "activation_function": "silu", "eos_token_id": 1,
            "forced_eos_token_id": 1, "decoder_start_token_id": 0,
        },
    ),
    "t5": Case(
        "T5ForConditionalGeneration",
        T5Config,
        T5_SIZES,
    ),
    "bart": Case("BartForConditionalGeneration", BartConfig, TRANSLATOR),
    "bart with other heads": Case(
        "BartForConditionalGeneration",
        BartConfig,
        TRANSLATOR | {"decoder_attention_heads": 4, "decoder_ffn_dim": 41},
    ),
    "mbart": Case("MBartForConditionalGeneration", MBartConfig, TRANSLATOR),
    "m2m_100": Case(
        "M2M100ForConditionalGeneration", M2M100Config, TRANSLATOR | {"decoder_ffn_dim": 41}
    ),
    "t5gemma": Case(
        "T5GemmaForConditionalGeneration",
        T5GemmaConfig,
        {
            "vocab_size": VOCAB, "encoder": GEMMA,
            "decoder": GEMMA | {"hidden_size": 20, "num_attention_heads": 4},
        },
        attention="eager",
    ),
    "umt5": Case("UMT5ForConditionalGeneration", UMT5Config, T5_SIZES),
}  # fmt: skip
# A decoder and a translator; all of them in `make test-all`.
SOME = [
    pytest.param(name, marks=() if name in ("gpt2", "marian") else pytest.mark.slow)
    for name in MODELS
]
OF_THE_FOLDER = {  # what such models have in their generation_config.json
    "marian": {"bad_words_ids": [[0]], "forced_eos_token_id": 1},
    "bart": {"forced_bos_token_id": 3, "forced_eos_token_id": 2, "decoder_start_token_id": 2},
    "t5gemma": {"decoder_start_token_id": 2},
    # For transformers a padding token within a text has no position: test_same_texts.py shows it.
    "m2m_100": {"bad_words_ids": [[0]], "decoder_start_token_id": 2},
    "mbart": {"forced_bos_token_id": 3, "forced_eos_token_id": 2, "decoder_start_token_id": 2},
}


@dataclass
class Pair:
    """One model, theirs and ours; `common` are tokens it likes to write."""

    theirs: Any
    ours: gf.Model
    common: list[int]


def pair(name: str, folder: Any) -> Pair:
    case = MODELS[name]
    reference = case.reference(case.attention)
    for key, value in OF_THE_FOLDER.get(name, {}).items():
        setattr(reference.generation_config, key, value)
    reference.save_pretrained(folder)
    model = gf.load(folder)
    reference = type(reference).from_pretrained(folder)
    written = model.generate(prompts(12, seed=9), max_new_tokens=9, eos_token_id=())
    counts = torch.tensor([token for each in written for token in each.ids]).bincount()
    common = [int(i) for i in counts.argsort(descending=True)[:12] if i > 4]
    return Pair(reference.eval(), model, common)


def prompts(count: int, seed: int) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(3, VOCAB) for _ in range(draw.randint(1, 13))] for _ in range(count)]


def processors(draw: random.Random, common: list[int], ending: dict[str, Any]) -> dict[str, Any]:
    """A random mixture of all that forbids, forces or weighs tokens."""
    others = [token for token in common if token not in ending["eos_token_id"]]

    def some(count: int) -> list[int]:
        return draw.sample(common, draw.randint(1, count))

    known = {
        "repetition_penalty": lambda: draw.choice([0.6, 1.3, 2.5]),
        "no_repeat_ngram_size": lambda: draw.choice([1, 2, 3]),
        "bad_words_ids": lambda: [some(3) for _ in range(6)],
        "min_new_tokens": lambda: draw.randint(1, ending["max_new_tokens"]),
        "forced_bos_token_id": lambda: draw.choice(others),
        "forced_eos_token_id": lambda: draw.choice(common),
        "suppress_tokens": lambda: some(4),
    }
    found = {name: known[name]() for name in draw.sample(list(known), draw.randint(0, 4))}
    forced = [found.get("forced_bos_token_id"), found.get("forced_eos_token_id")]
    if "suppress_tokens" in found:  # what is forced cannot be forbidden
        found["suppress_tokens"] = [i for i in found["suppress_tokens"] if i not in forced] or [4]
    return found


def ending(draw: random.Random, common: list[int]) -> dict[str, Any]:
    """Texts that end by themselves, often early."""
    ends = draw.sample(common, draw.choice([1, 1, 2, 3]))
    return {"max_new_tokens": draw.randint(1, 11), "eos_token_id": ends}


def greedy_case(draw: random.Random, common: list[int]) -> dict[str, Any]:
    found = ending(draw, common)
    return found | processors(draw, common, found)


def beam_case(draw: random.Random, common: list[int]) -> dict[str, Any]:
    beams = draw.randint(2, 5)
    found = ending(draw, common) | {
        "num_beams": beams,
        "num_return_sequences": draw.randint(1, beams),
        "length_penalty": draw.choice([1.0, 1.0, 0.0, 0.6, 2.0, -1.5]),
        "early_stopping": draw.choice([False, True, "never"]),
    }
    if draw.random() < 0.5:
        found |= processors(draw, common, found)
    return found


def sample_case(draw: random.Random, common: list[int]) -> dict[str, Any]:
    known = {
        "temperature": lambda: draw.choice([0.3, 0.8, 1.7]),
        "top_k": lambda: draw.choice([1, 3, 7, 100]),
        "top_p": lambda: draw.choice([0.1, 0.5, 0.9, 1.0]),
        "min_p": lambda: draw.choice([0.0, 0.05, 0.3]),
    }
    found = ending(draw, common) | {"do_sample": True, "seed": draw.randrange(99)}
    if draw.random() < 0.3:
        found |= processors(draw, common, found)
    return found | {n: known[n]() for n in draw.sample(list(known), draw.randint(1, 4))}


def theirs(model: Any, prompt: list[int], settings: dict[str, Any]) -> tuple[list[list[int]], Any]:
    """New tokens of each text without what is behind its end; and their scores, of beams."""
    call = dict(settings)
    if call.pop("do_sample", False):
        call["logits_processor"] = drawn(call)
    ids = torch.tensor([prompt])
    found = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        return_dict_in_generate=True,
        output_scores=True,
        **call,
    )
    start = 1 if model.config.is_encoder_decoder else len(prompt)
    ends = settings.get("eos_token_id", [])
    texts = [_cut(row[start:], ends) for row in found.sequences.tolist()]
    scores = found.get("sequences_scores")
    if scores is None:
        return texts, None
    penalty = settings.get("length_penalty", 1.0)
    sums = [s * len(t) ** penalty for s, t in zip(scores.tolist(), texts, strict=True)]
    both = [min(pair) for pair in zip(sums, scores.tolist(), strict=True)]
    real = [i for i, each in enumerate(both) if each > -5e8]  # the rest are no texts
    return [texts[i] for i in real], scores[real].tolist()


def _cut(row: list[int], ends: list[int]) -> list[int]:
    """What is behind the end is filled up to the length of the others."""
    places = [i for i, token in enumerate(row) if token in ends]
    return row[: places[0] + 1] if places else row


def drawn(call: dict[str, Any]) -> transformers.LogitsProcessorList:
    """Their own functions for sampling, then the choice by our number instead of theirs."""
    steps: list[Any] = []
    temperature, top_k = call.pop("temperature", None), call.pop("top_k", 0)
    top_p, min_p = call.pop("top_p", None), call.pop("min_p", None)
    if temperature is not None:
        steps.append(transformers.TemperatureLogitsWarper(temperature))
    if top_k:
        steps.append(transformers.TopKLogitsWarper(top_k))
    if top_p is not None and top_p < 1:
        steps.append(transformers.TopPLogitsWarper(top_p))
    if min_p is not None:
        steps.append(transformers.MinPLogitsWarper(min_p))
    steps.append(_Drawn(call.pop("seed"), call.pop("sample", 0)))
    return transformers.LogitsProcessorList(steps)


class _Drawn(transformers.LogitsProcessor):
    def __init__(self, seed: int, sample: int) -> None:
        self.keys, self.step = (seed, sample), 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        chances = scores.double().softmax(-1)[0].numpy()
        place = float(uniform(*self.keys, self.step)) * chances.sum()
        chosen = int(np.argmax(np.cumsum(chances) > place))
        self.step += 1
        return torch.full_like(scores, -torch.inf).index_fill(1, torch.tensor([chosen]), 0.0)
