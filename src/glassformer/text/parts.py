"""What a tokenizer.json may contain: known parts with known fields, each of bounded cost.

The file is untrusted and the `tokenizers` library does not check it: a wrong number makes it panic,
a pattern can keep it busy for ever on thirty characters. Only what is known here reaches it.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from glassformer.errors import CheckpointError, shown
from glassformer.text.charsmap import wrong_with_charsmap
from glassformer.text.patterns import bounded, nearest

MAX_PARTS = 16  # of a sequence
MAX_IDS = 1 << 24
# The letters of a word in WordPiece, and of a piece in Unigram: each of them costs as many steps.
MAX_WORD, MAX_UNIGRAM = 200, 64


class PartRule(NamedTuple):
    """What the value of a field may be, and how an error message says it."""

    words: str
    holds: Callable[[Any], bool]
    needed: bool = True


def text(least: int, most: int) -> PartRule:
    words = "one character" if most == 1 else f"{least} to {most:,} characters"
    return PartRule(words, lambda v: isinstance(v, str) and least <= len(v) <= most)


def number(most: int) -> PartRule:
    words = f"a number from 0 to {most:,}" if most else "0"
    return PartRule(words, lambda v: type(v) is int and 0 <= v <= most)


def word(*words: str) -> PartRule:
    return PartRule(f"one of {', '.join(words)}", lambda v: isinstance(v, str) and v in words)


def maybe(rule: PartRule) -> PartRule:
    return PartRule(f"{rule.words}, or null", lambda v: v is None or rule.holds(v), needed=False)


def several(rule: PartRule) -> PartRule:
    return PartRule(
        f"a list, each {rule.words}",
        lambda v: isinstance(v, list) and 0 < len(v) <= 64 and all(map(rule.holds, v)),
    )


def _is_pattern(value: Any) -> bool:
    if not isinstance(value, dict) or len(value) != 1:
        return False
    return bounded(value.get("Regex")) or SHORT.holds(value.get("String"))


def _is_token(value: Any) -> bool:
    return (
        isinstance(value, list) and len(value) == 2 and PIECE.holds(value[0]) and ID.holds(value[1])
    )


def _is_strategy(value: Any) -> bool:
    fixed = isinstance(value, dict) and value.keys() == {"Fixed"} and LENGTH.holds(value["Fixed"])
    return fixed or value == "BatchLongest"


FLAG = PartRule("true or false", lambda v: type(v) is bool)
LETTER, SHORT, AFFIX, PIECE = text(1, 1), text(1, 64), text(0, 64), text(1, 1000)
ID, LENGTH = number(MAX_IDS), number(1 << 31)
PATTERN = PartRule('{"String": …}, or a {"Regex": …} that is known', _is_pattern)
TOKEN = PartRule("[token, id]", _is_token)
ANY = PartRule("a value", lambda v: v is not None)  # checked elsewhere
BEHAVIOR = word("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
SIDE = word("Left", "Right")
BYTES = {"add_prefix_space": FLAG, "trim_offsets": FLAG, "use_regex": maybe(FLAG)}
META = {
    "replacement": LETTER, "prepend_scheme": maybe(word("always", "first", "never")),
    "split": maybe(FLAG), "add_prefix_space": maybe(FLAG), "str_rep": maybe(LETTER),
}  # fmt: skip
NEVER = {"prepend_scheme": word("never")}  # the only one that add_prefix_space = false allows
REPLACE = {"pattern": PATTERN, "content": AFFIX}

Fields = Mapping[str, PartRule]
# section → type → its fields; a Sequence contains other parts of its section
PARTS: Mapping[str, Mapping[str, Fields]] = {
    "normalizer": {
        "BertNormalizer": {
            "clean_text": FLAG, "handle_chinese_chars": FLAG, "strip_accents": maybe(FLAG),
            "lowercase": FLAG,
        },
        "NFC": {}, "NFD": {}, "NFKC": {}, "NFKD": {}, "Nmt": {}, "Lowercase": {},
        "StripAccents": {}, "ByteLevel": {},
        "Strip": {"strip_left": FLAG, "strip_right": FLAG},
        "Prepend": {"prepend": SHORT},
        "Replace": REPLACE,
        "Precompiled": {"precompiled_charsmap": text(1, 2 << 20)},
        "Sequence": {"normalizers": ANY},
    },
    "pre_tokenizer": {
        "BertPreTokenizer": {}, "Whitespace": {}, "WhitespaceSplit": {}, "UnicodeScripts": {},
        "ByteLevel": BYTES,
        "Metaspace": META,
        "CharDelimiterSplit": {"delimiter": LETTER},
        "Punctuation": {"behavior": maybe(BEHAVIOR)},
        "Digits": {"individual_digits": FLAG},
        "Split": {"pattern": PATTERN, "behavior": BEHAVIOR, "invert": FLAG},
        "Sequence": {"pretokenizers": ANY},
    },
    "post_processor": {
        "BertProcessing": {"sep": TOKEN, "cls": TOKEN},
        "RobertaProcessing": {
            "sep": TOKEN, "cls": TOKEN, "trim_offsets": FLAG, "add_prefix_space": FLAG,
        },
        "ByteLevel": BYTES,
        "TemplateProcessing": {"single": ANY, "pair": ANY, "special_tokens": ANY},
        "Sequence": {"processors": ANY},
    },
    "decoder": {
        "ByteLevel": BYTES,
        "WordPiece": {"prefix": AFFIX, "cleanup": FLAG},
        "Metaspace": META,
        "BPEDecoder": {"suffix": AFFIX},
        "CTC": {"pad_token": SHORT, "word_delimiter_token": SHORT, "cleanup": FLAG},
        "Fuse": {}, "ByteFallback": {},
        "Strip": {"content": LETTER, "start": number(64), "stop": number(0)},  # or it panics
        "Replace": REPLACE,
        "Sequence": {"decoders": ANY},
    },
    "model": {
        "BPE": {
            "vocab": ANY, "merges": ANY,
            "dropout": maybe(PartRule("0, so that ids are reproducible", lambda v: v == 0)),
            "unk_token": maybe(AFFIX), "continuing_subword_prefix": maybe(AFFIX),
            "end_of_word_suffix": maybe(AFFIX), "fuse_unk": maybe(FLAG),
            "byte_fallback": maybe(FLAG), "ignore_merges": maybe(FLAG),
        },
        "WordPiece": {
            "vocab": ANY, "unk_token": SHORT, "continuing_subword_prefix": AFFIX,
            "max_input_chars_per_word": number(MAX_WORD),
        },
        "WordLevel": {"vocab": ANY, "unk_token": SHORT},
        "Unigram": {"vocab": ANY, "unk_id": maybe(ID), "byte_fallback": maybe(FLAG)},
    },
}  # fmt: skip
INNER = {"normalizers", "pretokenizers", "processors", "decoders"}
OFTEN = {"Replace", "Split", "Digits", "Punctuation", "Strip"}  # the others only once in a sequence
ADDED: Fields = {
    "id": ID, "content": PIECE, "single_word": FLAG, "lstrip": FLAG, "rstrip": FLAG,
    "normalized": FLAG, "special": FLAG,
}  # fmt: skip
TRUNCATION: Fields = {
    "direction": maybe(SIDE), "max_length": LENGTH, "stride": LENGTH,
    "strategy": word("LongestFirst", "OnlyFirst", "OnlySecond"),
}  # fmt: skip
PADDING: Fields = {
    "strategy": PartRule('BatchLongest, or {"Fixed": …}', _is_strategy), "direction": SIDE,
    "pad_to_multiple_of": maybe(LENGTH), "pad_id": ID, "pad_type_id": ID, "pad_token": AFFIX,
}  # fmt: skip


def check_part(section: str, part: Any, where: str) -> list[dict[str, Any]]:
    """Check a part of a section; return the parts in it that are not sequences."""
    kinds = PARTS[section]
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise CheckpointError(f"{where}: type = {shown(kind)} is not known{_near(kind, kinds)}")
    where = f"{where}: {kind}"
    check_fields({k: v for k, v in part.items() if k != "type"}, kinds[kind], where)
    inner = next(iter(INNER & part.keys()), None)
    if inner is None:
        _check_values(kind, part, where)
        return [part]
    if not isinstance(part[inner], list) or not part[inner]:
        raise CheckpointError(f"{where}: {inner} = {shown(part[inner])}: write a list of parts")
    if where.count("Sequence") > 2 or len(part[inner]) > MAX_PARTS:
        raise CheckpointError(f"{where}: {inner} has too many parts: write at most {MAX_PARTS}")
    parts = [leaf for child in part[inner] for leaf in check_part(section, child, where)]
    counts = Counter(leaf["type"] for leaf in parts if leaf["type"] not in OFTEN)
    for name, count in counts.items():
        if count > 1:
            raise CheckpointError(f"{where}: {name} is there {count} times: write it once")
    return parts


def check_fields(content: Any, rules: Fields, where: str) -> None:
    """`content` is an object whose fields follow the `rules`."""
    if not isinstance(content, dict):
        raise CheckpointError(f"{where}: {shown(content)}: write an object, {{…}}")
    for name, value in content.items():
        if name not in rules:
            raise CheckpointError(f"{where}: field {shown(name)} is not known{_near(name, rules)}")
        if not rules[name].holds(value):
            near = ""
            if isinstance(value, dict) and isinstance(value.get("Regex"), str):
                near = f" (the most similar one is {nearest(value['Regex'])})"
            raise CheckpointError(
                f"{where}: {name} = {shown(value)}: write {rules[name].words}{near}"
            )
    for name, rule in rules.items():
        if rule.needed and name not in content:
            raise CheckpointError(f"{where}: field {name!r} is missing: write {rule.words}")


def _check_values(kind: str, part: Mapping[str, Any], where: str) -> None:
    if kind == "Replace":
        longest = len(part["pattern"].get("String", " "))
        if len(part["content"]) > longest:  # thirty such parts in a row would fill the memory
            raise CheckpointError(
                f"{where}: content = {shown(part['content'])}: write at most {longest} characters, "
                "no more than it replaces"
            )
    if kind == "Metaspace" and part.get("add_prefix_space") is False:
        check_fields({"prepend_scheme": part.get("prepend_scheme")}, NEVER, where)
    if kind == "Precompiled" and (why := wrong_with_charsmap(part["precompiled_charsmap"])):
        raise CheckpointError(f"{where}: precompiled_charsmap: {why}")


def _near(name: object, names: Iterable[str]) -> str:
    """The end of an error message: the known name that is nearest, or all of them."""
    close = difflib.get_close_matches(str(name)[:40], names, n=1)
    return f": did you mean {close[0]!r}?" if close else f": write one of {', '.join(names)}"
