"""The book: one readable core that is BERT, GPT and the translation transformer.

Read it in this order: attention, position, norm, block, stack, families; then what they
build on: sequences, context, cache, init, kernels.

Shapes, for the whole package:
    N  tokens in the row (all texts laid end to end)      C  width of a token's vector
    B  texts                                              H  heads, G key/value heads
    T  length of the queries                              D  width of a head, Dv of its values
    S  length of the keys                                 V  vocabulary
"""

from glassformer.model.attention import (  # isort: skip
    Attention, AttentionSpec, attend, attend_in_the_open, visible,
)  # fmt: skip
from glassformer.model.block import MLP, Block
from glassformer.model.cache import Cache
from glassformer.model.context import Context, Look, Visitor
from glassformer.model.families import Backbone, Decoder, Encoder, Seq2Seq, build
from glassformer.model.norm import Norm
from glassformer.model.position import relative_bucket, rotate, rotation, sinusoid
from glassformer.model.sequences import Batch, Sequences
from glassformer.model.stack import Embedding, Stack

__all__ = [
    "MLP", "Attention", "AttentionSpec", "Backbone", "Batch", "Block", "Cache", "Context",
    "Decoder", "Embedding", "Encoder", "Look", "Norm", "Seq2Seq", "Sequences", "Stack", "Visitor",
    "attend", "attend_in_the_open", "build", "relative_bucket", "rotate", "rotation", "sinusoid",
    "visible",
]  # fmt: skip
