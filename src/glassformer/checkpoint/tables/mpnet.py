"""MPNet: RoBERTa without segments, with a learned number for each distance in its scores."""

from dataclasses import replace

from glassformer.checkpoint.architecture import Architecture, Head
from glassformer.checkpoint.keys import Key
from glassformer.checkpoint.rows import Row
from glassformer.checkpoint.tables.bert import BODY
from glassformer.checkpoint.tables.roberta import ROBERTA

THEIRS, OURS = "encoder.layer.{}.attention.", "backbone.encoder.blocks.{}."
PARTS = {"q": "query", "k": "key", "v": "value", "o": "output"}
OTHERS = ("type_vocab_size", "vocab_size")


def own(head: Head) -> Head:
    """The same head; its dropout is that of the layers."""
    return replace(head, dropout=("hidden_dropout_prob",), default_dropout=0.1)


MPNET = Architecture(
    model_type="mpnet",
    prefix="mpnet.",
    rows=(
        *(row for row in BODY if not row.theirs.startswith((THEIRS, "embeddings.token_type"))),
        *(
            Row(f"{THEIRS}attn.{part}.*", f"{OURS}attention.{name}.*")
            for part, name in PARTS.items()
        ),
        Row(THEIRS + "LayerNorm.*", OURS + "attention_norm.*"),
        Row("encoder.relative_attention_bias.weight", "backbone.encoder.relative.table.weight"),
    ),
    heads={
        name.replace("Roberta", "MPNet", 1): own(head) if head.dropout else head
        for name, head in ROBERTA.heads.items()
    },
    keys=(
        *(key for key in ROBERTA.keys if key.theirs not in OTHERS),
        Key("vocab_size", "vocab_size", 30527),
    ),
    constants={
        **ROBERTA.constants,
        "relative": "bias",
        "relative_buckets": 32,
        "relative_distance": 128,
    },
    fixed={"hidden_act": "gelu", "relative_attention_num_buckets": 32},
    rule=ROBERTA.rule,
    inert=("embeddings.position_ids",),
)
