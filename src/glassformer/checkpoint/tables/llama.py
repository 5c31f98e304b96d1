"""Llama: rotary positions, RMS norms, gated MLPs, grouped heads; and parts for related models."""

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
SCORE = (Row("score.*", "labels.linear.*"),)
GROUPS = ("rope_parameters", "rope_scaling")  # the new name, and the old one
KINDS = {"default": "none", "linear": "linear", "llama3": "by_wavelength"}
SCALING = (
    Key(
        (*(f"{group}.rope_type" for group in GROUPS), "rope_scaling.type"),
        "rotary_scaling.kind", "none", KINDS,
    ),
    *(
        Key(tuple(f"{group}.{theirs}" for group in GROUPS), f"rotary_scaling.{ours}", default,
            sparse=True)
        for theirs, ours, default in (
            ("factor", "factor", 1.0),
            ("original_max_position_embeddings", "original_length", None),
            ("low_freq_factor", "low", None),
            ("high_freq_factor", "high", None),
        )
    ),
)  # fmt: skip


def heads(name: str, *, tags: bool = True) -> dict[str, Head]:
    """The usual classes of a decoder; some have none for token classification."""
    usual = {
        f"{name}Model": Head("features"),
        f"{name}ForCausalLM": Head("causal_lm", WORDS, {"bias": False}),
        f"{name}ForSequenceClassification": Head(
            "classification", SCORE, {"bias": False, "pool": "last"}
        ),
    }
    dropout = ("classifier_dropout", "hidden_dropout")
    tagging = Head("token_classification", SCORE, dropout=dropout, default_dropout=0.1)
    return {**usual, f"{name}ForTokenClassification": tagging} if tags else usual


def one_group(foreign: Json, config: ModelConfig) -> str | None:
    """rope_scaling is the old name of rope_parameters: which of two would count?"""
    if foreign.get("rope_parameters") and foreign.get("rope_scaling"):
        return "rope_parameters and rope_scaling are two names of one group: remove one of them"
    return None


def changed(keys: tuple[Key, ...], *others: Key, without: tuple[str, ...] = ()) -> tuple[Key, ...]:
    """The keys with others in the place of those for the same fields, and without some fields."""
    gone = {path for key in others for path in key.paths} | set(without)
    return (*(key for key in keys if gone.isdisjoint(key.paths)), *others)


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
    heads=heads("Llama"),
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
        Key(("rope_parameters.rope_theta", "rope_theta"), "rotary_base", 10_000.0),
        *SCALING,
        Key("attention_bias", ("attention_bias", "output_bias"), False),
        Key("mlp_bias", "mlp_bias", False),
        Key("attention_dropout", "dropout.attention", 0.0),
        # Llama has no other dropout; a model that was trained with it keeps the rates by these.
        Key("embd_pdrop", "dropout.embedding", 0.0, sparse=True),
        Key("resid_pdrop", "dropout.residual", 0.0, sparse=True),
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
    fixed={"token_classification_bias": True},
    rule=one_group,
    inert=("layers.{}.self_attn.rotary_emb.inv_freq",),
)


def everywhere(foreign: Json, config: ModelConfig) -> str | None:
    listed = foreign.get("layer_types")
    if listed is None or listed == ["full_attention"] * config.depth:
        return one_group(foreign, config)
    return f"layer_types = {shown(listed)}: only full_attention, for each layer, is supported"


NO_BIAS = {"attention_bias": False, "output_bias": False, "mlp_bias": False}
BIASES = ("attention_bias", "output_bias", "mlp_bias")
