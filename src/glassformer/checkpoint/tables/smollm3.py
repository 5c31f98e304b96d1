"""SmolLM3: a Llama in which every fourth layer does not turn its queries and keys."""

from dataclasses import replace

from glassformer.checkpoint.keys import Json, Key
from glassformer.checkpoint.tables.llama import LLAMA, changed, everywhere, heads
from glassformer.config import ModelConfig
from glassformer.errors import shown


def regular(foreign: Json, config: ModelConfig) -> str | None:
    every, listed = config.no_rotary_every, foreign.get("no_rope_layers")
    if every == 0:
        return "no_rope_layer_interval = 0: write at least 1"
    expected = [int((i + 1) % every > 0) for i in range(config.depth)]
    if listed is not None and listed != expected:
        return (
            f"no_rope_layers = {shown(listed)}: 0 must be at {every - 1}, {2 * every - 1} …, "
            f"every {every} layers"
        )
    return everywhere(foreign, config)


SMOLLM3 = replace(
    LLAMA,
    model_type="smollm3",
    heads=heads("SmolLM3"),
    keys=changed(
        LLAMA.keys,
        Key("vocab_size", "vocab_size", 128256),
        Key("hidden_size", "width", 2048),
        Key("num_hidden_layers", "depth", 36),
        Key("num_attention_heads", "heads", 16),
        Key("num_key_value_heads", "key_heads", 4, nullable=True),
        Key("max_position_embeddings", "max_length", 32768),
        Key(("rope_parameters.rope_theta", "rope_theta"), "rotary_base", 2_000_000.0),
        Key("no_rope_layer_interval", "no_rotary_every", 4),
        Key("tie_word_embeddings", "tied", True),
        Key("bos_token_id", "ids.start", 128000),
        Key("eos_token_id", "ids.end", 128001, first=True),
        Key("pad_token_id", "ids.pad", 128004),
    ),
    fixed={**LLAMA.fixed, "use_sliding_window": False},
    rule=regular,
)
