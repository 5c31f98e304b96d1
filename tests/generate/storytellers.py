"""Models that speak: fresh random weights, loud enough to be wild, with a tokenizer."""

import torch

import glassformer as gf
from glassformer.text.training import train_tokenizer

SENTENCES = [
    "The cat sat on the mat.", "Кошка сидит на ковре.", "Der Hund läuft über die Straße.",
    "naïve café 🙂 日本語", "one\ntwo\nthree\n", "  spaces   and\ttabs ",
]  # fmt: skip
SIZES = {"bytes": None, "bpe": 300, "unigram": 90, "chars": None}


def tokenizer(kind, purpose="decoder"):
    return train_tokenizer(SENTENCES * 3, kind, SIZES[kind], purpose=purpose)


def speaker(kind="bpe", family="decoder", **more):
    made = tokenizer(kind, "decoder" if family == "decoder" else "translation")
    end = made.id("<|endoftext|>") if family == "decoder" else made.id("</s>")
    config = gf.ModelConfig(
        family=family, vocab_size=made.highest + 1, width=16, depth=2, heads=2, mlp_width=24,
        max_length=64, init_std=0.4, ids={"end": end, "start": made.id("<pad>")},
        activation="gelu_tanh", **more,
    )  # fmt: skip
    torch.manual_seed(7)
    kind = "causal_lm" if family == "decoder" else "translation"
    task = gf.TaskConfig(kind=kind, bias=family != "decoder")
    return gf.Model(gf.build_task(config, task).eval(), made)
