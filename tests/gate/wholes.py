"""Good folders to damage: one of each architecture, small, with a tokenizer, by ourselves."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import folders
import glassformer as gf
from glassformer import build_task

BERT, CLASSIFY, GPT2, MARIAN, LLAMA, MODERN = (
    "BertForMaskedLM", "BertForSequenceClassification", "GPT2LMHeadModel", "MarianMTModel",
    "LlamaForCausalLM", "ModernBertForMaskedLM",
)  # fmt: skip
ROBERTA = "RobertaForMaskedLM"
MPNET, NOMIC, ALBERT = "MPNetForMaskedLM", "NomicBertForMaskedLM", "AlbertForPreTraining"
DEBERTA = "DebertaV2ForSequenceClassification"
NEOX, MISTRAL, GEMMA3, SMOL, PHI3 = (
    "GPTNeoXForCausalLM", "MistralForCausalLM", "Gemma3ForCausalLM", "SmolLM3ForCausalLM",
    "Phi3ForCausalLM",
)  # fmt: skip
M2M100, T5GEMMA = "M2M100ForConditionalGeneration", "T5GemmaForConditionalGeneration"
Damage = Callable[[Path], object]
WEIGHTS, INDEX = folders.WEIGHTS, folders.INDEX
WORDS = {BERT: "bert.embeddings.word_embeddings.weight", GPT2: "transformer.wte.weight"}
LETTERS = [*"abcdefghijklmnopqrstuvwxyz.,'12", "Ġ"]
PIECES = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "sat", "on", "mat", "é",
    "##a", "##b", "##c", *LETTERS[:-1],
]  # fmt: skip
# The smallest map of characters: a block of 256 units that lead nowhere, and one empty text.
CHARSMAP = base64.b64encode((1024).to_bytes(4, "little") + bytes(1024) + b"\0").decode()


def part(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


def added(number: int, content: str, **changes: Any) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": content, **flags, "special": True, **changes}


def tokenizer(**changes: Any) -> dict[str, Any]:
    """A tokenizer.json with nothing but what is changed."""
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer",
                           "post_processor", "decoder"))  # fmt: skip
    return {"version": "1.0", **empty, "added_tokens": [], "model": WORDPIECE, **changes}


def template(*special: str, **ids: int) -> dict[str, Any]:
    def item(name: str) -> dict[str, Any]:
        kind = "Sequence" if name in ("A", "B") else "SpecialToken"
        return {kind: {"id": name, "type_id": 0}}

    known = {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in ids.items()}
    return part(
        "TemplateProcessing",
        single=[item(name) for name in special or ("A", "</s>")],
        pair=[item(name) for name in ("A", "</s>", "B", "</s>")],
        special_tokens=known or {"</s>": {"id": "</s>", "ids": [0], "tokens": ["</s>"]}},
    )


WORDPIECE = part(
    "WordPiece", unk_token="[UNK]", continuing_subword_prefix="##", max_input_chars_per_word=100,
    vocab={piece: i for i, piece in enumerate(PIECES)},
)  # fmt: skip
MERGES = [["t", "h"], ["th", "e"], ["a", "t"], ["Ġ", "c"]]
BPE = part(
    "BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
    fuse_unk=False, byte_fallback=False, ignore_merges=False, merges=MERGES,
    vocab={piece: i for i, piece in enumerate([*LETTERS, *("".join(pair) for pair in MERGES)])},
)  # fmt: skip
UNIGRAM = part(
    "Unigram", unk_id=1, byte_fallback=False,
    vocab=[["</s>", 0.0], ["<unk>", 0.0], ["▁", -2.0], *([each, -3.5] for each in LETTERS[:26])],
)  # fmt: skip
META = part("Metaspace", replacement="▁", prepend_scheme="always", split=True)
BYTES = part("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
SPLIT = part("Split", pattern={"Regex": r"\p{N}{1,3}"}, behavior="Isolated", invert=False)
TOKENIZERS = {
    BERT: tokenizer(
        normalizer=part("BertNormalizer", clean_text=True, handle_chinese_chars=True,
                        strip_accents=None, lowercase=True),
        pre_tokenizer=part("BertPreTokenizer"),
        post_processor=part("BertProcessing", sep=["[SEP]", 3], cls=["[CLS]", 2]),
        decoder=part("WordPiece", prefix="##", cleanup=True),
        added_tokens=[added(4, "[MASK]"), added(len(PIECES), "<new>", special=False)],
    ),
    GPT2: tokenizer(
        model=BPE, decoder=BYTES, post_processor=BYTES,
        pre_tokenizer=part("Sequence", pretokenizers=[SPLIT, BYTES]),
    ),
    MARIAN: tokenizer(
        model=UNIGRAM, post_processor=template(), decoder=META,
        normalizer=part("Sequence", normalizers=[
            part("Precompiled", precompiled_charsmap=CHARSMAP),
            part("Replace", pattern={"Regex": " {2,}"}, content=" "),
        ]),
        pre_tokenizer=part("Sequence", pretokenizers=[part("WhitespaceSplit"), META]),
    ),
    LLAMA: tokenizer(
        model=BPE | {"byte_fallback": True, "unk_token": "a", "fuse_unk": True},
        normalizer=part("Sequence", normalizers=[
            part("Prepend", prepend="▁"), part("Replace", pattern={"String": " "}, content="▁"),
        ]),
        post_processor=template(),
        decoder=part("Sequence", decoders=[
            part("Replace", pattern={"String": "▁"}, content=" "), part("ByteFallback"),
            part("Fuse"), part("Strip", content=" ", start=1, stop=0),
        ]),
    ),
    MODERN: tokenizer(
        model=part("WordLevel", unk_token="a", vocab={"a": 0, "the": 1, "cat": 2}),
        normalizer=part("Sequence", normalizers=[
            part("NFKC"), part("Lowercase"), part("Strip", strip_left=True, strip_right=False),
        ]),
        pre_tokenizer=part("Sequence", pretokenizers=[
            part("Punctuation", behavior="Isolated"), part("Digits", individual_digits=True),
            part("CharDelimiterSplit", delimiter=" "),
        ]),
        post_processor=part("RobertaProcessing", sep=["a", 0], cls=["the", 1], trim_offsets=True,
                            add_prefix_space=False),
        added_tokens=[added(3, "<x>", lstrip=True, rstrip=True), added(4, "y", single_word=True)],
    ),
}  # fmt: skip
TOKENIZERS |= {
    CLASSIFY: TOKENIZERS[BERT],
    "DistilBertForTokenClassification": TOKENIZERS[BERT],
    "ElectraForPreTraining": TOKENIZERS[BERT],
    ROBERTA: TOKENIZERS[GPT2],
    MPNET: TOKENIZERS[BERT],
    NOMIC: TOKENIZERS[BERT],
    ALBERT: TOKENIZERS[MARIAN],
    DEBERTA: TOKENIZERS[MARIAN],
    "BartForSequenceClassification": TOKENIZERS[GPT2],
    "Qwen2ForCausalLM": TOKENIZERS[GPT2],
    NEOX: TOKENIZERS[GPT2],
    MISTRAL: TOKENIZERS[LLAMA],
    "Qwen3ForTokenClassification": TOKENIZERS[GPT2],
    "Olmo2ForCausalLM": TOKENIZERS[GPT2],
    "Gemma2ForSequenceClassification": TOKENIZERS[LLAMA],
    GEMMA3: TOKENIZERS[LLAMA],
    SMOL: TOKENIZERS[GPT2],
    PHI3: TOKENIZERS[LLAMA],
    "T5ForConditionalGeneration": TOKENIZERS[MARIAN],
    "MT5ForConditionalGeneration": TOKENIZERS[MARIAN],
    "UMT5ForConditionalGeneration": TOKENIZERS[MARIAN],
    "MBartForConditionalGeneration": TOKENIZERS[MARIAN],
    M2M100: TOKENIZERS[MARIAN],
    T5GEMMA: TOKENIZERS[MARIAN],
}


def write(home: Path) -> dict[str, Path]:
    """One folder of each kind below `home`."""
    found = {}
    for name, written in TOKENIZERS.items():
        task = build_task(folders.CONFIGS[name], folders.TASKS[name])
        gf.Model(folders.heat(task.eval())).save(home / name)
        (home / name / "tokenizer.json").write_text(json.dumps(written))
        found[name] = home / name
    return found
