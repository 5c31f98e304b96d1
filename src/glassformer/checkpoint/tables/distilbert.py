"""DistilBERT: BERT without segments and pooler, half as deep."""

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import ACTIVATIONS, Key
from glassformer.checkpoint.rows import Row

THEIRS, OURS = "transformer.layer.{}.", "backbone.encoder.blocks.{}."
TOKENS = "backbone.encoder.embedding.token.weight"

DISTILBERT = Architecture(
    model_type="distilbert",
    prefix="distilbert.",
    rows=(
        Row("embeddings.word_embeddings.weight", TOKENS),
        Row("embeddings.position_embeddings.weight", "backbone.encoder.embedding.position.weight"),
        Row("embeddings.LayerNorm.*", "backbone.encoder.embedding.norm.*"),
        Row(THEIRS + "attention.q_lin.*", OURS + "attention.query.*"),
        Row(THEIRS + "attention.k_lin.*", OURS + "attention.key.*"),
        Row(THEIRS + "attention.v_lin.*", OURS + "attention.value.*"),
        Row(THEIRS + "attention.out_lin.*", OURS + "attention.output.*"),
        Row(THEIRS + "sa_layer_norm.*", OURS + "attention_norm.*"),
        Row(THEIRS + "ffn.lin1.*", OURS + "mlp.up.*"),
        Row(THEIRS + "ffn.lin2.*", OURS + "mlp.down.*"),
        Row(THEIRS + "output_layer_norm.*", OURS + "mlp_norm.*"),
    ),
    heads={
        "DistilBertModel": Head("features"),
        "DistilBertForMaskedLM": Head(
            "masked_lm",
            (
                Row("vocab_transform.*", "transform.dense.*"),
                Row("vocab_layer_norm.*", "transform.norm.*"),
                Row("vocab_projector.bias", "lm_head.bias"),
                Row("vocab_projector.weight", "lm_head.weight"),
                Row("vocab_projector.weight", TOKENS, tied=True),
            ),
        ),
        "DistilBertForSequenceClassification": Head(
            "classification",
            (Row("pre_classifier.*", "pooler.dense.*"), Row("classifier.*", "labels.linear.*")),
            {"pooler": "relu"},
            ("seq_classif_dropout",),
            default_dropout=0.2,
        ),
        "DistilBertForTokenClassification": Head(
            "token_classification", (Row("classifier.*", "labels.linear.*"),), {}, ("dropout",), 0.1
        ),
        "DistilBertForQuestionAnswering": Head(
            "question_answering",
            (Row("qa_outputs.*", "labels.linear.*"),),
            {},
            ("qa_dropout",),
            0.1,
        ),
    },
    keys=(
        Key("vocab_size", "vocab_size", 30522),
        Key("dim", "width", 768),
        Key("n_layers", "depth", 6),
        Key("n_heads", "heads", 12),
        Key("hidden_dim", "mlp_width", 3072),
        Key("max_position_embeddings", "max_length", 512),
        Key("activation", "activation", "gelu", ACTIVATIONS),
        Key("dropout", ("dropout.embedding", "dropout.residual"), 0.1),
        Key("attention_dropout", "dropout.attention", 0.1),
        Key("initializer_range", "init_std", 0.02),
        Key("pad_token_id", "ids.pad", 0),
        Key("tie_word_embeddings", "tied", True),
    ),
    constants={
        "family": "encoder",
        "position": "learned",
        "norm_place": "post",
        "norm_eps": 1e-12,
        "embedding_norm": True,
        "final_norm": False,
    },
    fixed={},
    inert=("embeddings.position_ids",),
)
