"""T5 and T5 1.1: RMS norms, no biases, unscaled scores, positions as learned distances."""

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import Key
from glassformer.checkpoint.rows import Row

TOKENS = "backbone.encoder.embedding.token.weight"
WORDS = (
    Row("lm_head.weight", "lm_head.weight"),
    Row("lm_head.weight", TOKENS, tied=True),
)
FEED_FORWARD = {  # their word → activation, gated
    "relu": ("relu", False),
    "gated-gelu": ("gelu_tanh", True),
    "gated-silu": ("silu", True),
    "gelu": ("gelu", False),
}


def side(name: str, parts: tuple[str, ...]) -> tuple[Row, ...]:
    """A layer is a list of numbered parts: self-attention, (cross-attention,) feed-forward."""
    rows: list[Row] = []
    theirs, ours = f"{name}.block.{{}}.layer.", f"backbone.{name}.blocks.{{}}."
    letters = {"q": "query", "k": "key", "v": "value", "o": "output"}
    for number, part in enumerate(parts):
        inside = {"attention": "SelfAttention", "cross": "EncDecAttention"}.get(part)
        if inside is not None:
            rows += [
                Row(f"{theirs}{number}.{inside}.{letter}.weight", f"{ours}{part}.{word}.weight")
                for letter, word in letters.items()
            ]
        rows.append(Row(f"{theirs}{number}.layer_norm.weight", f"{ours}{part}_norm.weight"))
    dense = f"{theirs}{len(parts) - 1}.DenseReluDense."
    return (
        *rows,
        Row(dense + "wi.weight", ours + "mlp.up.weight", when=("gated", False)),
        Row(dense + "wi_0.weight", ours + "mlp.gate.weight"),
        Row(dense + "wi_1.weight", ours + "mlp.up.weight", when=("gated", True)),
        Row(dense + "wo.weight", ours + "mlp.down.weight"),
        Row(
            f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            f"backbone.{name}.relative.table.weight",
        ),
        Row(f"{name}.final_layer_norm.weight", f"backbone.{name}.norm.weight"),
        Row(f"{name}.embed_tokens.weight", TOKENS, tied=True),
    )


def heads(name: str) -> dict[str, Head]:
    return {
        f"{name}Model": Head("features"),
        f"{name}ForConditionalGeneration": Head("translation", WORDS, {"bias": False}),
        f"{name}EncoderModel": Head("features", body={"family": "encoder", "decoder_depth": None}),
    }


T5 = Architecture(
    model_type="t5",
    prefix="",
    rows=(
        Row("shared.weight", TOKENS),
        *side("encoder", ("attention", "mlp")),
        *side("decoder", ("attention", "cross", "mlp")),
    ),
    heads=heads("T5"),
    keys=(
        Key("vocab_size", "vocab_size", 32128),
        Key("d_model", "width", 512),
        Key("d_kv", "head_width", 64),
        Key("d_ff", "mlp_width", 2048),
        Key("num_layers", "depth", 6),
        Key("num_decoder_layers", "decoder_depth", lambda foreign: foreign.get("num_layers", 6)),
        Key("num_heads", "heads", 8),
        Key("n_positions", "max_length", 512),
        Key("relative_attention_num_buckets", "relative_buckets", 32),
        Key("relative_attention_max_distance", "relative_distance", 128),
        Key("layer_norm_epsilon", "norm_eps", 1e-6),
        Key(
            "feed_forward_proj", "activation", "relu", {k: a for k, (a, _) in FEED_FORWARD.items()}
        ),
        Key("feed_forward_proj", "gated", False, {k: g for k, (_, g) in FEED_FORWARD.items()}),
        Key(
            "dropout_rate",
            ("dropout.embedding", "dropout.attention", "dropout.mlp", "dropout.residual"),
            0.1,
        ),
        Key("tie_word_embeddings", "tied", True),
        Key(("scale_decoder_outputs", "tie_word_embeddings"), "output_scale", True),
        Key("decoder_start_token_id", "ids.start", 0),
        Key("eos_token_id", "ids.end", 1),
        Key("pad_token_id", "ids.pad", 0),
    ),
    constants={
        "family": "seq2seq",
        "position": "relative",
        "norm": "rms",
        "norm_place": "pre",
        "attention_bias": False,
        "mlp_bias": False,
        "scaled": False,
    },
    fixed={"is_decoder": False},
    inert=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),
)
