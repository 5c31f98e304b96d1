"""mBART and M2M100 (NLLB): pre-norm translators for many languages.

mBART is BART with its norms before the layers; M2M100 has waves as positions, which start after the
number of the padding token.
"""

from dataclasses import replace

from glassformer.checkpoint.architecture import Head
from glassformer.checkpoint.keys import ACTIVATIONS, Key
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.bart import BART, embeddings
from glassformer.checkpoint.tables.llama import changed
from glassformer.checkpoint.tables.marian import TOKENS, WORDS

PRE_NORM = {"norm_place": "pre", "final_norm": True}
SIDES = ("encoder", "decoder")
EMBEDDINGS = [row for side in SIDES for row in embeddings(side)]

MBART = replace(
    BART,
    model_type="mbart",
    rows=(
        *BART.rows,
        *(Row(f"{side}.layer_norm.*", f"backbone.{side}.norm.*") for side in SIDES),
    ),
    heads={
        "MBartModel": Head("features"),
        "MBartForConditionalGeneration": Head("translation", WORDS),
    },
    keys=changed(BART.keys, Key("decoder_start_token_id", "ids.start", None)),
    constants={**BART.constants, **PRE_NORM},
)

M2M100 = replace(
    MBART,
    model_type="m2m_100",
    rows=tuple(row for row in MBART.rows if row not in EMBEDDINGS),
    heads={
        "M2M100Model": Head("features"),
        "M2M100ForConditionalGeneration": Head(
            "translation", (Row("lm_head.weight", TOKENS, tied=True),), {"bias": False}
        ),
    },
    keys=changed(
        MBART.keys,
        Key("vocab_size", "vocab_size", 128112),
        Key("activation_function", "activation", "relu", ACTIVATIONS),
        Key("scale_embedding", "embedding_scale", True),
        Key("attention_dropout", "dropout.attention", 0.1),
        Key("decoder_start_token_id", "ids.start", 2),
        Key(
            "pad_token_id", "position_offset", 2, read=lambda pad: pad + 1,
            write=lambda offset: offset - 1,
        ),
    ),
    constants={
        "family": "seq2seq",
        "position": "sinusoidal",
        "sinusoid": "halves_inclusive",
        "norm_eps": 1e-5,
        "tied": True,
        **PRE_NORM,
    },
    inert=tuple(f"{side}.embed_positions.weights" for side in SIDES),
)  # fmt: skip
