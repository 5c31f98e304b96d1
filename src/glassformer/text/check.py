"""Check a whole tokenizer.json before the `tokenizers` library reads it: parts, pieces, ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from glassformer.errors import CheckpointError, shown
from glassformer.text.growth import check_growth
from glassformer.text.parts import (
    ADDED,
    MAX_IDS,
    MAX_UNIGRAM,
    PADDING,
    PARTS,
    PIECE,
    TRUNCATION,
    check_fields,
    check_part,
    maybe,
    number,
    several,
    text,
    word,
)

MAX_PIECES, MAX_PIECE = 1_000_000, 1000
# Characters of all pieces of a Unigram model, and of all added tokens: each is a node of a trie,
# of 300 bytes. XLM-RoBERTa has 6 per token of its vocabulary.
FREE_NODES, NODES_PER_TOKEN = 1 << 17, 16
MAX_SCORE = 1e9
MAX_ITEMS = 64  # of a template: the texts and special tokens in it
SECTIONS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
TOP = {"version", "truncation", "padding", "added_tokens", "model", *SECTIONS}


def check_json(content: dict[str, Any], source: str, vocab_size: int) -> list[dict[str, Any]]:
    """Check the parsed content, for a model of `vocab_size`; return the parts around its model."""
    if unknown := sorted(content.keys() - TOP):
        raise CheckpointError(f"{source}: field {shown(unknown[0])} is not known: remove it")
    check_fields({"version": content.get("version")}, {"version": maybe(word("1.0"))}, source)
    for name, rules in (("truncation", TRUNCATION), ("padding", PADDING)):
        if content.get(name) is not None:
            check_fields(content[name], rules, f"{source}: {name}")
    added = content.get("added_tokens") or []
    if not isinstance(added, list):
        raise CheckpointError(f"{source}: added_tokens = {shown(added)}: write a list")
    for token in added:
        check_fields(token, ADDED, f"{source}: added_tokens")
    ids = _check_model(content.get("model"), f"{source}: model", vocab_size)
    highest = max([*ids, *(token["id"] for token in added)], default=-1)
    parts = {
        section: check_part(section, content[section], f"{source}: {section}")
        for section in SECTIONS
        if content.get(section) is not None
    }
    growth = check_growth(parts.get("normalizer", []), parts.get("pre_tokenizer", []), source)
    _check_nodes(
        sum(len(token["content"]) * (growth if token["normalized"] else 1) for token in added),
        min(vocab_size, len(ids) + len(added)),
        f"{source}: added_tokens",
    )
    for part in parts.get("post_processor", []):
        where = f"{source}: post_processor: {part['type']}"
        for name in {"sep", "cls"} & part.keys():
            check_fields({name: part[name][1]}, {name: number(highest)}, where)
        if part["type"] == "TemplateProcessing":
            _check_template(part, highest, where)
    return [part for section in parts.values() for part in section]


def _check_nodes(size: int, tokens: int, where: str) -> None:
    """Refuse texts of `size` characters in all, if they are more than so many tokens need."""
    limit = FREE_NODES + NODES_PER_TOKEN * tokens
    if size > limit:
        raise CheckpointError(
            f"{where}: {size:,} characters in all, more than the {limit:,} that {tokens:,} tokens "
            "need"
        )


def _check_model(model: Any, where: str, vocab_size: int) -> Sequence[int]:
    """Check the model; return the ids of its pieces."""
    if not isinstance(model, dict):
        raise CheckpointError(f"{where} = {shown(model)}: write one of {', '.join(PARTS['model'])}")
    if "type" not in model:  # older files have no type
        model = {"type": _model_type(model), **model}
    check_part("model", model, where)
    vocab = model["vocab"]
    if model["type"] == "Unigram":
        _check_scores(vocab, f"{where}: vocab")
        size, count = sum(len(piece) for piece, _ in vocab), min(vocab_size, len(vocab))
        _check_nodes(size, count, f"{where}: vocab")
        unknown = {"unk_id": model.get("unk_id")}
        check_fields(unknown, {"unk_id": maybe(number(len(vocab) - 1))}, where)
        return range(len(vocab))
    check_vocab(vocab, f"{where}: vocab")
    if model["type"] == "BPE":
        merges, place = model["merges"], f"{where}: merges"
        if not isinstance(merges, list):
            raise CheckpointError(f"{place} = {shown(merges)}: write a list of pairs")
        if any(isinstance(pair, str) for pair in merges):  # until 2024: "a b"
            merges = [pair.split(" ") if isinstance(pair, str) else None for pair in merges]
        prefix = model.get("continuing_subword_prefix") or ""
        check_merges(((place, pair) for pair in merges), vocab, prefix)
    return [*vocab.values()]


def _model_type(model: Mapping[str, Any]) -> str:
    """The type of a model that does not say it, by its fields."""
    if "merges" in model:
        return "BPE"
    if isinstance(model.get("vocab"), list):
        return "Unigram"
    return "WordPiece" if "max_input_chars_per_word" in model else "WordLevel"


def check_vocab(vocab: Any, where: str) -> None:
    """Each piece has an id of its own, and both are of a reasonable size."""
    if not isinstance(vocab, dict) or len(vocab) > MAX_PIECES:
        raise CheckpointError(
            f"{where}: {shown(vocab)}: write an id for each of at most {MAX_PIECES:,} pieces"
        )
    for piece, i in vocab.items():
        if type(i) is not int or not 0 <= i < MAX_IDS or len(piece) > MAX_PIECE:
            raise CheckpointError(
                f"{where}: {shown(piece)} = {shown(i)}: write a piece of at most {MAX_PIECE} "
                f"characters and an id below {MAX_IDS:,}"
            )
    pieces = {i: piece for piece, i in vocab.items()}
    for piece, i in vocab.items():
        if pieces[i] != piece:
            raise CheckpointError(
                f"{where}: {shown(piece)} = {i}, and {shown(pieces[i])} has this id, too"
            )


def _check_scores(vocab: Any, where: str) -> None:
    if not isinstance(vocab, list) or not 0 < len(vocab) <= MAX_PIECES:
        raise CheckpointError(f"{where} = {shown(vocab)}: write a list of [piece, score]")
    seen: set[str] = set()
    for item in vocab:
        fits = isinstance(item, list) and len(item) == 2 and text(0, MAX_UNIGRAM).holds(item[0])
        if not fits or type(item[1]) not in (int, float) or not abs(item[1]) < MAX_SCORE:
            raise CheckpointError(
                f"{where}: {shown(item)}: write [piece, score], at most {MAX_UNIGRAM} characters "
                f"and a number below {MAX_SCORE:,.0f}"
            )
        if item[0] in seen:
            raise CheckpointError(f"{where}: {shown(item[0])} is there twice")
        seen.add(item[0])


def check_merges(
    merges: Iterable[tuple[str, Any]], vocab: Mapping[str, int], prefix: str = ""
) -> None:
    """Each merge joins two pieces to a third, and all three are in the vocabulary."""
    for place, pair in merges:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise CheckpointError(f"{place}: {shown(pair)}: write two pieces")
        left, right = pair
        for piece in (left, right):
            if not isinstance(piece, str) or piece not in vocab:
                raise CheckpointError(
                    f"{place}: {shown(pair)}: {shown(piece)} is not in the vocabulary"
                )
        if len(right) < len(prefix) or left + right[len(prefix) :] not in vocab:
            raise CheckpointError(
                f"{place}: {shown(pair)}: the piece they join to is not in the vocabulary"
            )


def _check_template(part: Mapping[str, Any], highest: int, where: str) -> None:
    special = part["special_tokens"]
    if not isinstance(special, dict) or len(special) > MAX_ITEMS:
        raise CheckpointError(
            f"{where}: special_tokens = {shown(special)}: write at most {MAX_ITEMS} tokens"
        )
    rules = {"id": PIECE, "ids": several(number(highest)), "tokens": several(PIECE)}
    for name, token in special.items():
        check_fields(token, rules, f"{where}: special_tokens: {shown(name)}")
        if token["id"] != name or len(token["ids"]) != len(token["tokens"]):
            raise CheckpointError(
                f"{where}: special_tokens: {shown(name)}: write id = {shown(name)}, and as many "
                "ids as tokens"
            )
    kinds = {
        "SpecialToken": {"id": word(*special), "type_id": number(1)},
        "Sequence": {"id": word("A", "B"), "type_id": number(1)},
    }
    for field in ("single", "pair"):
        items = part[field]
        if not isinstance(items, list) or not 0 < len(items) <= MAX_ITEMS:
            raise CheckpointError(
                f"{where}: {field} = {shown(items)}: write a list of at most {MAX_ITEMS} items"
            )
        for item in items:
            kind = next(iter(item), None) if isinstance(item, dict) and len(item) == 1 else None
            if kind not in kinds:
                raise CheckpointError(
                    f"{where}: {field}: {shown(item)}: write a Sequence or a SpecialToken"
                )
            check_fields(item[kind], kinds[kind], f"{where}: {field}: {kind}")
        texts = [item["Sequence"]["id"] for item in items if "Sequence" in item]
        if len(set(texts)) < len(texts):
            raise CheckpointError(
                f"{where}: {field}: it has the texts {', '.join(texts)}: write each text once"
            )
        names = [item["SpecialToken"]["id"] for item in items if "SpecialToken" in item]
        if (count := sum(len(special[name]["ids"]) for name in names)) > MAX_ITEMS:
            raise CheckpointError(
                f"{where}: {field}: {count:,} special tokens: write at most {MAX_ITEMS}"
            )
