"""ALBERT: BERT with one block for all layers, and word vectors narrower than its layers."""

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import ACTIVATIONS, Json, Key
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.bert import BERT, BODY, words
from glassformer.config import ModelConfig

THEIRS = "encoder.albert_layer_groups.0.albert_layers.0."
OURS = "backbone.encoder.blocks.0."
OWN = (
    "vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "hidden_act",
    "hidden_dropout_prob", "attention_probs_dropout_prob", "pad_token_id",
)  # fmt: skip
POOLER = Row("pooler.*", "pooler.dense.*", body=True)
WORDS = words("predictions", "dense", "LayerNorm")
DROPOUT = ("classifier_dropout_prob",)


def factorised(foreign: Json, config: ModelConfig) -> str | None:
    if config.table_width == config.width:
        return (
            f"embedding_size = {config.width} is that of the layers, too: only another one than "
            "hidden_size is supported"
        )
    return None


ALBERT = Architecture(
    model_type="albert",
    prefix="albert.",
    rows=(
        *(row for row in BODY if row.theirs.startswith("embeddings.")),
        Row("encoder.embedding_hidden_mapping_in.*", "backbone.encoder.embedding.project.*"),
        *(
            Row(f"{THEIRS}attention.{part}.*", f"{OURS}attention.{part}.*")
            for part in ("query", "key", "value")
        ),
        Row(THEIRS + "attention.dense.*", OURS + "attention.output.*"),
        Row(THEIRS + "attention.LayerNorm.*", OURS + "attention_norm.*"),
        Row(THEIRS + "ffn.*", OURS + "mlp.up.*"),
        Row(THEIRS + "ffn_output.*", OURS + "mlp.down.*"),
        Row(THEIRS + "full_layer_layer_norm.*", OURS + "mlp_norm.*"),
    ),
    heads={
        "AlbertModel": Head("features", (POOLER,), {"pooler": "tanh"}),
        "AlbertForMaskedLM": Head("masked_lm", WORDS),
        "AlbertForPreTraining": Head(  # whether the two texts are in their order
            "masked_lm_nsp",
            (*WORDS, POOLER, Row("sop_classifier.classifier.*", "follows.linear.*")),
            {},
            DROPOUT,
            0.1,
        ),
        "AlbertForSequenceClassification": Head(
            "classification",
            (POOLER, Row("classifier.*", "labels.linear.*")),
            {"pooler": "tanh"},
            DROPOUT,
            0.1,
        ),
        "AlbertForTokenClassification": Head(
            "token_classification", (Row("classifier.*", "labels.linear.*"),), {}, DROPOUT, 0.1
        ),
        "AlbertForQuestionAnswering": Head(
            "question_answering", (Row("qa_outputs.*", "labels.linear.*"),)
        ),
    },
    keys=(
        *(key for key in BERT.keys if key.theirs not in OWN),
        Key("vocab_size", "vocab_size", 30000),
        Key("embedding_size", "embedding_width", 128),
        Key("hidden_size", "width", 4096),
        Key("num_attention_heads", "heads", 64),
        Key("intermediate_size", "mlp_width", 16384),
        Key("hidden_act", "activation", "gelu_tanh", ACTIVATIONS),
        Key("hidden_dropout_prob", ("dropout.embedding", "dropout.residual"), 0.0),
        Key("attention_probs_dropout_prob", "dropout.attention", 0.0),
        Key("pad_token_id", "ids.pad", 0),
        Key("bos_token_id", "ids.start", 2, nullable=True),
        Key("eos_token_id", "ids.end", 3, nullable=True),
    ),
    constants={**BERT.constants, "shared_blocks": True},
    fixed={"num_hidden_groups": 1, "inner_group_num": 1, "position_embedding_type": "absolute"},
    rule=factorised,
    inert=BERT.inert,
)
