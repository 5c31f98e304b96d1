"""DeBERTa-v2 and v3 against transformers': the data of their parity tests."""

from transformers import DebertaV2Config

from kit import Case

SIZES = {
    "vocab_size": 101,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "max_position_embeddings": 17,
    "type_vocab_size": 0,
    "position_biased_input": False,
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_buckets": 6,
}
CLASSES = (
    "DebertaV2ForMaskedLM",
    "DebertaV2Model",
    "DebertaV2ForSequenceClassification",
    "DebertaV2ForTokenClassification",
    "DebertaV2ForQuestionAnswering",
)
V2 = SIZES | {"position_biased_input": True, "type_vocab_size": 2, "position_buckets": 8}


def case(name: str, sizes: dict[str, object]) -> Case:
    return Case(name, DebertaV2Config, sizes, double=2e-5, attention="eager")


CASES = [case(name, SIZES) for name in CLASSES]
CONTROLS = (
    {"layer_norm_eps": 1e-2},
    {"max_relative_positions": 9},
    {"num_attention_heads": 6},
)
VARIANTS = (
    case("DebertaV2ForMaskedLM", V2),
    case("DebertaV2Model", V2 | {"max_relative_positions": 10}),
    case("DebertaV2ForMaskedLM", SIZES | {"tie_word_embeddings": False}),
)
