"""RoBERTa: BERT with one segment, positions that start at 2, and heads of its own names.

XLM-RoBERTa and CamemBERT are the same network, with classes of other names.
"""

from dataclasses import replace

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import Json, Key
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.bert import BERT, BODY, DROPOUT, POOLER, words
from glassformer.config import ModelConfig

OWN = ("max_position_embeddings", "vocab_size", "hidden_act", "pad_token_id")
POSITIONS = Key(
    "max_position_embeddings", "max_length", 512, read=lambda n: n - 2, write=lambda n: n + 2
)


def counted_from_pad(foreign: Json, config: ModelConfig) -> str | None:
    """Their positions begin at the number after this token's id, and ours at 2."""
    if config.ids.pad != 1:
        return f"pad_token_id = {config.ids.pad} is not supported: only 1 is, as positions need it"
    return None


ROBERTA = Architecture(
    model_type="roberta",
    prefix="roberta.",
    rows=BODY,
    heads={
        "RobertaModel": Head("features", (POOLER,), {"pooler": "tanh"}),
        "RobertaForMaskedLM": Head("masked_lm", words("lm_head", "dense", "layer_norm")),
        "RobertaForSequenceClassification": Head(
            "classification",
            (
                Row("classifier.dense.*", "pooler.dense.*"),
                Row("classifier.out_proj.*", "labels.linear.*"),
            ),
            {"pooler": "tanh"},
            DROPOUT,
        ),
        "RobertaForTokenClassification": Head(
            "token_classification", (Row("classifier.*", "labels.linear.*"),), dropout=DROPOUT
        ),
        "RobertaForQuestionAnswering": Head(
            "question_answering", (Row("qa_outputs.*", "labels.linear.*"),)
        ),
    },
    keys=(
        *(key for key in BERT.keys if key.theirs not in OWN),
        Key("vocab_size", "vocab_size", 50265),
        POSITIONS,
        Key("pad_token_id", "ids.pad", 1),
        Key("bos_token_id", "ids.start", 0, nullable=True),
        Key("eos_token_id", "ids.end", 2, nullable=True),
    ),
    constants={**BERT.constants, "position_offset": 2, "activation": "gelu"},
    fixed={**BERT.fixed, "hidden_act": "gelu"},
    rule=counted_from_pad,
    inert=BERT.inert,
)


def _renamed(model_type: str, name: str) -> Architecture:
    heads = {each.replace("Roberta", name, 1): head for each, head in ROBERTA.heads.items()}
    return replace(ROBERTA, model_type=model_type, heads=heads)


XLM_ROBERTA = _renamed("xlm-roberta", "XLMRoberta")
CAMEMBERT = _renamed("camembert", "Camembert")
