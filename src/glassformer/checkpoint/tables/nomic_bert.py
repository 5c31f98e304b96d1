"""NomicBERT: BERT with rotary positions, gated MLPs, and no biases in its layers.

The config has the names of transformers, or those of the model's own code, which are GPT-2's.
"""

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import ACTIVATIONS, Json, Key
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.bert import BERT, POOLER, TOKENS, words
from glassformer.checkpoint.tables.llama import SCALING, one_group
from glassformer.config import ModelConfig
from glassformer.errors import shown

THEIRS, OURS = "encoder.layers.{}.", "backbone.encoder.blocks.{}."
QKV = tuple(OURS + f"attention.{part}.*" for part in ("query", "key", "value"))
# Keys of the model's own code, with the only values that are supported.
OWN_CODE: Json = {
    "activation_function": "swiglu",
    "causal": False,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "moe_every_n_layers": 0,
    "num_experts": 0,
    "parallel_block": False,
    "prenorm": False,
    "qkv_proj_bias": False,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True,
    "use_rms_norm": False,
}


def usual(foreign: Json, config: ModelConfig) -> str | None:
    for name, supported in OWN_CODE.items():
        if foreign.get(name) not in (None, supported):
            return f"{name} = {shown(foreign[name])} is not supported: only {supported!r} is"
    return one_group(foreign, config)


NOMIC_BERT = Architecture(
    model_type="nomic_bert",
    prefix="nomic_bert.",
    rows=(
        Row("embeddings.word_embeddings.weight", TOKENS),
        Row("embeddings.token_type_embeddings.weight", "backbone.encoder.embedding.segment.weight"),
        Row("emb_ln.*", "backbone.encoder.embedding.norm.*"),
        Row(THEIRS + "attn.Wqkv.*", QKV),
        Row(THEIRS + "attn.out_proj.*", OURS + "attention.output.*"),
        Row(THEIRS + "norm1.*", OURS + "attention_norm.*"),
        Row(THEIRS + "mlp.fc11.*", OURS + "mlp.up.*"),
        Row(THEIRS + "mlp.fc12.*", OURS + "mlp.gate.*"),
        Row(THEIRS + "mlp.fc2.*", OURS + "mlp.down.*"),
        Row(THEIRS + "norm2.*", OURS + "mlp_norm.*"),
    ),
    heads={
        "NomicBertModel": Head("features"),
        "NomicBertForMaskedLM": Head(
            "masked_lm", words("cls.predictions", "transform.dense", "transform.layer_norm")
        ),
        "NomicBertForSequenceClassification": Head(
            "classification",
            (POOLER, Row("classifier.*", "labels.linear.*")),
            {"pooler": "tanh"},
            ("classifier_dropout", "hidden_dropout_prob", "resid_pdrop"),
        ),
        "NomicBertForTokenClassification": Head(
            "token_classification",
            (Row("classifier.*", "labels.linear.*"),),
            dropout=("classifier_dropout", "hidden_dropout_prob", "resid_pdrop"),
        ),
    },
    keys=(
        Key("vocab_size", "vocab_size", 30528),
        Key(("hidden_size", "n_embd"), "width", 768),
        Key(("num_hidden_layers", "n_layer"), "depth", 12),
        Key(("num_attention_heads", "n_head"), "heads", 12),
        Key("head_dim", "head_width", None),
        Key(("intermediate_size", "n_inner"), "mlp_width", 3072),
        Key(("max_position_embeddings", "n_positions"), "max_length", 2048),
        Key("type_vocab_size", "segments", 2),
        Key(("layer_norm_eps", "layer_norm_epsilon"), "norm_eps", 1e-12),
        Key("hidden_act", "activation", "silu", ACTIVATIONS),
        Key(("rope_parameters.rope_theta", "rotary_emb_base"), "rotary_base", 1000.0),
        *SCALING,
        Key(("hidden_dropout_prob", "resid_pdrop"), "dropout.residual", 0.0),
        Key(("hidden_dropout_prob", "embd_pdrop"), "dropout.embedding", 0.0),
        Key(("attention_probs_dropout_prob", "attn_pdrop"), "dropout.attention", 0.0),
        Key("initializer_range", "init_std", 0.02),
        Key("pad_token_id", "ids.pad", 0),
        Key("tie_word_embeddings", "tied", True),
    ),
    constants={
        **BERT.constants,
        "position": "rotary",
        "gated": True,
        "attention_bias": False,
        "mlp_bias": False,
    },
    fixed={},
    rule=usual,
)
