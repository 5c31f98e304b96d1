"""T5Gemma: an encoder and a decoder like Gemma 2, of any two sizes, each with its token table."""

from typing import Any

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import ACTIVATIONS, Json, Key, look_up
from glassformer.checkpoint.rows import Row
from glassformer.config import ModelConfig
from glassformer.errors import shown

SIDES = ("encoder", "decoder")
MAPS = {"q": "query", "k": "key", "v": "value", "o": "output"}
PARTS = {
    **{f"self_attn.{theirs}_proj": f"attention.{ours}" for theirs, ours in MAPS.items()},
    **{f"cross_attn.{theirs}_proj": f"cross.{ours}" for theirs, ours in MAPS.items()},
    **{f"mlp.{part}_proj": f"mlp.{part}" for part in ("gate", "up", "down")},
    "pre_self_attn_layernorm": "attention_norm",
    "post_self_attn_layernorm": "attention_out_norm",
    "pre_cross_attn_layernorm": "cross_norm",
    "post_cross_attn_layernorm": "cross_out_norm",
    "pre_feedforward_layernorm": "mlp_norm",
    "post_feedforward_layernorm": "mlp_out_norm",
}
SIZES = (  # each side has its own
    ("hidden_size", "width", 2304),
    ("num_hidden_layers", "depth", 26),
    ("num_attention_heads", "heads", 8),
    ("num_key_value_heads", "key_heads", 4),
    ("intermediate_size", "mlp_width", 9216),
)


def side(name: str) -> tuple[Row, ...]:
    ours = f"backbone.{name}."
    return (
        Row(f"{name}.embed_tokens.weight", f"{ours}embedding.token.weight"),
        *(Row(f"{name}.layers.{{}}.{t}.*", f"{ours}blocks.{{}}.{o}.*") for t, o in PARTS.items()),
        Row(f"{name}.norm.weight", f"{ours}norm.weight"),
    )


def both(name: str, ours: str | tuple[str, ...], default: Any, **more: Any) -> list[Key]:
    """One field for both sides, which must agree."""
    return [Key(f"{side}.{name}", ours, default, **more) for side in SIDES]


def regular(foreign: Json, config: ModelConfig) -> str | None:
    """Layers 0, 2 … have a window."""
    kinds = ("sliding_attention", "full_attention")
    for name, depth in zip(SIDES, (config.depth, config.output_stack.depth), strict=True):
        listed = look_up(foreign, f"{name}.layer_types")
        if listed is not None and listed != [kinds[i % 2] for i in range(depth)]:
            return (
                f"{name}.layer_types = {shown(listed)}: only sliding_attention and full_attention "
                "in turn, for each layer, is supported"
            )
    return None


T5GEMMA = Architecture(
    model_type="t5gemma",
    prefix="model.",
    rows=(*side("encoder"), *side("decoder")),
    heads={
        "T5GemmaModel": Head("features"),
        "T5GemmaForConditionalGeneration": Head(
            "translation",
            (
                Row("lm_head.out_proj.weight", "lm_head.weight"),
                Row(
                    "lm_head.out_proj.weight", "backbone.decoder.embedding.token.weight",
                    tied=True,
                ),
            ),
            {"bias": False},
        ),
    },
    keys=(
        *(Key(f"encoder.{theirs}", ours, default) for theirs, ours, default in SIZES),
        *(Key(f"decoder.{theirs}", f"decoder_{ours}", default) for theirs, ours, default in SIZES),
        *both("vocab_size", "vocab_size", 256000),
        *both("head_dim", ("head_width", "decoder_head_width"), 256),
        *both("query_pre_attn_scalar", "score_width", 256),
        *both("max_position_embeddings", "max_length", 8192),
        *both("hidden_activation", "activation", "gelu_tanh", values=ACTIVATIONS),
        *both("rms_norm_eps", "norm_eps", 1e-6),
        *(
            Key((f"{name}.rope_parameters.rope_theta", f"{name}.rope_theta"), "rotary_base", 1e4)
            for name in SIDES
        ),
        *both("attention_bias", ("attention_bias", "output_bias"), False),
        *both("attn_logit_softcapping", "score_cap", 50.0, nullable=True),
        *both("initializer_range", "init_std", 0.02),
        # To both sides up to this distance, and back to less than it.
        Key("encoder.sliding_window", "window", 4096),
        Key(
            "decoder.sliding_window", "decoder_window", 4095, read=lambda n: n - 1,
            write=lambda n: n + 1,
        ),
        Key("decoder.final_logit_softcapping", "logit_cap", 30.0, nullable=True),
        Key("decoder.bos_token_id", "ids.start", 2),
        Key("decoder.eos_token_id", "ids.end", 1, first=True),
        Key("decoder.pad_token_id", "ids.pad", 0),
        Key("dropout_rate", ("dropout.embedding", "dropout.mlp", "dropout.residual"), 0.0),
        Key("attention_dropout", "dropout.attention", 0.0),
        Key("tie_word_embeddings", "tied", True),
    ),
    constants={
        "family": "seq2seq",
        "shared_embedding": False,
        "position": "rotary",
        "embedding_scale": True,
        "norm": "rms",
        "norm_place": "sandwich",
        "norm_plus_one": True,
        "global_every": 2,
        "global_last": True,
        "gated": True,
        "mlp_bias": False,
    },
    fixed={
        "is_encoder_decoder": True,
        **{f"{name}.rope_parameters.rope_type": "default" for name in SIDES},
    },
    rule=regular,
)  # fmt: skip
