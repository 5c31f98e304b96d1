"""GGUF files: a real one says what transformers says, and so do small ones of every kind."""

import functools
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import tokenizers
import torch
import transformers
from tokenizers import pre_tokenizers
from transformers.integrations.gguf.dequant import dequantize

import ggufs
import glassformer as gf
from folders import differences, one_line
from glassformer.checkpoint import read_configs
from glassformer.checkpoint.gguf import KINDS, open_gguf
from glassformer.errors import CheckpointError
from kit import alone, difference, opened, our_answers, reference_answers, stepped, texts
from sampling import every_nth
from smollm import smollm2

PROMPTS = {
    "The capital of France is": " Paris.\n\nThe answer is:",
    "The largest planet in our solar system is": " Jupiter, but it's not the only",
    "Shakespeare wrote the play Romeo and": " Juliet.\n\nThe play is set",
    "Dogs and cats are": " both mammals, but they have different reproductive",
    "1, 2, 3, 4,": " 5, 6, 7",
}
WRITING = [
    *PROMPTS,
    "",
    " ",
    "Hello world!  Two  spaces,   three,\ttab\n\nlines\r\n and  end  ",
    "It's we'll they'VE don't",
    "naïve café – Übergröße, Ελληνικά, кириллица, 日本語のテキスト, 한국어, 🙂👩‍👩‍👧",
    "e\u0301 combining, \u200bzero width, \xa0hard space",
    "<|im_start|>user\nHi<|im_end|>\n<|endoftext|><|im_st art|>",
    "def f(x):\n    return x ** 2  # square\n",
    "a1b22c333 3.14 1,000,000",
    "\x00\x01\x7f control",
]
DIGITS = ["  12", "x =   345", "\n\n7", "page  1 of  10", "٣٤ ½ Ⅷ"]


@pytest.fixture(scope="module")
def path() -> Path:
    return smollm2()


@pytest.fixture(scope="module")
def model(path: Path) -> gf.Model:
    return gf.load(path)


@pytest.fixture(scope="module")
def theirs(path: Path) -> Any:
    """The model and the tokenizer that transformers makes of the same file."""
    with pytest.MonkeyPatch.context() as patch:
        # It does these often, and they are slow; it asks for accelerate and does not use it.
        for slow in ("GGUFReader", "get_tensor_name_map"):
            patch.setattr(gguf, slow, functools.cache(getattr(gguf, slow)))
        patch.setattr(transformers.modeling_utils, "is_accelerate_available", lambda *_: True)
        patch.setenv("TQDM_DISABLE", "1")
        where = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
        reference = transformers.LlamaForCausalLM.from_pretrained(**where, dtype=torch.float32)
        return reference.eval(), transformers.AutoTokenizer.from_pretrained(**where)


@pytest.mark.slow
def test_smollm2_says_what_transformers_says(model: gf.Model, theirs: Any) -> None:
    reference, _ = theirs
    inputs = {"ids": [model.tokenizer.encode(prompt).ids for prompt in PROMPTS]}
    expected = reference_answers(reference, inputs)
    reference.set_attn_implementation("eager")
    other = reference_answers(reference, inputs)
    reference.set_attn_implementation("sdpa")
    scale = max(each.abs().max().item() for each in expected)
    limit = max(5e-5 * scale, 3 * difference(other, expected))
    assert difference(our_answers(model, inputs), expected) <= limit
    rows = model.task.backbone.decoder.blocks[7].attention.key.weight
    right = rows.detach().clone()
    with torch.no_grad():
        rows.copy_(rows.view(3, 2, 32, 576).transpose(1, 2).reshape(192, 576))  # as in the file
        assert difference(our_answers(model, inputs), expected) > 100 * limit
        rows.copy_(right)


@pytest.mark.slow
def test_smollm2_goes_on_sensibly(model: gf.Model) -> None:
    """Five prompts at once, one token a step; the next word is clear each time."""
    ids = [model.tokenizer.encode(prompt).ids for prompt in PROMPTS]
    cache = gf.Cache(model.task.backbone.config, len(ids), 24)
    outputs: list[list[int]] = [[] for _ in ids]
    for _ in range(8):
        batch = gf.Batch.of(ids)
        with torch.no_grad():
            logits = model(batch, cache=cache).logits
        last = torch.stack([row[-1] for row in logits.split(batch.sequences.lengths)])
        best = last.topk(2)
        assert (best.values[:, 0] - best.values[:, 1]).min() > 0.01
        ids = [[number] for number in best.indices[:, 0].tolist()]
        for line, number in zip(outputs, ids, strict=True):
            line += number
    assert [model.tokenizer.decode(line) for line in outputs] == list(PROMPTS.values())


@pytest.mark.slow
def test_smollm2_is_cut_as_its_own_tokenizer_cuts(model: gf.Model, theirs: Any) -> None:
    """transformers knows the merges; that digits are cut out first, which it does not, is added."""
    backend = tokenizers.Tokenizer.from_str(theirs[1].backend_tokenizer.to_str())
    for text in WRITING:
        read = model.tokenizer.encode(text)
        assert read.ids == theirs[1](text).input_ids == backend.encode(text).ids, text
        assert model.tokenizer.decode(read.ids) == theirs[1].decode(read.ids, True), text
    steps = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    for text in (*WRITING, *DIGITS):
        assert model.tokenizer.encode(text).ids == backend.encode(text).ids, text
    assert model.tokenizer.encode("  12").tokens == ["ĠĠ", "1", "2"]
    assert len(model.tokenizer) == 49_152


@pytest.mark.slow
def test_smollm2_is_saved_as_a_folder(model: gf.Model, theirs: Any, tmp_path: Path) -> None:
    reference, _ = theirs
    model.save(tmp_path / "folder")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "folder")
    cutter = transformers.AutoTokenizer.from_pretrained(tmp_path / "folder")
    assert type(again) is transformers.LlamaForCausalLM and again.dtype == torch.float32
    ids = [model.tokenizer.encode(text).ids for text in WRITING]
    assert [cutter(text).input_ids for text in WRITING] == ids
    assert (cutter.bos_token, cutter.eos_token, cutter.pad_token) == (
        "<|im_start|>", "<|im_end|>", "<|im_end|>",
    )  # fmt: skip
    assert "<|im_start|>" in cutter.chat_template
    left, right = again.state_dict(), reference.state_dict()
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)
    for name in ("vocab_size", "rope_parameters", "num_key_value_heads", "eos_token_id"):
        assert getattr(again.config, name) == getattr(reference.config, name)


LLAMA3 = ggufs.LLAMA3 | {"rope_theta": 1e7}  # some turn as before, some slower, one between
WIDE = {
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24,
    "intermediate_size": 160,
}  # fmt: skip
SMALL = {
    "F32": ("F32", {}),
    "every head has its keys": ("F32", {"num_key_value_heads": 6}),
    "one head for all keys": ("F32", {"num_key_value_heads": 1}),
    "heads of another width": ("F32", {"head_dim": 10}),
    "tied": ("F32", {"tie_word_embeddings": True}),
    "biases": ("F32", {"attention_bias": True, "mlp_bias": True}),
    **{kind: (kind, WIDE) for kind in ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")},
    "Q4_0, tied": ("Q4_0", WIDE | {"tie_word_embeddings": True}),
    "Llama 3": ("F32", {"head_dim": 24, "rope_parameters": LLAMA3}),
    "Qwen2": ("F32", {"kind": "qwen2"}),
    "Qwen2, tied": ("F32", {"kind": "qwen2", "tie_word_embeddings": True}),
    "Qwen3": ("F32", {"kind": "qwen3", "head_dim": 10}),
    "Qwen3, Q8_0": ("Q8_0", {"kind": "qwen3", **WIDE, "attention_bias": True}),
}


@pytest.mark.parametrize("case", every_nth(SMALL, 2))
def test_a_small_file_says_what_its_weights_say(case: str, tmp_path: Path) -> None:
    kind, changes = SMALL[case]
    reference = ggufs.reference(**changes)
    path = ggufs.write(tmp_path / "small.gguf", reference, kind)
    model = gf.load(path)
    inputs = {"ids": texts((7, 13, 1, 11), 101)}
    expected = reference_answers(reference, inputs)
    reference.set_attn_implementation("eager")
    limit = max(5e-5, 3 * difference(reference_answers(reference, inputs), expected))
    assert difference(our_answers(model, inputs), expected) <= limit
    assert difference(list(alone(model, inputs)), expected) <= limit
    assert difference(list(opened(model, inputs)), expected) <= limit
    model.save(tmp_path / "folder")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "folder")
    assert type(again) is type(reference)
    assert difference(reference_answers(again, inputs), expected) == 0
    assert again.config.tie_word_embeddings is reference.config.tie_word_embeddings
    back = gf.load(tmp_path / "folder")
    assert back.task.backbone.config == model.task.backbone.config
    assert list(differences(back, model)) == []


def not_turned(weights: dict[str, np.ndarray]) -> None:
    weights["blk.1.attn_k.weight"] = ggufs.turn(weights["blk.1.attn_k.weight"], 4)


CONTROLS: dict[str, dict[str, Any]] = {
    "rotary base": {"changes": {"llama.rope.freq_base": 10_000.0}},
    "no rotary base": {"changes": {"llama.rope.freq_base": ggufs.GONE}},
    "norm": {"changes": {"llama.attention.layer_norm_rms_epsilon": 1e-6}},
    "rows of another order": {"tensors": not_turned},
}


@pytest.mark.parametrize("control", CONTROLS)
def test_a_small_file_with_one_thing_wrong_says_something_else(
    control: str, tmp_path: Path
) -> None:
    reference = ggufs.reference()
    model = gf.load(ggufs.write(tmp_path / "small.gguf", reference, **CONTROLS[control]))
    inputs = {"ids": texts((7, 13, 1, 11), 101)}
    assert difference(our_answers(model, inputs), reference_answers(reference, inputs)) > 1e-2


def test_the_factors_of_llama_3_are_not_passed_over(tmp_path: Path) -> None:
    reference = ggufs.reference(head_dim=24, rope_parameters=LLAMA3)
    found = gf.load(ggufs.write(tmp_path / "a.gguf", reference)).config.rotary_scaling
    assert (found.kind, found.factor, found.original_length) == ("by_wavelength", 8.0, 8192)
    factors = ggufs.factors(reference.config)
    assert len(set(factors[(factors > 1) & (factors < 8)].tolist())) > 0
    for wrong in (factors[:-1], factors * 2, factors[::-1], factors[None], np.ones_like(factors)):
        path = ggufs.write(
            tmp_path / "b.gguf", reference,
            tensors=lambda t, w=wrong: t.update({"rope_freqs.weight": np.ascontiguousarray(w)}),
        )  # fmt: skip
        with pytest.raises(CheckpointError) as caught:
            gf.load(path)
        one_line(caught.value, "b.gguf", "rope_freqs.weight")


def test_a_small_file_with_a_cache_and_in_other_precisions(tmp_path: Path) -> None:
    reference = ggufs.reference()
    path = ggufs.write(tmp_path / "small.gguf", reference)
    inputs = {"ids": texts((9, 7, 8, 7), 101, seed=5)}
    expected = reference_answers(reference, inputs)
    assert difference(stepped(gf.load(path), inputs), expected) <= 2e-4
    half = gf.load(path, dtype=torch.bfloat16)
    assert {each.dtype for each in half.parameters()} == {torch.bfloat16}
    half.save(tmp_path / "half")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "half")
    assert again.dtype == torch.bfloat16
    assert read_configs(path) == (half.task.backbone.config, half.task.spec)


def test_fields_that_llama_cpp_does_not_always_write(tmp_path: Path) -> None:
    """Older files have no vocabulary size, others no head widths or key heads."""
    reference = ggufs.reference(num_key_value_heads=6)
    optional = (
        "llama.vocab_size", "llama.attention.head_count_kv", "llama.attention.key_length",
        "llama.attention.value_length", "llama.rope.dimension_count",
        "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
    )  # fmt: skip
    more = {
        "llama.rope.scaling.type": "none", "split.count": 0, "general.name": "A \n name",
        "general.type": "model", "general.tags": ["a", "b"], "tokenizer.ggml.model": "no_vocab",
        "somebody.else": 7, "general.alignment": 64,
    }  # fmt: skip
    changes = dict.fromkeys(optional, ggufs.GONE) | more
    bare = gf.load(ggufs.write(tmp_path / "bare.gguf", reference, changes=changes))
    full = gf.load(ggufs.write(tmp_path / "full.gguf", reference))
    assert bare.task.backbone.config == full.task.backbone.config
    assert list(differences(bare, full)) == []
    assert bare.tokenizer is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_packing_is_undone(kind: str, tmp_path: Path) -> None:
    """Random bytes; the other opinion is transformers' own, for the kinds it unpacks."""
    packing = gguf.GGMLQuantizationType[kind]
    block, size = gguf.GGML_QUANT_SIZES[packing]
    draw = np.random.default_rng(3)
    shape = (7, 512)
    packed = draw.integers(0, 256, (shape[0], shape[1] // block * size), np.uint8)
    if block == 1:  # plain floats: no random exponents
        packed = gguf.quantize(draw.standard_normal(shape, np.float32), packing).view(np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_tensor("token_embd.weight", packed, raw_dtype=packing)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (tensor,) = open_gguf(tmp_path / "a.gguf").tensors().values()
    assert tensor.shape == shape and tensor.dtype == torch.float32
    with np.errstate(all="ignore"):
        expected = torch.from_numpy(gguf.dequantize(packed, packing).copy())
    assert torch.equal(tensor.nan_to_num(), expected.nan_to_num())
    if kind not in ("F32", "F16", "BF16", "Q5_0", "Q5_1"):
        other = dequantize(torch.from_numpy(packed), int(packing))
        torch.testing.assert_close(tensor, other.view(shape), rtol=1e-5, atol=0, equal_nan=True)
    elif block == 1:
        assert tensor.std() == pytest.approx(1, rel=0.05)


PIECES = {
    "gpt-2": "the cat's  hat\n\n123 4567 the mat ½",
    "llama-bpe": "the CAT'S  hat\n\n123 4567 the\tmat ½",
    "qwen2": "the CAT'S  hat\n\n123 4567 the\tmat ½",
}


@pytest.mark.parametrize("name", PIECES)
def test_texts_are_cut_as_transformers_cuts_them(name: str, tmp_path: Path) -> None:
    fields = ggufs.tokenizer() | {"tokenizer.ggml.pre": name, "tokenizer.ggml.add_bos_token": False}
    path = ggufs.write(tmp_path / "a.gguf", ggufs.reference(vocab_size=301), changes=fields)
    ours = gf.load(path).tokenizer
    other = transformers.AutoTokenizer.from_pretrained(tmp_path, gguf_file=path.name)
    text = PIECES[name] + " <think> <s>hat</s>"
    assert ours.encode(text).ids == other(text).input_ids
    assert ours.decode(ours.encode(text).ids) == PIECES[name] + " <think> hat"
    cutter = other.backend_tokenizer.pre_tokenizer
    assert ours.backend.pre_tokenizer.pre_tokenize_str(text) == cutter.pre_tokenize_str(text)


def test_qwen2_composes_letters_first(tmp_path: Path) -> None:
    fields = ggufs.tokenizer() | {"tokenizer.ggml.pre": "qwen2"}
    path = ggufs.write(tmp_path / "a.gguf", ggufs.reference(vocab_size=301), changes=fields)
    ours = gf.load(path).tokenizer
    assert ours.encode("e\u0301").ids == ours.encode("\u00e9").ids


@pytest.mark.parametrize(
    ("name", "changes", "around"),
    [
        ("gpt-2", {}, ([], [])),
        ("llama-bpe", {}, ([1], [])),
        ("gpt-2", {"add_bos_token": True, "add_eos_token": True}, ([1], [2])),
        ("llama-bpe", {"add_bos_token": False, "add_eos_token": True}, ([], [2])),
    ],
)
def test_a_text_starts_and_ends_as_the_file_says(
    name: str, changes: dict[str, bool], around: Any, tmp_path: Path
) -> None:
    fields = ggufs.tokenizer() | {"tokenizer.ggml.pre": name}
    fields |= {f"tokenizer.ggml.{key}": value for key, value in changes.items()}
    path = ggufs.write(tmp_path / "a.gguf", ggufs.reference(vocab_size=301), changes=fields)
    model = gf.load(path)
    start, end = around
    read = model.tokenizer.encode("the")
    inside = [model.tokenizer.id("the")]
    assert read.ids == [*start, *inside, *end]
    assert model.tokenizer.encode(("the", "the")).ids == read.ids * 2
    model.save(tmp_path / "folder")
    other = transformers.AutoTokenizer.from_pretrained(tmp_path / "folder")
    assert other("the").input_ids == read.ids
    assert gf.load(tmp_path / "folder").tokenizer.encode("the") == read


@pytest.mark.parametrize(
    "changes",
    [{"model": "bert"}, {"pre": "default"}, {"pre": ggufs.GONE}, {"add_space_prefix": True}],
    ids=["bert", "default", "none", "space"],
)
def test_a_tokenizer_that_is_not_known_is_left_out_aloud(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    fields = ggufs.tokenizer() | {f"tokenizer.ggml.{k}": v for k, v in changes.items()}
    path = ggufs.write(tmp_path / "a.gguf", ggufs.reference(vocab_size=301), changes=fields)
    with pytest.warns(UserWarning, match=r"a\.gguf: a tokenizer of .* is not supported"):
        model = gf.load(path)
    assert model.tokenizer is None
    assert model.logits([[1, 2, 3]])[0].shape == (3, 301)


def test_a_file_of_the_hubs_cache_is_opened(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "main"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    ggufs.write(blobs / "abc", ggufs.reference())
    (snapshot / "a.gguf").symlink_to("../../blobs/abc")
    assert gf.load(snapshot / "a.gguf").logits([[1, 2, 3]])[0].shape == (3, 101)


def test_a_missing_file_is_no_name_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(CheckpointError) as caught:
        gf.load("missing.gguf")
    one_line(caught.value, "File not found: ", "missing.gguf")


def test_without_the_gguf_package_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ggufs.write(tmp_path / "a.gguf", ggufs.reference())
    gf.load(path).save(tmp_path / "folder")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(CheckpointError) as caught:
        gf.load(path)
    one_line(caught.value, "a.gguf", "pip install 'glassformer[gguf]'")
    gf.load(tmp_path / "folder")
