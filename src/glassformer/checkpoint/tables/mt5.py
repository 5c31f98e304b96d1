"""mT5 and umT5: T5 1.1 for a hundred languages, with an output matrix of its own."""

from dataclasses import replace

from glassformer.checkpoint.keys import Key
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.llama import changed
from glassformer.checkpoint.tables.t5 import FEED_FORWARD, T5, heads

MT5 = replace(
    T5,
    model_type="mt5",
    heads=heads("MT5"),
    keys=changed(
        T5.keys,
        Key("vocab_size", "vocab_size", 250112),
        Key("d_ff", "mlp_width", 1024),
        Key("num_layers", "depth", 8),
        Key("num_decoder_layers", "decoder_depth", lambda foreign: foreign.get("num_layers", 8)),
        Key("num_heads", "heads", 6),
        Key(
            "feed_forward_proj", "activation", "gelu_tanh",
            {theirs: ours for theirs, (ours, _) in FEED_FORWARD.items()},
        ),
        Key(
            "feed_forward_proj", "gated", True,
            {theirs: gated for theirs, (_, gated) in FEED_FORWARD.items()},
        ),
        without=("output_scale",),
    ),
)  # fmt: skip

UMT5 = replace(
    MT5,
    model_type="umt5",
    rows=(
        *(row for row in T5.rows if "relative" not in row.theirs),
        *(
            Row(
                f"{side}.block.{{}}.layer.0.SelfAttention.relative_attention_bias.weight",
                f"backbone.{side}.relative_layers.{{}}.table.weight",
            )
            for side in ("encoder", "decoder")
        ),
    ),
    heads=heads("UMT5"),
    keys=(*MT5.keys, Key("tie_word_embeddings", "output_scale", True)),
    constants={**MT5.constants, "relative_by_layer": True},
)
