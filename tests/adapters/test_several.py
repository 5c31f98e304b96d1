"""Several adapters beside one model, chosen for each call or for each text of a batch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from references import AdapterCase

import glassformer as gf
import kit
from glassformer.errors import InputError
from sampling import every_nth

CASES = [
    AdapterCase("bert", ["query", "value", "dense"]),
    AdapterCase("gpt2", ["c_attn", "c_fc"], options={"fan_in_fan_out": True}),
    AdapterCase("llama", ["q_proj", "down_proj"], options={"use_dora": True}),
    AdapterCase("t5", ["q", "v", "wo"]),
    AdapterCase("marian", ["q_proj", "k_proj", "v_proj", "fc1"]),
    AdapterCase("albert", ["query", "ffn"]),
]
HEADS = AdapterCase("bert", ["query"], 4, {"task_type": "SEQ_CLS"})
NAMES = ("a", "b")


def with_two(case: AdapterCase, folder: Path) -> gf.Model:
    for seed, name in enumerate(NAMES):
        case.adapted(folder / "base", seed).save_pretrained(folder / name)
    model = gf.load(folder / "base")
    for name in NAMES:
        assert model.add_adapter(folder / name) == name
    return model


@pytest.mark.parametrize("case", every_nth([*CASES, HEADS], 3), ids=str)
def test_a_batch_of_several_adapters_computes_what_each_does_alone(
    case: AdapterCase, tmp_path: Path
) -> None:
    model, inputs = with_two(case, tmp_path), kit.inputs(case.model)
    mixed = ["a", "b", None, "a"] if case is not HEADS else ["a", "b", "b", "a"]
    texts = model.logits(inputs["ids"], **_rest(inputs), adapter=mixed)
    for i, (name, logits) in enumerate(zip(mixed, texts, strict=True)):
        one = {kind: [lists[i]] for kind, lists in inputs.items()}
        (alone,) = model.logits(one["ids"], **_rest(one), adapter=name)
        assert torch.allclose(logits, alone, atol=2e-5)
    different = model.logits(inputs["ids"], **_rest(inputs), adapter=["b", "a", "a", "b"])
    assert all((a - b).abs().max() > 0.05 for a, b in zip(texts, different, strict=True))


def _rest(inputs: kit.Given) -> kit.Given:
    return {name: lists for name, lists in inputs.items() if name != "ids"}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> gf.Model:
    return with_two(CASES[0], tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> gf.Model:
    return with_two(CASES[1], tmp_path_factory.mktemp("decoder"))


@settings(max_examples=25)
@given(
    texts=st.lists(
        st.tuples(st.integers(1, 9), st.sampled_from((None, *NAMES))), min_size=1, max_size=7
    )
)
def test_any_texts_with_any_adapters(
    encoder: gf.Model, texts: list[tuple[int, str | None]]
) -> None:
    ids = [[3 + (7 * i + j) % 90 for j in range(length)] for i, (length, _) in enumerate(texts)]
    mixed = encoder.logits(ids, adapter=[name for _, name in texts])
    for text, (_, name), logits in zip(ids, texts, mixed, strict=True):
        assert torch.allclose(logits, encoder.logits([text], adapter=name)[0], atol=2e-5)


def test_the_model_stays_as_it_is(encoder: gf.Model, tmp_path: Path) -> None:
    ids = [[5, 6, 7]]
    before = encoder.logits(ids)[0]
    adapted = encoder.with_adapter("a")
    assert torch.equal(adapted.logits(ids)[0], encoder.logits(ids, adapter="a")[0])
    adapted.merge_adapter()
    assert torch.equal(encoder.logits(ids)[0], before)
    encoder.save(tmp_path / "copy")
    assert torch.equal(gf.load(tmp_path / "copy").logits(ids)[0], before)


def test_a_merged_model_moves_alone(encoder: gf.Model) -> None:
    ids = [[5, 6, 7]]
    before = encoder.logits(ids)[0]
    encoder.with_adapter("a").merge_adapter().double()
    assert torch.equal(encoder.logits(ids)[0], before)


def test_moving_the_model_moves_its_adapters(encoder: gf.Model) -> None:
    adapted = encoder.with_adapter("a")
    ids = [[5, 6, 7]]
    narrow = adapted.logits(ids)[0]
    adapted.double()
    assert adapted.logits(ids)[0].dtype == torch.float64
    assert torch.allclose(adapted.logits(ids)[0], narrow.double(), atol=1e-4)
    assert adapted.logits(ids, adapter=["b"])[0].dtype == torch.float64
    encoder.float()


def test_generated_texts_take_their_own_adapters(decoder: gf.Model) -> None:
    prompts = [[5, 6, 7], [8, 9], [5, 6, 7], [10]]
    names = ["a", "b", "b", None]
    together = decoder.generate(prompts, adapter=names, max_new_tokens=5, num_return_sequences=2,
                                do_sample=True, seed=3)  # fmt: skip
    for i, (prompt, name) in enumerate(zip(prompts, names, strict=True)):
        alone = decoder.generate([prompt], adapter=name, max_new_tokens=5, num_return_sequences=2,
                                 do_sample=True, seed=3)  # fmt: skip
        assert [text.ids for text in alone] == [t.ids for t in together[2 * i : 2 * i + 2]]
    assert together[0].ids != together[4].ids


def test_none_is_the_base_model_in_every_call(decoder: gf.Model) -> None:
    adapted, ids = decoder.with_adapter("a"), [[5, 6, 7]]
    assert torch.equal(adapted.logits(ids, adapter=[None])[0], decoder.logits(ids)[0])
    base, own, chosen = (
        each.generate(ids, adapter=name, max_new_tokens=8)[0].ids
        for each, name in ((decoder, None), (adapted, None), (adapted, [None]))
    )
    assert chosen == base != own


def test_an_adapter_with_another_head_does_not_generate(decoder: gf.Model, tmp_path: Path) -> None:
    labels = AdapterCase("gpt2", ["c_attn"], 2, {"fan_in_fan_out": True, "task_type": "SEQ_CLS"})
    labels.adapted(tmp_path / "classifier").save_pretrained(tmp_path / "labels")
    decoder.add_adapter(tmp_path / "labels")
    with pytest.raises(InputError, match="cannot generate"):
        decoder.generate([[5, 6]], adapter="labels")
    del decoder.adapters["labels"]


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        ("c", "adapter = 'c': there is none of this name: write one of 'a', 'b'"),
        (["a"], "adapter: 1 names for 2 texts: write one for each"),
        (5, "adapter: 5: give a name, or one for each text"),
        ([5, "a"], "adapter: 5: give a name, or one for each text"),
        ([["a"], None], r"adapter: \['a'\]: give a name, or one for each text"),
        (b"a", "adapter: b'a': give a name, or one for each text"),
    ],
)
def test_a_wrong_choice_is_named(encoder: gf.Model, adapter: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        encoder.logits([[5], [6]], adapter=adapter)  # type: ignore[arg-type]


@pytest.mark.parametrize("adapter", [5, [5], [["a"]], {"a": 1}])
def test_a_wrong_choice_for_generate_is_named(adapter: object, decoder: gf.Model) -> None:
    with pytest.raises(InputError, match="give a name, or one for each text"):
        decoder.generate([[5, 6]], adapter=adapter)  # type: ignore[arg-type]


def test_int8_weights_take_no_adapter(tmp_path: Path) -> None:
    model = with_two(AdapterCase("llama", ["q_proj"]), tmp_path)
    with pytest.raises(
        InputError, match=r"quantize: adapters are attached \('a', 'b'\).+merge_adapter"
    ):
        model.quantize("int8")
    ids = [[5, 6, 7]]
    before = model.logits(ids)[0]
    small = model.with_adapter("a").merge_adapter().quantize("int8")
    assert not torch.equal(small.logits(ids)[0], before)
    assert torch.equal(model.logits(ids)[0], before), "they share no module"
    with pytest.raises(InputError, match="add_adapter: int8 weights take no adapter"):
        small.add_adapter(tmp_path / "a")


def test_an_unmerged_model_is_not_saved(encoder: gf.Model, tmp_path: Path) -> None:
    for call in ("save", "export", "export_onnx"):
        with pytest.raises(InputError, match=r"merge_adapter\(\) first"):
            getattr(encoder.with_adapter("a"), call)(tmp_path / "model")
    with pytest.raises(InputError, match=r"merge_adapter\(\) first"):
        encoder.with_adapter("a").quantize("int8")
    with pytest.raises(InputError, match="computes without an adapter"):
        encoder.merge_adapter()
    with pytest.raises(InputError, match="there is an adapter 'a'"):
        encoder.add_adapter(tmp_path, name="a")


def test_inside_an_adapted_model(encoder: gf.Model) -> None:
    """Recordings show what the adapter changed."""
    plain, adapted = (gf.record(m, [5, 6, 7]) for m in (encoder, encoder.with_adapter("a")))
    assert plain.tensors.keys() == adapted.tensors.keys()
    name = "encoder.blocks.0.attention.q"
    assert not torch.allclose(plain[name], adapted[name])
