"""The names of other libraries' checkpoints, as data."""

import copyreg

from glassformer.checkpoint.architecture import Architecture
from glassformer.checkpoint.tables.albert import ALBERT
from glassformer.checkpoint.tables.bart import BART
from glassformer.checkpoint.tables.bert import BERT
from glassformer.checkpoint.tables.deberta import DEBERTA_V2
from glassformer.checkpoint.tables.distilbert import DISTILBERT
from glassformer.checkpoint.tables.electra import ELECTRA
from glassformer.checkpoint.tables.gemma import GEMMA2, GEMMA3
from glassformer.checkpoint.tables.gpt2 import GPT2
from glassformer.checkpoint.tables.gpt_neox import GPT_NEOX
from glassformer.checkpoint.tables.llama import LLAMA
from glassformer.checkpoint.tables.marian import MARIAN
from glassformer.checkpoint.tables.mbart import M2M100, MBART
from glassformer.checkpoint.tables.mistral import MISTRAL
from glassformer.checkpoint.tables.modernbert import MODERNBERT
from glassformer.checkpoint.tables.mpnet import MPNET
from glassformer.checkpoint.tables.mt5 import MT5, UMT5
from glassformer.checkpoint.tables.nomic_bert import NOMIC_BERT
from glassformer.checkpoint.tables.olmo2 import OLMO2
from glassformer.checkpoint.tables.own import OWN
from glassformer.checkpoint.tables.phi3 import PHI3
from glassformer.checkpoint.tables.qwen import QWEN2, QWEN3
from glassformer.checkpoint.tables.roberta import CAMEMBERT, ROBERTA, XLM_ROBERTA
from glassformer.checkpoint.tables.smollm3 import SMOLLM3
from glassformer.checkpoint.tables.t5 import T5
from glassformer.checkpoint.tables.t5gemma import T5GEMMA

# A new model is saved as the first of these that can store it: the narrower ones come first, and
# ours, which transformers does not open, comes last.
_ALL = (
    DISTILBERT, BERT, ROBERTA, XLM_ROBERTA, CAMEMBERT, MPNET, ELECTRA, ALBERT, DEBERTA_V2,
    NOMIC_BERT, MODERNBERT, GPT2, LLAMA, MISTRAL, QWEN2, QWEN3, SMOLLM3, PHI3, OLMO2, GEMMA2,
    GEMMA3, GPT_NEOX, MARIAN, BART, MBART, M2M100, T5, MT5, UMT5, T5GEMMA, OWN,
)  # fmt: skip
ARCHITECTURES: dict[str, Architecture] = {table.model_type: table for table in _ALL}


def _of_type(model_type: str) -> Architecture:
    return ARCHITECTURES[model_type]


# A table holds functions, which cannot be pickled: a pickle has its name.
copyreg.pickle(Architecture, lambda table: (_of_type, (table.model_type,)))
