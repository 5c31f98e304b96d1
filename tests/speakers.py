"""Small hot models that read texts, each with its twin in transformers."""

from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers, processors
from torch import Tensor

import folders
import glassformer as gf

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = list("abcdefghijklmno") + [f"##{letter}" for letter in "abcdefghijklmno"]
WORDS = ["the", "cat", "sat", "on", "mat", "who", "where", "paris", "was", "##s", "##ing"]
VOCABULARY = [*SPECIAL, *LETTERS, *WORDS, ".", ",", "?", "-", "'"]
LONG = {"max_position_embeddings": 64}


def bert(name: str, folder: Path, **changes: Any) -> tuple[gf.Model, Any]:
    """A BERT of this class, with a vocabulary of letters and a few words."""
    reference = folders.reference(name, **{"vocab_size": len(VOCABULARY), **changes}).eval()
    reference.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY))
    return gf.load(folder), reference


def bytewise(name: str, folder: Path, **changes: Any) -> tuple[gf.Model, Any]:
    """A model whose tokens are bytes, with the space in front of a word in the word."""
    around = not name.startswith("GPT2")
    names = ["<s>", "<pad>", "</s>", "<mask>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", letter) for letter in "abcdefghijklmnopqrstuvwxyz"]
    vocabulary = [*names, *alphabet, *("".join(pair) for pair in merges)]
    backend = tokenizers.Tokenizer(
        models.BPE(vocab={each: i for i, each in enumerate(vocabulary)}, merges=merges)
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    if around:
        backend.post_processor = processors.RobertaProcessing(
            ("</s>", 2), ("<s>", 0), trim_offsets=False, add_prefix_space=False
        )
    backend.add_special_tokens([tokenizers.AddedToken("<mask>", lstrip=True), "<s>", "</s>"])
    sizes = {"n_positions": 64} if name.startswith("GPT2") else {"max_position_embeddings": 66}
    if name.startswith("Bart"):
        sizes |= {"eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": 2}
    sizes |= {"vocab_size": len(vocabulary), "pad_token_id": 1}
    reference = folders.reference(name, **sizes | changes).eval()
    reference.save_pretrained(folder)
    backend.save(str(folder / "tokenizer.json"))
    return gf.load(folder), reference


def said(reference: Any, model: gf.Model, text: Any) -> Any:
    """What the twin says to one text or pair of texts, alone."""
    read = model.tokenizer.encode(text)
    given = {"input_ids": torch.tensor([read.ids])}
    if getattr(reference.config, "type_vocab_size", 1) > 1:
        given["token_type_ids"] = torch.tensor([read.segments])
    with torch.no_grad():
        return reference(**given)


def close(ours: Any, theirs: Tensor, tolerance: float = 1e-5) -> None:
    found = torch.as_tensor(ours, dtype=torch.double)
    torch.testing.assert_close(found, theirs.double(), rtol=0, atol=tolerance)
