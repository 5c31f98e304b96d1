"""BERT: a post-norm encoder with learned positions and two segments."""

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import ACTIVATIONS, Key
from glassformer.checkpoint.rows import Row

THEIRS, OURS = "encoder.layer.{}.", "backbone.encoder.blocks.{}."
TOKENS = "backbone.encoder.embedding.token.weight"

BODY = (
    Row("embeddings.word_embeddings.weight", TOKENS),
    Row("embeddings.position_embeddings.weight", "backbone.encoder.embedding.position.weight"),
    Row("embeddings.token_type_embeddings.weight", "backbone.encoder.embedding.segment.weight"),
    Row("embeddings.LayerNorm.*", "backbone.encoder.embedding.norm.*"),
    Row(THEIRS + "attention.self.query.*", OURS + "attention.query.*"),
    Row(THEIRS + "attention.self.key.*", OURS + "attention.key.*"),
    Row(THEIRS + "attention.self.value.*", OURS + "attention.value.*"),
    Row(THEIRS + "attention.output.dense.*", OURS + "attention.output.*"),
    Row(THEIRS + "attention.output.LayerNorm.*", OURS + "attention_norm.*"),
    Row(THEIRS + "intermediate.dense.*", OURS + "mlp.up.*"),
    Row(THEIRS + "output.dense.*", OURS + "mlp.down.*"),
    Row(THEIRS + "output.LayerNorm.*", OURS + "mlp_norm.*"),
)
POOLER = Row("pooler.dense.*", "pooler.dense.*", body=True)


def words(home: str, dense: str, norm: str) -> tuple[Row, ...]:
    """The output for masked words: tied, or a linear layer that adds a bias of its own."""
    return (
        Row(f"{home}.{dense}.*", "transform.dense.*"),
        Row(f"{home}.{norm}.*", "transform.norm.*"),
        Row(f"{home}.decoder.weight", "lm_head.weight"),
        Row(f"{home}.decoder.weight", TOKENS, tied=True),
        Row(f"{home}.decoder.bias", "lm_head.bias", when=("tied", False)),
        Row(f"{home}.bias", "lm_head.bias"),
        Row(f"{home}.decoder.bias", "lm_head.bias", tied=True),
    )


WORDS = words("cls.predictions", "transform.dense", "transform.LayerNorm")
DROPOUT = ("classifier_dropout", "hidden_dropout_prob")

BERT = Architecture(
    model_type="bert",
    prefix="bert.",
    rows=BODY,
    heads={
        "BertModel": Head("features", (POOLER,), {"pooler": "tanh"}),
        "BertForMaskedLM": Head("masked_lm", WORDS),
        "BertForPreTraining": Head(
            "masked_lm_nsp", (*WORDS, POOLER, Row("cls.seq_relationship.*", "follows.linear.*"))
        ),
        "BertForNextSentencePrediction": Head(
            "next_sentence",
            (POOLER, Row("cls.seq_relationship.*", "labels.linear.*")),
            {"pooler": "tanh", "labels": ("follows", "random")},
        ),
        "BertForSequenceClassification": Head(
            "classification",
            (POOLER, Row("classifier.*", "labels.linear.*")),
            {"pooler": "tanh"},
            DROPOUT,
        ),
        "BertForTokenClassification": Head(
            "token_classification", (Row("classifier.*", "labels.linear.*"),), dropout=DROPOUT
        ),
        "BertForQuestionAnswering": Head(
            "question_answering", (Row("qa_outputs.*", "labels.linear.*"),)
        ),
    },
    keys=(
        Key("vocab_size", "vocab_size", 30522),
        Key("hidden_size", "width", 768),
        Key("num_hidden_layers", "depth", 12),
        Key("num_attention_heads", "heads", 12),
        Key("intermediate_size", "mlp_width", 3072),
        Key("max_position_embeddings", "max_length", 512),
        Key("type_vocab_size", "segments", 2),
        Key("layer_norm_eps", "norm_eps", 1e-12),
        Key("hidden_act", "activation", "gelu", ACTIVATIONS),
        Key("hidden_dropout_prob", ("dropout.embedding", "dropout.residual"), 0.1),
        Key("attention_probs_dropout_prob", "dropout.attention", 0.1),
        Key("initializer_range", "init_std", 0.02),
        Key("pad_token_id", "ids.pad", None),
        Key("tie_word_embeddings", "tied", True),
    ),
    constants={
        "family": "encoder",
        "position": "learned",
        "norm_place": "post",
        "embedding_norm": True,
        "final_norm": False,
    },
    fixed={
        "is_decoder": False,
        "add_cross_attention": False,
        "position_embedding_type": "absolute",
    },
    inert=("embeddings.position_ids", "embeddings.token_type_ids"),
)
