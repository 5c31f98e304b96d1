"""Mistral: a Llama in which each token sees a window of tokens before it."""

from dataclasses import replace

from glassformer.checkpoint.keys import Key
from glassformer.checkpoint.tables.llama import BIASES, LLAMA, NO_BIAS, changed, heads

MISTRAL = replace(
    LLAMA,
    model_type="mistral",
    heads=heads("Mistral"),
    keys=changed(
        LLAMA.keys,
        Key("num_key_value_heads", "key_heads", 8, nullable=True),
        Key("intermediate_size", "mlp_width", 14336),
        Key("max_position_embeddings", "max_length", 131_072),
        # Theirs is the number of tokens that are seen, ours the distance of the farthest.
        Key("sliding_window", "window", 4095, read=lambda n: n - 1, write=lambda n: n + 1,
            nullable=True),
        without=BIASES,
    ),
    constants={**LLAMA.constants, **NO_BIAS},
)  # fmt: skip
