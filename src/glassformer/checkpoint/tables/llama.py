"""Llama and its kin (SmolLM2, Qwen2): rotary positions, RMS norms, gated MLPs, grouped heads."""

from dataclasses import replace

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import ACTIVATIONS, Json, Key
from glassformer.checkpoint.rows import Row
from glassformer.config import ModelConfig
from glassformer.errors import shown

THEIRS, OURS = "layers.{}.", "backbone.decoder.blocks.{}."
TOKENS = "backbone.decoder.embedding.token.weight"
WORDS = (
    Row("lm_head.weight", "lm_head.weight"),
    Row("lm_head.weight", TOKENS, tied=True),
)
THETA = ("rope_parameters.rope_theta", "rope_theta")

LLAMA = Architecture(
    model_type="llama",
    prefix="model.",
    rows=(
        Row("embed_tokens.weight", TOKENS),
        Row(THEIRS + "input_layernorm.weight", OURS + "attention_norm.weight"),
        Row(THEIRS + "self_attn.q_proj.*", OURS + "attention.query.*"),
        Row(THEIRS + "self_attn.k_proj.*", OURS + "attention.key.*"),
        Row(THEIRS + "self_attn.v_proj.*", OURS + "attention.value.*"),
        Row(THEIRS + "self_attn.o_proj.*", OURS + "attention.output.*"),
        Row(THEIRS + "post_attention_layernorm.weight", OURS + "mlp_norm.weight"),
        Row(THEIRS + "mlp.gate_proj.*", OURS + "mlp.gate.*"),
        Row(THEIRS + "mlp.up_proj.*", OURS + "mlp.up.*"),
        Row(THEIRS + "mlp.down_proj.*", OURS + "mlp.down.*"),
        Row("norm.weight", "backbone.decoder.norm.weight"),
    ),
    heads={
        "LlamaModel": Head("features"),
        "LlamaForCausalLM": Head("causal_lm", WORDS, {"bias": False}),
        "LlamaForSequenceClassification": Head(
            "classification", (Row("score.*", "labels.linear.*"),), {"bias": False, "pool": "last"}
        ),
    },
    keys=(
        Key("vocab_size", "vocab_size", 32000),
        Key("hidden_size", "width", 4096),
        Key("num_hidden_layers", "depth", 32),
        Key("num_attention_heads", "heads", 32),
        Key("num_key_value_heads", "key_heads", None),
        Key("head_dim", "head_width", None),
        Key("intermediate_size", "mlp_width", 11008),
        Key("max_position_embeddings", "max_length", 2048),
        Key("rms_norm_eps", "norm_eps", 1e-6),
        Key("hidden_act", "activation", "silu", ACTIVATIONS),
        Key(THETA, "rotary_base", 10_000.0),
        Key("attention_bias", ("attention_bias", "output_bias"), False),
        Key("mlp_bias", "mlp_bias", False),
        Key("attention_dropout", "dropout.attention", 0.0),
        Key("initializer_range", "init_std", 0.02),
        Key("tie_word_embeddings", "tied", False),
        Key("bos_token_id", "ids.start", 1),
        Key("eos_token_id", "ids.end", 2, first=True),
        Key("pad_token_id", "ids.pad", None),
    ),
    constants={
        "family": "decoder",
        "position": "rotary",
        "norm": "rms",
        "norm_place": "pre",
        "gated": True,
    },
    fixed={"rope_parameters.rope_type": "default", "rope_scaling": None},
    inert=("layers.{}.self_attn.rotary_emb.inv_freq",),
)


def everywhere(foreign: Json, config: ModelConfig) -> str | None:
    listed = foreign.get("layer_types")
    if listed is None or listed == ["full_attention"] * config.depth:
        return None
    return f"layer_types = {shown(listed)}: only full_attention, for each layer, is supported"


QWEN2 = replace(
    LLAMA,
    rule=everywhere,
    model_type="qwen2",
    heads={name.replace("Llama", "Qwen2"): head for name, head in LLAMA.heads.items()},
    keys=(
        *(key for key in LLAMA.keys if "bias" not in str(key.theirs) and key.default not in (1, 2)),
        Key("bos_token_id", "ids.start", None),
        Key("eos_token_id", "ids.end", None, first=True),
    ),
    constants={**LLAMA.constants, "attention_bias": True, "output_bias": False, "mlp_bias": False},
    fixed={**LLAMA.fixed, "use_sliding_window": False},
)
