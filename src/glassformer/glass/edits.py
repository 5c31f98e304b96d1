"""Interventions for `edit`: another word in the text, or the activations of another text.

Activation patching, Meng et al. 2022, "Locating and editing factual associations in GPT": where one
text's vector in the place of another's changes the prediction, there it was decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from torch import Tensor, nn

from glassformer.errors import ConfigError, InputError, shown
from glassformer.glass.recorder import Edit, modules
from glassformer.glass.trace import Trace
from glassformer.model.stack import Embedding
from glassformer.text import Tokenizer

Patch = tuple[int, int, int]  # layer, token, the other text's token


def put(rows: Mapping[int, Tensor]) -> Callable[[Tensor], Tensor]:
    """For `edit`: these vectors at these tokens, in a tensor with one row per token, (T, C)."""

    def change(x: Tensor) -> Tensor:
        for token, vector in rows.items():
            if not 0 <= token < len(x):
                raise ConfigError(f"token {token}: the text has tokens 0 to {len(x) - 1}")
            if vector.shape != x.shape[1:]:
                raise ConfigError(
                    f"token {token}: a vector of shape {list(vector.shape)}: "
                    f"give {list(x.shape[1:])}"
                )
            x[token] = vector.to(x)
        return x

    return change


def swapped(model: nn.Module, stack: str, words: Mapping[int, str]) -> Edit:
    """For `edit`: replace tokens by other words; [MASK] is a word, too.

    Args:
        stack: "encoder" or "decoder"
        words: the new word for each token number; each must be one token: see `word_id`
    """
    embedding = modules(model).get(f"{stack}.embedding")
    if not isinstance(embedding, Embedding):
        raise ConfigError(f"stack {stack!r}: this model has no token embedding there")
    scale = 1.0 if embedding.scale is None else embedding.scale
    table = embedding.token.weight.detach()
    ids = {token: word_id(model, word) for token, word in words.items()}
    if max(ids.values(), default=0) >= len(table):
        raise InputError(f"token id {max(ids.values())}: this model has 0 to {len(table) - 1}")
    rows = {token: table[id] * scale for token, id in ids.items()}
    return {f"{stack}.embedding.tokens": put(rows)}


def patched(other: Trace, stack: str, places: Iterable[Patch]) -> Edit:
    """For `edit`: the outputs of these blocks at these tokens come from another trace.

    Args:
        other: the trace to copy from
        places: (layer, token, token of the other text)
    """
    rows: dict[str, dict[int, Tensor]] = {}
    for layer, token, source in places:
        name = f"{stack}.blocks.{layer}.out"
        vectors = other[name]
        if not 0 <= source < len(vectors):
            raise ConfigError(f"token {source}: the other text has tokens 0 to {len(vectors) - 1}")
        rows.setdefault(name, {})[token] = vectors[source]
    return {name: put(vectors) for name, vectors in rows.items()}


def word_id(model: nn.Module, word: str, *, target: bool = False) -> int:
    """The id of a word that is one token in the middle of a text; without a tokenizer, a number.

    Args:
        target: a word of the language that a translation model writes
    """
    tokenizer = getattr(model, "tokenizer", None)
    if target and isinstance(tokenizer, Tokenizer):
        tokenizer = tokenizer.target
    if not isinstance(tokenizer, Tokenizer):
        if not (word.isascii() and word.isdigit() and len(word) < 10):
            raise InputError("this model has no tokenizer: write a token id, such as 7")
        return int(word)
    named = tokenizer.id(word)
    encoding = tokenizer.encode(f" {word}")
    ids = [i for i, special in zip(encoding.ids, encoding.special, strict=True) if not special]
    unknown = getattr(tokenizer.backend.model, "unk_token", None)
    known = [i for i in ids if tokenizer.token(i) != unknown or word == unknown]
    if len(ids) == len(known) == 1:
        return ids[0]
    if named is not None:  # [MASK], or a piece as the vocabulary has it
        return named
    if len(known) < len(ids):
        raise InputError(f"the model does not know the word {shown(word)}: choose another")
    raise InputError(f"{shown(word)} is {len(ids)} tokens here: choose a word that is one")
