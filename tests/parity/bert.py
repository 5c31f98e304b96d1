"""BERT and its heads against transformers': the data of their parity tests."""

from transformers import BertConfig

from kit import Case

SIZES = {
    "vocab_size": 101,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "max_position_embeddings": 17,
    "type_vocab_size": 2,
}
CLASSES = (
    "BertForMaskedLM",
    "BertModel",
    "BertForPreTraining",
    "BertForNextSentencePrediction",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
)
CASES = [Case(name, BertConfig, SIZES) for name in CLASSES]
CONTROLS = (
    {"hidden_act": "gelu_new"},
    {"layer_norm_eps": 1e-2},
    {"num_attention_heads": 6},
)
VARIANTS = (
    Case(
        "BertForMaskedLM",
        BertConfig,
        SIZES | {"hidden_size": 132, "num_attention_heads": 11, "hidden_act": "relu"},
        width=132,
    ),
    Case("BertForPreTraining", BertConfig, SIZES | {"tie_word_embeddings": False}),
)
