"""BART: Marian's body with learned positions that start at 2 and normed embeddings."""

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import Key
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.marian import MARIAN, WORDS

LABELS = (
    Row("classification_head.dense.*", "pooler.dense.*"),
    Row("classification_head.out_proj.*", "labels.linear.*"),
)
NOT_MARIAN = ("vocab_size", "token_id", "share_encoder_decoder_embeddings")


def embeddings(name: str) -> tuple[Row, ...]:
    ours = f"backbone.{name}.embedding."
    return (
        Row(f"{name}.embed_positions.weight", ours + "position.weight"),
        Row(f"{name}.layernorm_embedding.*", ours + "norm.*"),
    )


BART = Architecture(
    model_type="bart",
    prefix="model.",
    rows=(
        *(row for row in MARIAN.rows if not row.theirs.endswith("embed_positions.weight")),
        *embeddings("encoder"),
        *embeddings("decoder"),
    ),
    heads={
        "BartModel": Head("features"),
        "BartForConditionalGeneration": Head("translation", WORDS),
        "BartForSequenceClassification": Head(
            "classification",
            LABELS,
            {"pool": "last", "pooler": "tanh"},
            dropout=("classifier_dropout",),
        ),
        "BartForQuestionAnswering": Head(
            "question_answering", (Row("qa_outputs.*", "labels.linear.*"),)
        ),
    },
    keys=(
        *(key for key in MARIAN.keys if not key.names[0].endswith(NOT_MARIAN)),
        Key("vocab_size", "vocab_size", 50265),
        Key("decoder_start_token_id", "ids.start", 2),
        Key("eos_token_id", "ids.end", 2),
        Key("pad_token_id", "ids.pad", 1),
    ),
    constants={
        "family": "seq2seq",
        "position": "learned",
        "position_offset": 2,
        "embedding_norm": True,
        "norm_place": "post",
        "final_norm": False,
        "norm_eps": 1e-5,
        "tied": True,
    },
    fixed={"is_decoder": False, "is_encoder_decoder": True, "tie_word_embeddings": True},
)
