"""ModernBERT: a pre-norm encoder with rotary positions and mostly sliding-window attention."""

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import Json, Key
from glassformer.checkpoint.rows import Row
from glassformer.config import ModelConfig
from glassformer.errors import shown

THEIRS, OURS = "layers.{}.", "backbone.encoder.blocks.{}."
TOKENS = "backbone.encoder.embedding.token.weight"
QKV = tuple(OURS + f"attention.{part}.*" for part in ("query", "key", "value"))


def head(ours: str) -> tuple[Row, ...]:
    return Row("head.dense.*", f"{ours}.dense.*"), Row("head.norm.*", f"{ours}.norm.*")


LABELS = (*head("pooler"), Row("classifier.*", "labels.linear.*"))
FIELDS = {"pooler": "transform"}


def kinds(config: ModelConfig) -> list[str]:
    """The attention type of each layer, as their config lists it."""
    every = config.global_every
    return ["sliding_attention" if i % every else "full_attention" for i in range(config.depth)]


def regular(foreign: Json, config: ModelConfig) -> str | None:
    listed = foreign.get("layer_types")
    if listed is None or (config.global_every > 0 and listed == kinds(config)):
        return None
    every = config.global_every
    return f"layer_types = {shown(listed)}: full_attention must be at 0, {every}, {2 * every} …"


MODERNBERT = Architecture(
    rule=regular,
    model_type="modernbert",
    prefix="model.",
    rows=(
        Row("embeddings.tok_embeddings.weight", TOKENS),
        Row("embeddings.norm.*", "backbone.encoder.embedding.norm.*"),
        Row(THEIRS + "attn_norm.*", OURS + "attention_norm.*"),
        Row(THEIRS + "attn.Wqkv.*", QKV),
        Row(THEIRS + "attn.Wo.*", OURS + "attention.output.*"),
        Row(THEIRS + "mlp_norm.*", OURS + "mlp_norm.*"),
        Row(THEIRS + "mlp.Wi.*", (OURS + "mlp.gate.*", OURS + "mlp.up.*")),
        Row(THEIRS + "mlp.Wo.*", OURS + "mlp.down.*"),
        Row("final_norm.*", "backbone.encoder.norm.*"),
    ),
    heads={
        "ModernBertModel": Head("features"),
        "ModernBertForMaskedLM": Head(
            "masked_lm",
            (
                *head("transform"),
                Row("decoder.bias", "lm_head.bias"),
                Row("decoder.weight", "lm_head.weight"),
                Row("decoder.weight", TOKENS, tied=True),
            ),
        ),
        "ModernBertForSequenceClassification": Head(
            "classification",
            LABELS,
            FIELDS,
            ("classifier_dropout",),
            pool=("classifier_pooling", {"cls": "first", "mean": "mean"}),
        ),
        "ModernBertForTokenClassification": Head(
            "token_classification", LABELS, FIELDS, ("classifier_dropout",)
        ),
    },
    keys=(
        Key("vocab_size", "vocab_size", 50368),
        Key("hidden_size", "width", 768),
        Key("num_hidden_layers", "depth", 22),
        Key("num_attention_heads", "heads", 12),
        Key("intermediate_size", "mlp_width", 1152),
        Key("max_position_embeddings", "max_length", 8192),
        Key("norm_eps", "norm_eps", 1e-5),
        Key("local_attention", "window", 128, read=lambda n: n // 2, write=lambda n: n * 2),
        Key("global_attn_every_n_layers", "global_every", 3),
        Key(
            ("rope_parameters.full_attention.rope_theta", "global_rope_theta"),
            "rotary_base",
            160_000.0,
        ),
        Key(
            ("rope_parameters.sliding_attention.rope_theta", "local_rope_theta"),
            "local_rotary_base",
            10_000.0,
        ),
        Key("embedding_dropout", "dropout.embedding", 0.0),
        Key("attention_dropout", "dropout.attention", 0.0),
        Key("mlp_dropout", "dropout.mlp", 0.0),
        Key("initializer_range", "init_std", 0.02),
        Key("pad_token_id", "ids.pad", 50283),
        Key("tie_word_embeddings", "tied", True),
    ),
    constants={
        "family": "encoder",
        "position": "rotary",
        "norm_place": "pre",
        "embedding_norm": True,
        "first_norm": False,
        "norm_bias": False,
        "attention_bias": False,
        "mlp_bias": False,
        "gated": True,
        "activation": "gelu",
    },
    fixed={
        "norm_bias": False,
        "attention_bias": False,
        "mlp_bias": False,
        "decoder_bias": True,
        "classifier_bias": False,
        "hidden_activation": "gelu",
        "classifier_activation": "gelu",
        "rope_parameters.full_attention.rope_type": "default",
        "rope_parameters.sliding_attention.rope_type": "default",
    },
)
