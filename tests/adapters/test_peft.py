"""The same adapter files in PEFT and in glassformer: the same logits, and the same merged bits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from references import CASES, AdapterCase, answers
from safetensors.torch import load_file

import glassformer as gf
import kit
from sampling import every_nth


@pytest.mark.parametrize("case", every_nth(CASES, 2), ids=str)
def test_peft_and_we_compute_the_same(case: AdapterCase, tmp_path: Path) -> None:
    theirs = case.adapted(tmp_path / "base")
    theirs.save_pretrained(tmp_path / "adapter")
    expected = answers(theirs, case)
    ours = gf.load(tmp_path / "base", adapter=tmp_path / "adapter")
    assert kit.difference(answers(ours, case), expected) <= 1e-5
    plain = answers(gf.load(tmp_path / "base"), case)
    assert kit.difference(plain, expected) > 0.1, "without the adapter it must differ"


@pytest.mark.parametrize("case", every_nth(CASES, 3), ids=str)
def test_peft_opens_what_we_write(case: AdapterCase, tmp_path: Path) -> None:
    import peft

    theirs = case.adapted(tmp_path / "base")
    theirs.save_pretrained(tmp_path / "adapter")
    ours = gf.load(tmp_path / "base", adapter=tmp_path / "adapter")
    ours.save_adapter(tmp_path / "copy", base="base")
    first, copy = (tmp_path / n / "adapter_model.safetensors" for n in ("adapter", "copy"))
    tensors, copies = load_file(first), load_file(copy)
    assert tensors.keys() == copies.keys()
    assert all(torch.equal(tensors[name], copies[name]) for name in tensors)
    opened = peft.PeftModel.from_pretrained(
        case.model.reference(case.model.attention), tmp_path / "copy"
    )
    same = kit.difference(answers(opened.eval(), case), answers(theirs, case))
    assert same == 0


@pytest.mark.parametrize("case", every_nth(CASES, 3), ids=str)
def test_a_merged_model_has_the_bits_of_pefts(case: AdapterCase, tmp_path: Path) -> None:
    theirs = case.adapted(tmp_path / "base")
    theirs.save_pretrained(tmp_path / "adapter")
    ours = gf.load(tmp_path / "base", adapter=tmp_path / "adapter")
    before = answers(ours, case)
    ours.merge_adapter().save(tmp_path / "ours")
    assert kit.difference(answers(ours, case), before) <= 5e-5
    theirs.merge_and_unload().save_pretrained(tmp_path / "theirs")
    folders = (tmp_path / "ours", tmp_path / "theirs", tmp_path / "base")
    a, b, base = (load_file(folder / "model.safetensors") for folder in folders)
    assert a.keys() == b.keys()
    assert any(not torch.equal(a[name], base[name]) for name in a)
    for name, tensor in a.items():
        if "use_dora" in case.options:  # the length of a row is a sum, in another order
            assert torch.allclose(tensor, b[name], rtol=3e-7, atol=1e-7), name
        else:
            assert torch.equal(tensor, b[name]), name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_merged_as_peft_does(dtype: torch.dtype, tmp_path: Path) -> None:
    import peft

    case = AdapterCase("llama", ["q_proj", "o_proj"])
    reference = case.adapted(tmp_path / "float32")
    reference.save_pretrained(tmp_path / "adapter")
    base = case.model.reference("sdpa").to(dtype)
    base.save_pretrained(tmp_path / "base")
    theirs = peft.PeftModel.from_pretrained(base, tmp_path / "adapter").merge_and_unload()
    theirs.save_pretrained(tmp_path / "theirs")
    gf.load(tmp_path / "base", adapter=tmp_path / "adapter").merge_adapter().save(tmp_path / "ours")
    a, b = (load_file(tmp_path / name / "model.safetensors") for name in ("ours", "theirs"))
    for name, tensor in b.items():
        assert a[name].dtype == dtype
        assert torch.equal(a[name], tensor), name


def test_a_head_that_was_trained_with_the_adapter(tmp_path: Path) -> None:
    """PEFT saves a classifier beside LoRA; the model itself has none."""
    case = AdapterCase("bert", ["query", "value"], 4, {"task_type": "SEQ_CLS"})
    theirs = case.adapted(tmp_path / "classifier")
    theirs.save_pretrained(tmp_path / "adapter")
    case.model.reference("sdpa").bert.save_pretrained(tmp_path / "base")
    ours = gf.load(tmp_path / "base", adapter=tmp_path / "adapter")
    assert ours.task.spec.kind == "classification"
    assert ours.task.spec.labels == ("LABEL_0", "LABEL_1")
    assert kit.difference(answers(ours, case), answers(theirs, case)) <= 1e-5
    ours.save_adapter(tmp_path / "copy")
    again = gf.load(tmp_path / "base", adapter=tmp_path / "copy")
    assert kit.difference(answers(again, case), answers(ours, case)) == 0
    ours.merge_adapter().save(tmp_path / "merged")
    assert (
        kit.difference(answers(gf.load(tmp_path / "merged"), case), answers(theirs, case)) <= 1e-5
    )
