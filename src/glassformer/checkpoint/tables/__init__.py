"""Other people's names, as data."""

from glassformer.checkpoint.architecture import Architecture
from glassformer.checkpoint.tables.bert import BERT
from glassformer.checkpoint.tables.gpt2 import GPT2
from glassformer.checkpoint.tables.marian import MARIAN

ARCHITECTURES: dict[str, Architecture] = {each.model_type: each for each in (BERT, GPT2, MARIAN)}
