"""What a trace holds: every tensor by its name, and the arithmetic that joins them."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import glassformer as gf
from folders import one_line, tiny
from glassformer.errors import ConfigError, GlassformerError, InputError

TEXT, SOURCE = [3, 14, 15, 9, 26, 5, 35], [8, 9, 7, 9, 3]
T, S, H, D, C, WIDE, V = len(TEXT), len(SOURCE), 3, 4, 12, 19, 53
GROUPED = {"heads": 6, "key_heads": 2, "position": "rotary", "head_width": 4}


def trace_of(family: str, **changes) -> gf.Trace:
    what = (SOURCE, TEXT) if family == "seq2seq" else TEXT
    return gf.record(tiny(family, **changes), what)


ATTENTION = ["q", "k", "v", "scores", "weights", "mixed", "out"]


def inside(place: str, names: list[str]) -> list[str]:
    return [f"{place}.{name}" for name in names]


def post_block(place: str, *, cross: bool = False) -> list[str]:
    return [
        *inside(f"{place}.attention", ATTENTION),
        *inside(place, ["attention_sum", "attention_norm.out"]),
        *(inside(f"{place}.cross", ATTENTION) if cross else []),
        *(inside(place, ["cross_sum", "cross_norm.out"]) if cross else []),
        *inside(place, ["mlp.hidden", "mlp.out", "mlp_sum", "mlp_norm.out", "out"]),
    ]


def pre_block(place: str) -> list[str]:
    return [
        f"{place}.attention_norm.out",
        *inside(f"{place}.attention", ATTENTION),
        *inside(place, ["attention_sum", "mlp_norm.out", "mlp.hidden", "mlp.out", "out"]),
    ]


NAMES = {
    "encoder": [
        *inside("encoder.embedding", ["tokens", "segments", "positions", "norm.out", "out"]),
        *post_block("encoder.blocks.0"),
        *post_block("encoder.blocks.1"),
        "transform.norm.out",
        "logits",
    ],
    "decoder": [
        *inside("decoder.embedding", ["tokens", "positions", "out"]),
        *pre_block("decoder.blocks.0"),
        *pre_block("decoder.blocks.1"),
        "decoder.norm.out",
        "logits",
    ],
    "seq2seq": [
        *inside("encoder.embedding", ["tokens", "positions", "out"]),
        *post_block("encoder.blocks.0"),
        *post_block("encoder.blocks.1"),
        *inside("decoder.embedding", ["tokens", "positions", "out"]),
        *(name for i in range(3) for name in post_block(f"decoder.blocks.{i}", cross=True)),
        "logits",
    ],
}


@pytest.mark.parametrize("family", NAMES)
def test_every_tensor_is_there_in_the_order_it_was_made(family: str) -> None:
    trace = trace_of(family)
    assert list(trace) == NAMES[family]
    assert len(trace) == len(NAMES[family])


@pytest.mark.parametrize("family", NAMES)
def test_every_tensor_has_the_shape_of_the_slides(family: str) -> None:
    leaves = {
        "q": (T, H, D), "k": (T, H, D), "v": (T, H, D), "scores": (H, T, T),
        "weights": (H, T, T), "mixed": (T, H, D), "hidden": (T, WIDE), "logits": (T, V),
    }  # fmt: skip
    for name, tensor in trace_of(family).items():
        if family == "seq2seq" and (name.startswith("encoder") or "cross" in name):
            continue
        expected = leaves.get(name.rpartition(".")[2], (T, C))
        assert tuple(tensor.shape) == expected, name


def test_across_two_texts_there_are_queries_of_one_and_keys_of_the_other() -> None:
    found = {
        name.rpartition(".")[2]: tuple(tensor.shape)
        for name, tensor in trace_of("seq2seq").find("decoder.blocks.2.cross.*").items()
    }
    assert found == {
        "q": (T, H, D), "k": (S, H, D), "v": (S, H, D), "scores": (H, T, S), "weights": (H, T, S),
        "mixed": (T, H, D), "out": (T, C),
    }  # fmt: skip


KINDS_OF_ATTENTION = [
    ("encoder", {}), ("decoder", {}), ("seq2seq", {}), ("decoder", GROUPED),
    ("encoder", {"window": 2}), ("encoder", {"position": "relative"}),
    ("encoder", {"scaled": False}),
]  # fmt: skip


def attentions(trace: gf.Trace) -> list[dict[str, torch.Tensor]]:
    """The tensors inside each attention, by their last names."""
    places = [name.removesuffix("weights") for name in trace.find("*.weights")]
    return [{leaf: trace[place + leaf] for leaf in ATTENTION} for place in places]


@pytest.mark.parametrize(("family", "changes"), KINDS_OF_ATTENTION, ids=str)
def test_the_arithmetic_of_attention(family: str, changes: dict) -> None:
    """Each row of weights sums to one, and weights times values are what each head takes home."""
    found = attentions(trace_of(family, **changes))
    assert len(found) == {"encoder": 2, "decoder": 2, "seq2seq": 2 + 2 * 3}[family]
    for each in found:
        weights = each["weights"]
        assert weights.min() >= 0
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        group = weights.shape[0] // each["v"].shape[1]
        values = each["v"].repeat_interleave(group, 1).transpose(0, 1)  # (H, S, D)
        torch.testing.assert_close((weights @ values).transpose(0, 1), each["mixed"])


@pytest.mark.parametrize("changes", [{}, GROUPED], ids=["plain", "grouped"])
def test_scores_are_queries_times_keys(changes: dict) -> None:
    for each in attentions(trace_of("decoder", **changes)):
        q, k = each["q"].transpose(0, 1), each["k"].transpose(0, 1)
        k = k.repeat_interleave(len(q) // len(k), 0)
        torch.testing.assert_close(q @ k.transpose(1, 2) / D**0.5, each["scores"])


def test_no_token_of_a_decoder_looks_ahead() -> None:
    for family, pattern in (("decoder", "*"), ("seq2seq", "decoder.*.attention.")):
        for weights in trace_of(family).find(pattern + "*weights").values():
            assert torch.equal(weights, weights.tril())
            assert (weights.tril() > 0).sum() == H * T * (T + 1) // 2


def test_an_encoder_looks_everywhere_and_a_window_does_not() -> None:
    assert all((weights > 0).all() for weights in trace_of("encoder").find("*.weights").values())
    near = (torch.arange(T)[:, None] - torch.arange(T)).abs() <= 2
    for weights in trace_of("encoder", window=2).find("*.weights").values():
        assert torch.equal(weights > 0, near.expand_as(weights))


def test_the_stream_is_a_sum() -> None:
    trace = trace_of("decoder")
    block = "decoder.blocks.1"
    before = trace["decoder.blocks.0.out"] + trace[f"{block}.attention.out"]
    torch.testing.assert_close(trace[f"{block}.attention_sum"], before)
    torch.testing.assert_close(trace[f"{block}.out"], before + trace[f"{block}.mlp.out"])
    start = trace["decoder.embedding.tokens"] + trace["decoder.embedding.positions"]
    torch.testing.assert_close(trace["decoder.embedding.out"], start)


def test_tokens_and_config_come_with_it() -> None:
    trace = trace_of("decoder")
    assert trace.tokens == [str(i) for i in TEXT]
    assert trace.source_tokens == []
    assert trace.config["width"] == C
    both = trace_of("seq2seq")
    assert (both.tokens, both.source_tokens) == ([str(i) for i in TEXT], [str(i) for i in SOURCE])
    assert repr(trace) == f"Trace of '3 14 15 9 26 5 35': {len(trace)} tensors"


def test_find() -> None:
    trace = trace_of("encoder")
    names = [f"encoder.blocks.{i}.attention.weights" for i in range(2)]
    assert list(trace.find("*.attention.weights")) == names
    assert all(trace.find("*.weights")[name] is trace[name] for name in names)
    assert trace.find("*.nothing") == {}
    assert list(trace.find("logits")) == ["logits"]


def test_a_name_that_is_not_there_gets_the_nearest() -> None:
    trace = trace_of("encoder")
    with pytest.raises(ConfigError) as caught:
        trace["encoder.blocks.1.attention.weight"]
    one_line(
        caught.value, "'encoder.blocks.1.attention.weight'", "'encoder.blocks.1.attention.weights'"
    )
    with pytest.raises(ConfigError) as caught:
        trace["?"]
    one_line(caught.value, "'?'", "encoder.embedding.tokens")


def test_a_trace_is_a_mapping() -> None:
    trace = trace_of("encoder")
    assert "logits" in trace
    assert trace.get("logits") is trace["logits"]
    assert "logit" not in trace
    assert trace.get("logit") is None


def same(a: gf.Trace, b: gf.Trace) -> None:
    assert list(a) == list(b)
    assert all(torch.equal(a[name], b[name]) and a[name].dtype == b[name].dtype for name in a)
    assert (a.tokens, a.source_tokens, a.config) == (b.tokens, b.source_tokens, b.config)


@pytest.mark.parametrize("family", NAMES)
def test_a_trace_comes_back_from_its_file(family: str, tmp_path: Path) -> None:
    trace = trace_of(family)
    trace.save(tmp_path / "a.trace")
    same(trace, gf.Trace.load(tmp_path / "a.trace"))


def test_tokens_of_any_language_come_back(tmp_path: Path) -> None:
    some = torch.randn(3, 2).to(torch.bfloat16)
    trace = gf.Trace({"z": some, "a": some, "part": some.T}, ["ü", "猫", '"\n'], config={"x": [1]})
    trace.save(tmp_path / "a.trace")
    same(trace, gf.Trace.load(str(tmp_path / "a.trace")))


def not_a_trace(path: Path, metadata: dict[str, str] | None) -> None:
    save_file({"x": torch.zeros(1)}, path, metadata)


ABOUT = {"tokens": ["a"], "source_tokens": [], "config": {}, "order": ["x"]}
FORMAT = {"format": "glassformer-trace-1"}
NOT_TRACES = {
    "missing": lambda path: None,
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("hello, hello, hello"),
    "a folder": lambda path: path.mkdir(),
    "weights": lambda path: not_a_trace(path, None),
    "weights of a model": lambda path: not_a_trace(path, {"format": "pt"}),
    "no words about it": lambda path: not_a_trace(path, FORMAT),
    "broken words": lambda path: not_a_trace(path, FORMAT | {"trace": "{"}),
    "a list": lambda path: not_a_trace(path, FORMAT | {"trace": "[]"}),
    "other names": lambda path: not_a_trace(
        path, FORMAT | {"trace": json.dumps(ABOUT | {"order": ["y"]})}
    ),
}


@pytest.mark.parametrize("name", NOT_TRACES)
def test_what_is_no_trace_is_refused(name: str, tmp_path: Path) -> None:
    NOT_TRACES[name](tmp_path / "file")
    with pytest.raises(InputError) as caught:
        gf.Trace.load(tmp_path / "file")
    words = "File not found" if name == "missing" else "not a trace"
    one_line(caught.value, str(tmp_path / "file"), words)


def test_a_trace_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError) as caught:
        trace_of("encoder").save(tmp_path / "no" / "such" / "folder")
    one_line(caught.value, str(tmp_path / "no" / "such" / "folder"))
