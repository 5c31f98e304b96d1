"""BART against transformers': the data of its parity tests."""

from transformers import BartConfig

from kit import Case

SIZES = {
    "vocab_size": 101,
    "d_model": 24,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 37,
    "decoder_ffn_dim": 37,
    "max_position_embeddings": 17,
    "pad_token_id": 0,
}
CLASSES = (
    "BartForConditionalGeneration",
    "BartModel",
)
LABELLING = (
    "BartForSequenceClassification",
    "BartForQuestionAnswering",
)
CASES = [Case(name, BartConfig, SIZES) for name in CLASSES]
CASES += [Case(name, BartConfig, SIZES, end=2) for name in LABELLING]
CONTROLS = (
    {"scale_embedding": True},
    {"activation_function": "relu"},
)
UNEQUAL = {"decoder_attention_heads": 4, "decoder_ffn_dim": 41}
VARIANTS = (
    Case("BartForConditionalGeneration", BartConfig, SIZES | {"scale_embedding": True}),
    Case("BartForConditionalGeneration", BartConfig, SIZES | UNEQUAL),
    Case("BartForSequenceClassification", BartConfig, SIZES | UNEQUAL, end=2),
)
