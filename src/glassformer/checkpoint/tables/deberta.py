"""DeBERTa-v2 and v3: BERT whose scores compare queries and keys with vectors for distances."""

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import Json, Key
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.bert import BERT, BODY, WORDS
from glassformer.config import ModelConfig
from glassformer.errors import shown

THEIRS, OURS = "encoder.layer.{}.attention.self.", "backbone.encoder.blocks.{}."
OWN = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "type_vocab_size", "layer_norm_eps", "pad_token_id",
)  # fmt: skip
DISENTANGLED = {"relative_attention": True, "share_att_key": True, "norm_rel_ebd": "layer_norm"}
TERMS = {"p2c|c2p": "disentangled", "c2p|p2c": "disentangled"}
# Heads of the pretraining, which transformers does not open either.
PRETRAINING = (
    "lm_predictions.lm_head.bias", "lm_predictions.lm_head.dense.*",
    "lm_predictions.lm_head.LayerNorm.*", "mask_predictions.dense.*",
    "mask_predictions.LayerNorm.*", "mask_predictions.classifier.*",
)  # fmt: skip


def disentangled(foreign: Json, config: ModelConfig) -> str | None:
    """Without these keys the scores would have other terms."""
    widths = ("embedding_size", "pooler_hidden_size")
    sizes = dict.fromkeys(widths, config.width) | {"attention_head_size": config.query_width}
    values = sizes | {name: value for name, value in foreign.items() if value is not None}
    for name, supported in (DISENTANGLED | sizes).items():
        if (value := values.get(name)) != supported:
            return f"{name} = {shown(value)} is not supported: only {supported!r} is"
    if config.relative_buckets // 2 >= config.relative_distance:
        return (
            f"position_buckets = {config.relative_buckets // 2}: only fewer than "
            f"max_relative_positions = {config.relative_distance} are supported"
        )
    return None


DEBERTA_V2 = Architecture(
    model_type="deberta-v2",
    prefix="deberta.",
    rows=(
        *(row for row in BODY if not row.theirs.startswith(THEIRS)),
        *(
            Row(f"{THEIRS}{part}_proj.*", f"{OURS}attention.{part}.*")
            for part in ("query", "key", "value")
        ),
        Row("encoder.rel_embeddings.weight", "backbone.encoder.distances.table.weight"),
        Row("encoder.LayerNorm.*", "backbone.encoder.distances.norm.*"),
    ),
    heads={
        "DebertaV2Model": Head("features"),
        "DebertaV2ForMaskedLM": Head("masked_lm", WORDS),
        "DebertaV2ForSequenceClassification": Head(
            "classification",
            (
                Row("pooler.dense.*", "pooler.dense.*"),
                Row("classifier.*", "labels.linear.*"),
            ),
            {"pooler": "gelu"},
            ("cls_dropout", "hidden_dropout_prob"),
            0.1,
        ),
        "DebertaV2ForTokenClassification": Head(
            "token_classification",
            (Row("classifier.*", "labels.linear.*"),),
            {},
            ("hidden_dropout_prob",),
            0.1,
        ),
        "DebertaV2ForQuestionAnswering": Head(
            "question_answering", (Row("qa_outputs.*", "labels.linear.*"),)
        ),
    },
    keys=(
        *(key for key in BERT.keys if key.theirs not in OWN),
        Key("vocab_size", "vocab_size", 128100),
        Key("hidden_size", "width", 1536),
        Key("num_hidden_layers", "depth", 24),
        Key("num_attention_heads", "heads", 24),
        Key("intermediate_size", "mlp_width", 6144),
        Key("type_vocab_size", "segments", 0),
        Key("layer_norm_eps", "norm_eps", 1e-7),
        Key("pad_token_id", "ids.pad", 0),
        Key("position_biased_input", "position", "learned", {True: "learned", False: "none"}),
        Key("pos_att_type", "relative", values=TERMS, joined="|"),
        Key(
            "position_buckets", "relative_buckets", -1, read=lambda n: 2 * n, write=lambda n: n // 2
        ),
        Key(
            "max_relative_positions",
            "relative_distance",
            lambda foreign: foreign.get("max_position_embeddings") or 512,
            unset=-1,
        ),
    ),
    constants={name: value for name, value in BERT.constants.items() if name != "position"},
    fixed={**DISENTANGLED, "conv_kernel_size": 0, "legacy": True, "pooler_hidden_act": "gelu"},
    rule=disentangled,
    inert=("embeddings.position_ids", "embeddings.position_embeddings.weight", *PRETRAINING),
)
