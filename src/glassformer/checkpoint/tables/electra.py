"""ELECTRA: BERT whose word vectors may be narrower than its layers."""

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import Key
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.bert import BERT, BODY, DROPOUT, TOKENS

SIZES = ("hidden_size", "num_attention_heads", "intermediate_size", "hidden_act")

ELECTRA = Architecture(
    model_type="electra",
    prefix="electra.",
    rows=(*BODY, Row("embeddings_project.*", "backbone.encoder.embedding.project.*")),
    heads={
        "ElectraModel": Head("features"),
        "ElectraForPreTraining": Head(
            "token_classification",
            (
                Row("discriminator_predictions.dense.*", "pooler.dense.*"),
                Row("discriminator_predictions.dense_prediction.*", "labels.linear.*"),
            ),
            {"pooler": "gelu", "labels": ("replaced",)},
        ),
        "ElectraForMaskedLM": Head(
            "masked_lm",
            (
                Row("generator_predictions.dense.*", "transform.dense.*"),
                Row("generator_predictions.LayerNorm.*", "transform.norm.*"),
                Row("generator_lm_head.bias", "lm_head.bias"),
                Row("generator_lm_head.weight", "lm_head.weight"),
                Row("generator_lm_head.weight", TOKENS, tied=True),
            ),
        ),
        "ElectraForSequenceClassification": Head(
            "classification",
            (
                Row("classifier.dense.*", "pooler.dense.*"),
                Row("classifier.out_proj.*", "labels.linear.*"),
            ),
            {"pooler": "gelu"},
            DROPOUT,
        ),
        "ElectraForTokenClassification": Head(
            "token_classification", (Row("classifier.*", "labels.linear.*"),), dropout=DROPOUT
        ),
        "ElectraForQuestionAnswering": Head(
            "question_answering", (Row("qa_outputs.*", "labels.linear.*"),)
        ),
    },
    keys=(
        *(key for key in BERT.keys if key.theirs not in SIZES),
        Key("embedding_size", "embedding_width", 128),
        Key("hidden_size", "width", 256),
        Key("num_attention_heads", "heads", 4),
        Key("intermediate_size", "mlp_width", 1024),
    ),
    constants={**BERT.constants, "activation": "gelu"},
    fixed={**BERT.fixed, "hidden_act": "gelu"},
    inert=BERT.inert,
)
