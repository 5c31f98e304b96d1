"""Classes of spoilt tokenizers: their parts, pieces and files; and what stands beside them."""

import base64
import json
from itertools import product
from typing import Any

from gate.damage import Case, Table, content, inside
from gate.wholes import (
    BERT,
    BYTES,
    CHARSMAP,
    GPT2,
    MARIAN,
    META,
    PIECES,
    SPLIT,
    UNIGRAM,
    added,
    part,
    template,
)

JSON, SETTINGS = "tokenizer.json", "tokenizer_config.json"


def text(data: Any, *words: str) -> Case:
    return content(JSON, data, *words)


WRONG = {"a text": "evil", "a number": 7, "a list": [1], "true": True}
STRUCTURE: Table = {
    f"{name} is {kind}": inside(name, **{name: value})
    for name, (kind, value) in product(
        ("normalizer", "pre_tokenizer", "post_processor", "decoder", "model", "truncation",
         "padding"), WRONG.items(),
    )
} | {
    "empty": text("", "line 1"),
    "an empty object": text({}, "model"),
    "a list": text([], "list"),
    "broken": text('{"model": ', "line 1"),
    "no UTF-8": text(b'{"\xff": 1}', "UTF-8"),
    "a byte order mark": text("\ufeff{}", "byte order mark"),
    "a key twice": text('{"model": 1, "model": 2}', "'model'", "twice"),
    "NaN": text('{"model": NaN}', "'model'", "NaN"),
    "too deep": text('{"model": ' + "[" * 99 + "]" * 99 + "}", "64 levels"),
    "half a letter": text('{"model": "\\ud800"}', "half a character"),
    "unknown field": inside("'post_processors'", post_processors=[]),
    "code": inside("'auto_map'", auto_map={"AutoTokenizer": "evil.Evil"}),
    "another version": inside("version", "'2.0'", version="2.0"),
    "a version in numbers": inside("version", version=1.0),
    "no model": inside("model", model=None),
    "added tokens are an object": inside("added_tokens", added_tokens={"a": 1}),
    "added tokens are texts": inside("added_tokens", "'a'", added_tokens=["a"]),
    "truncation to a text": inside("truncation", "max_length", truncation={
        "direction": "Right", "max_length": "8", "strategy": "LongestFirst", "stride": 0}),
    "truncation by nobody": inside("truncation", "strategy", truncation={
        "direction": "Right", "max_length": 8, "strategy": "Evil", "stride": 0}),
    "truncation to 2^64": inside("truncation", "max_length", truncation={
        "direction": "Right", "max_length": 1 << 64, "strategy": "LongestFirst", "stride": 0}),
    "padding to -1": inside("padding", "strategy", padding={
        "strategy": {"Fixed": -1}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
        "pad_type_id": 0, "pad_token": ""}),
}  # fmt: skip


def pattern(regex: str, kind: str = "Regex") -> Case:
    split = SPLIT | {"pattern": {kind: regex}}
    return inside("pre_tokenizer", "Split", "pattern", pre_tokenizer=split)


EVIL_PATTERNS = (
    "(a+)+b", "(a|a)*b", "(.*)*x", "(a|aa)+$", r"(\w+\s?)*$", "(?:a+)+", "a*a*a*a*b", r"\s+$",
    "^(([a-z])+.)+[A-Z]([a-z])+$", "(x+x+)+y", r"(.)\1", "(?=a+)", "(?<!a)b", "(?R)", ".*", "a*?",
    "a{0,}", "[a-z&&[^b]]", "(?i)a", "[", "(", "a{99999}", "", "a" * 500,
)  # fmt: skip


def charsmap(data: bytes | str | None, *words: str) -> Case:
    written = base64.b64encode(data).decode() if isinstance(data, bytes) else data
    one = part("Precompiled", precompiled_charsmap=written)
    return inside("normalizer", "precompiled_charsmap", *words, base=MARIAN, normalizer=one)


def replace(found: str, by: str) -> Case:
    one = part("Replace", pattern={"String": found}, content=by)
    return inside("normalizer", "Replace", normalizer=one)


TRIE, LENGTH = bytes(1024), (1024).to_bytes(4, "little")
COMPONENTS: Table = {
    f"{section} of type {name!r}": inside(section, "type", repr(name), **{section: part(name)})
    for section, name in (
        ("normalizer", "Evil"), ("normalizer", "Bertnormalizer"), ("normalizer", "Lua"),
        ("pre_tokenizer", "Python"), ("pre_tokenizer", "FixedLength"),
        ("post_processor", "Jinja"), ("decoder", "Custom"), ("decoder", "__import__"),
        ("model", "Evil"), ("model", "bpe"),
    )
} | {f"pattern {regex[:30]!r}": pattern(regex) for regex in EVIL_PATTERNS} | {
    "a pattern of a text too long": pattern("a" * 65, "String"),
    "a pattern of nothing": pattern("", "String"),
    "a pattern of another kind": pattern("a", "Lua"),
    "a pattern of two": inside("Split", "pattern", pre_tokenizer=SPLIT | {
        "pattern": {"Regex": "a", "String": "a"}}),
    "a pattern in the normalizer": inside("Replace", "pattern", normalizer=part(
        "Replace", pattern={"Regex": "(a+)+b"}, content="")),
    "a pattern in the decoder": inside("Replace", "pattern", decoder=part(
        "Replace", pattern={"Regex": "(a+)+b"}, content="")),
    "one letter becomes two": replace("a", "aa"),
    "a space becomes a megabyte": replace(" ", "x" * 10**6),
    "nothing becomes something": replace("", "x"),
    "a prefix of a megabyte": inside("Prepend", normalizer=part("Prepend", prepend="x" * 10**6)),
    "an unknown field": inside("BertPreTokenizer", "'lua'", pre_tokenizer=part(
        "BertPreTokenizer", lua="os.exit()")),
    "a missing field": inside("Digits", "'individual_digits'", pre_tokenizer=part("Digits")),
    "a flag as text": inside("Digits", "individual_digits", pre_tokenizer=part(
        "Digits", individual_digits="yes")),
    "a delimiter of two": inside("CharDelimiterSplit", "delimiter", pre_tokenizer=part(
        "CharDelimiterSplit", delimiter="ab")),
    "no replacement": inside("Metaspace", "replacement", pre_tokenizer=META | {"replacement": ""}),
    "an unknown behaviour": inside("Split", "behavior", pre_tokenizer=SPLIT | {"behavior": "Evil"}),
    "an empty sequence": inside("pretokenizers", pre_tokenizer=part("Sequence", pretokenizers=[])),
    "a sequence of texts": inside("type", pre_tokenizer=part("Sequence", pretokenizers=["a"])),
    "a sequence of 17": inside("Sequence", "at most 16", pre_tokenizer=part(
        "Sequence", pretokenizers=[SPLIT] * 17)),
    "bytes of bytes": inside("ByteLevel", "2 times", pre_tokenizer=part(
        "Sequence", pretokenizers=[BYTES] * 2)),
    "words of 10^9 letters": inside(
        "max_input_chars_per_word", model__max_input_chars_per_word=10**9),
    "pieces left out at random": inside("dropout", base=GPT2, model__dropout=0.5),
    "a strip of 10^9": inside("Strip", "start", decoder=part(
        "Strip", content="a", start=10**9, stop=0)),
    "a strip at the end": inside("Strip", "stop", decoder=part(
        "Strip", content="a", start=0, stop=1)),
    "a space before, and none": inside("Metaspace", "prepend_scheme", decoder=META | {
        "add_prefix_space": False}),
    "no map": charsmap(None),
    "an empty map": charsmap(""),
    "a map that is no base64": charsmap("%%%%", "base64"),
    "a map of three bytes": charsmap(b"abc"),
    "a trie of 4 GB": charsmap(b"\xff\xff\xff\xff" + TRIE, "4,294,967,295"),
    "no trie": charsmap(bytes(4)),
    "half a block": charsmap((512).to_bytes(4, "little") + TRIE[:512] + b"\0", "trie"),
    "texts that do not end": charsmap(LENGTH + TRIE + b"abc"),
    "texts that are none": charsmap(LENGTH + TRIE + b"\xff\0", "UTF-8"),
    "a text of a megabyte": charsmap(LENGTH + TRIE + b"a" * 10**6 + b"\0", "longer"),
    "a unit that points away": charsmap(LENGTH + b"\xff\xff\xff\x7f" * 256 + b"\0", "unit 0"),
    "a unit that points past the texts": charsmap(LENGTH + b"\xff\0\0\x80" * 256 + b"\0", "unit 0"),
    "a map with escapes": content(
        JSON, json.dumps({"model": UNIGRAM, "normalizer": part(
            "Precompiled", precompiled_charsmap=CHARSMAP)}).replace("AAAA", "\\u0041AAA", 1),
        "precompiled_charsmap", base=MARIAN),
}  # fmt: skip


def deep(levels: int) -> dict[str, Any]:
    return SPLIT if not levels else part("Sequence", pretokenizers=[deep(levels - 1)])


COMPONENTS["sequences of sequences"] = inside("Sequence", pre_tokenizer=deep(9))

BAD_IDS = {"a text": "7", "a fraction": 1.5, "true": True, "null": None, "below zero": -1,
           "2^32": 1 << 32, "2^64": 1 << 64, "a list": [1]}  # fmt: skip


def special(**changes: Any) -> Case:
    one = {"id": "</s>", "ids": [0], "tokens": ["</s>"]} | changes
    found = template() | {"special_tokens": {"</s>": one}}
    return inside("TemplateProcessing", "special_tokens", base=MARIAN, post_processor=found)


def item(*items: Any) -> Case:
    found = template() | {"single": list(items)}
    return inside("TemplateProcessing", "single", base=MARIAN, post_processor=found)


def unigram(*vocab: Any, unk_id: Any = 0, word: str = "vocab") -> Case:
    model = part("Unigram", unk_id=unk_id, vocab=list(vocab), byte_fallback=False)
    return inside("model", word, base=MARIAN, model=model)


def merges(*pairs: Any, **changes: Any) -> Case:
    changes = {f"model__{k}": v for k, v in changes.items()}
    return inside("merges", base=GPT2, model__merges=list(pairs), **changes)


SEQUENCE = {"Sequence": {"id": "A", "type_id": 0}}
ENTRIES: Table = {
    f"the id of a piece is {name}": inside(
        "vocab", "'the'", model__vocab={"[UNK]": 0, "the": value})
    for name, value in BAD_IDS.items()
} | {
    f"the id of an added token is {name}": inside("added_tokens", "id", added_tokens=[
        added(value, "<x>")])
    for name, value in BAD_IDS.items()
} | {
    "an id twice": inside("vocab", "'b'", "'a'", model__vocab={"[UNK]": 0, "a": 1, "b": 1}),
    "an added token of an id with a gap": inside("added_tokens", "'<x>'", "51", added_tokens=[
        added(51, "<x>")]),
    "an added token of another's id": inside("added_tokens", "'<x>'", added_tokens=[
        added(1, "<x>")]),
    "an added token of nothing": inside("added_tokens", "content", added_tokens=[added(0, "")]),
    "an added token that is stripped to nothing": inside(
        "added_tokens", "' '", added_tokens=[added(46, " ", normalized=True)],
        normalizer=part("Strip", strip_left=True, strip_right=True)),
    "an added token too long": inside("added_tokens", "content", added_tokens=[
        added(53, "x" * 1001)]),
    "an added token with code": inside("added_tokens", "'eval'", added_tokens=[
        added(53, "x", eval="1")]),
    "pieces as a list": inside("vocab", model__vocab=["a", "b"]),
    "pieces as a path": inside("vocab", "'/etc/passwd'", model__vocab="/etc/passwd"),
    "a piece too long": inside("vocab", model__vocab={"[UNK]": 0, "x" * 1001: 1}),
    "an id beyond the model": Case(
        BERT, inside(model__vocab={"[UNK]": 53}, added_tokens=[], post_processor=None).damage,
        ("53", "vocab_size"),
    ),
    "merges as a text": inside("merges", base=GPT2, model__merges="a b"),
    "merges as an object": inside("merges", base=GPT2, model__merges={"a": "b"}),
    "a merge of three": merges(["a", "b", "c"]),
    "a merge of three in a text": merges("a b c"),
    "a merge of one": merges("a"),
    "a merge of numbers": merges([1, 2]),
    "a merge of lists": merges([["a"], ["b"]]),
    "a merge of what is not there": merges(["a", "é"]),
    "a merge to what is not there": merges(["x", "y"]),
    "merges of both kinds": merges("t h", ["a", "t"]),
    "a prefix longer than its pieces": merges(["t", "h"], continuing_subword_prefix="####"),
    "no pieces": unigram(),
    "a piece without a score": unigram(["a"]),
    "a piece with two scores": unigram(["a", 1, 2]),
    "a score in words": unigram(["a", "0.5"]),
    "a score of null": unigram(["a", None]),
    "a score of 1e300": unigram(["a", 1e300]),
    "a piece that is a number": unigram([1, 0.5]),
    "pieces as an object": inside("vocab", base=MARIAN, model__vocab={"a": 1}),
    "a piece twice": unigram(["a", 0.5], ["a", 0.25]),
    "unknown beyond the pieces": unigram(["a", 0.5], unk_id=1, word="unk_id"),
    "unknown below zero": unigram(["a", 0.5], unk_id=-1, word="unk_id"),
    "unknown as a text": unigram(["a", 0.5], unk_id="a", word="unk_id"),
    "a separator beyond": inside("BertProcessing", "sep", post_processor=part(
        "BertProcessing", sep=["[SEP]", 99], cls=["[CLS]", 2])),
    "a separator without an id": inside("BertProcessing", "sep", post_processor=part(
        "BertProcessing", sep="[SEP]", cls=["[CLS]", 2])),
    "a special token beyond": special(ids=[29]),
    "a special token of two ids": special(ids=[0, 1]),
    "a special token of no ids": special(ids=[], tokens=[]),
    "a special token of a name": special(id="<s>"),
    "a special token of texts": special(ids=["0"]),
    "a template of nothing": item(),
    "a template of texts": item("$A"),
    "a template of an unknown token": item({"SpecialToken": {"id": "<s>", "type_id": 0}}),
    "a template of a third text": item({"Sequence": {"id": "C", "type_id": 0}}),
    "a template of kind 2": item({"Sequence": {"id": "A", "type_id": 2}}),
    "a template of 65": item(*[SEQUENCE] * 65),
    "a template of two in one": item(SEQUENCE | {"SpecialToken": {"id": "</s>", "type_id": 0}}),
}  # fmt: skip


def beside(name: str, data: Any, *words: str, **others: Any) -> Case:
    """A file of a folder that has no tokenizer.json."""
    case = content(name, data, *words)

    def change(folder: Any) -> None:
        (folder / JSON).unlink()
        for other, written in others.items():
            content(other.replace("_", "."), written).damage(folder)
        case.damage(folder)

    return Case(BERT, change, case.words)


def lines(*pieces: str) -> str:
    return "\n".join(pieces)


GOOD = lines(*PIECES)
LETTERS = {"a": 0, "b": 1, "ab": 2}


def bpe(vocab: Any = None, merge: Any = "a b", *words: str) -> Case:
    name = "vocab.json" if vocab is not None else "merges.txt"
    others = {"merges_txt": merge} if vocab is not None else {"vocab_json": LETTERS}
    return beside(name, merge if vocab is None else vocab, *words, **others)


VOCABULARIES: Table = {
    "no words": beside("vocab.txt", "", "[UNK]"),
    "no UTF-8": beside("vocab.txt", b"[UNK]\n\xff", "UTF-8"),
    "UTF-16": beside("vocab.txt", GOOD.encode("utf-16"), "UTF-8"),
    "a byte order mark": beside("vocab.txt", "\ufeff" + GOOD, "byte order mark"),
    "no [CLS]": beside("vocab.txt", lines("[UNK]", "[SEP]"), "[CLS]"),
    "no [SEP]": beside("vocab.txt", lines("[UNK]", "[CLS]"), "[SEP]"),
    "no [UNK]": beside("vocab.txt", lines("[CLS]", "[SEP]"), "[UNK]"),
    "a piece twice": beside("vocab.txt", lines(*PIECES, "cat"), "line 47", "'cat'", "line 7"),
    "a piece twice, far apart": beside("vocab.txt", lines(*PIECES, "[PAD]"), "line 47", "'[PAD]'"),
    "a line too long": beside("vocab.txt", lines(*PIECES, "x" * 2001), "line 47", "2,001"),
    "a million lines": beside("vocab.txt", "\n" * 10**6, "50,848 lines"),
    "too many words": Case(
        BERT, beside("vocab.txt", lines(*PIECES, *map(str, range(3, 11)))).damage,
        ("53", "vocab_size")),
    "a pickle": beside("vocab.txt", b"\x80\x04cos\nsystem\n.", "UTF-8"),
    "vocab.json is open": bpe("{", "", "line 1"),
    "vocab.json is a list": bpe([], "", "list"),
    "vocab.json is a path": bpe('"/etc/passwd"', "", "str"),
    "vocab.json has a piece twice": bpe('{"a": 0, "a": 1}', "", "'a'", "twice"),
    "vocab.json has NaN": bpe('{"a": NaN}', "", "'a'", "NaN"),
    **{f"an id of vocab.json is {name}": bpe({"a": value}, "", "'a'")
       for name, value in BAD_IDS.items()},
    "an id twice in vocab.json": bpe({"a": 1, "b": 1}, "", "'b'", "'a'"),
    "merges.txt is no UTF-8": bpe(None, b"\xff", "UTF-8"),
    "merges.txt has a mark": bpe(None, "\ufeffa b", "byte order mark"),
    "merges.txt has one piece": bpe(None, "#version: 0.2\na", "line 2"),
    "merges.txt has three": bpe(None, "a b ab", "line 1"),
    "merges.txt has an unknown piece": bpe(None, "a b\na z", "line 2", "'z'"),
    "merges.txt joins to nothing": bpe(None, "a b\nb a", "line 2"),
    "merges.txt has tabs": bpe(None, "a\tb", "line 1"),
    "merges.txt has a line too long": bpe(None, "a b\n" + "a" * 3000, "line 2"),
    "settings are a list": beside(SETTINGS, [], "list", vocab_txt=GOOD),
    "settings are open": beside(SETTINGS, "{", "line 1", vocab_txt=GOOD),
    **{f"{name} is {kind}": beside(SETTINGS, {name: value}, name, vocab_txt=GOOD)
       for name in ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
       for kind, value in (("a text", "false"), ("a number", 1))},
}  # fmt: skip

POOLING, MODULES, SENTENCE = "1_Pooling/config.json", "modules.json", "sentence_bert_config.json"
PROMPTS = "config_sentence_transformers.json"


def modules(*rows: tuple[str, str]) -> list[dict[str, str]]:
    return [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in rows]


SENTENCES: Table = {
    f"{name.split('/')[0]} {how}": content(name, data, *words)
    for name, (how, (data, words)) in product((POOLING, MODULES, SENTENCE), {
        "is open": ("{", ("line 1",)),
        "is no UTF-8": (b"\xff", ("UTF-8",)),
        "has a mark": ("\ufeff{}", ("byte order mark",)),
        "has NaN": ('[{"a": NaN}]', ("'a'", "NaN")),
        "has a key twice": ('[{"a": 1, "a": 1}]', ("'a'", "twice")),
        "is a number": ("7", ("int",)),
        "is too deep": ("[" * 99, ("64 levels",)),
    }.items())
} | {
    "modules are an object": content(MODULES, {"a": 1}, "dict"),
    "modules are numbers": content(MODULES, [1], "''"),
    "a module of somebody": content(MODULES, [{"type": "evil.Module"}], "'evil.Module'"),
    "a module that runs": content(MODULES, [{"type": "os.system", "path": "id"}], "'os.system'"),
    "a module of a megabyte": content(MODULES, [{"type": "x" * 10**6}], "xxx"),
    "pooling is a list": content(POOLING, [], "list"),
    "an unknown pooling": content(POOLING, {"pooling_mode_min_tokens": True}, "min_tokens"),
    "a named pooling": content(POOLING, {"pooling_mode": "evil"}, "evil"),
    "two poolings": content(POOLING, {"pooling_mode": ["cls", "evil"]}, "'evil'"),
    "no pooling": content(POOLING, {"pooling_mode": []}, "[]"),
    **{f"{name} = {value!r}": content(where, {name: value}, name)
       for where, name in ((POOLING, "include_prompt"), (SENTENCE, "do_lower_case"))
       for value in ("false", 1, None)},
    **{f"{name} = {value!r}": content(PROMPTS, {name: value}, name)
       for name, value in (("prompts", ["query: "]), ("prompts", {"query": 1}),
                           ("default_prompt_name", "query"), ("default_prompt_name", 7))},
    **{f"modules {paths}": content(MODULES, modules(*paths), where) for where, *paths in (
        ("Transformer", ("Transformer", "0_Transformer")), ("'..'", ("Pooling", "..")),
        ("'/tmp'", ("Dense", "/tmp")), ("two modules", ("Dense", "1_Dense"), ("Dense", "1_Dense")),
        ("Pooling", ("Dense", "1_Dense"), ("Pooling", "2_Pooling")),
    )},
    **{f"a length of {value!r}": content(SENTENCE, {"max_seq_length": value}, "max_seq_length")
       for value in ("256", 0, -1, 1.5, True, [256])},
}  # fmt: skip

CLASSES = {
    "tokenizer.json": STRUCTURE,
    "tokenizer parts": COMPONENTS,
    "tokenizer pieces and ids": ENTRIES,
    "vocabulary files": VOCABULARIES,
    "sentence-transformers files": SENTENCES,
}
