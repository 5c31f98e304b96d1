"""Measures of attention weights: small formulas, each with its paper.

All take weights of shape (…, T, S): one head's, a layer's (H, T, S), or a stack's (L, H, T, S).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.errors import InputError

SEPARATORS = frozenset(("[SEP]", "</s>", "<sep>", "<eos>", "<|endoftext|>", *".,;:!?"))
SPACES = "▁Ġ "  # how tokenizers write the space in front of a word


def rollout(weights: Tensor) -> Tensor:  # (L, H, T, T) → (L, T, T)
    """How much of each token's vector came from each token of the text, after each layer.

    Ã = (mean over heads of A + I) / 2, the half that stays for the residual;  R_l = Ã_l R_(l−1).
    Abnar and Zuidema 2020, "Quantifying attention flow in transformers".
    """
    if weights.dim() != 4 or weights.shape[-1] != weights.shape[-2]:
        raise InputError(
            f"rollout of weights {list(weights.shape)}: give the self-attention of one stack, "
            "(L, H, T, T)"
        )
    own = torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    layers = [own]
    for layer in (weights.mean(1) + own) / 2:
        layers.append(layer @ layers[-1])
    return torch.stack(layers[1:])


def entropy(weights: Tensor) -> Tensor:  # (…, T, S) → (…)
    """How widely a head attends, in nats: 0 if to one token, ln S if to all tokens alike.

    −Σ_j a_ij ln a_ij, the mean over queries. Clark et al. 2019, "What does BERT look at?".
    """
    terms: Tensor = torch.special.entr(weights)
    return terms.sum(-1).mean(-1)


def sink_share(weights: Tensor, columns: Sequence[int] = (0,)) -> Tensor:  # (…, T, S) → (…)
    """The share of all attention that goes to the keys `columns`: the first one, if not given.

    Xiao et al. 2023, "Efficient streaming language models with attention sinks"; for separators
    (see `separators`) Clark et al. 2019.
    """
    return weights[..., list(columns)].sum(-1).mean(-1)


def separators(tokens: Sequence[str]) -> list[int]:
    """The numbers of separator tokens: [SEP] and the like, and punctuation."""
    return [i for i, token in enumerate(tokens) if token.strip(SPACES) in SEPARATORS]


def distance(weights: Tensor) -> Tensor:  # (…, T, S) → (…)
    """How many tokens away a head attends: Σ_j a_ij |i − j|, the mean over queries.

    Vig and Belinkov 2019, "Analyzing the structure of attention in a transformer language model".
    """
    T, S = weights.shape[-2:]
    row = torch.arange(T, device=weights.device)[:, None]
    apart = (row - torch.arange(S, device=weights.device)).abs()
    return (weights * apart).sum(-1).mean(-1)
