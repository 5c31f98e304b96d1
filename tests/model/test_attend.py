"""`attend` against a double loop, on every path it can take."""

import math
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.config import ModelConfig
from glassformer.model import (
    Attention,
    AttentionSpec,
    Batch,
    Look,
    Sequences,
    attend,
    build,
    visible,
)

PROFILE = settings(deadline=None, max_examples=40, derandomize=True)


def test_capped_scores_have_dropout_too():
    config = ModelConfig(
        family="decoder", vocab_size=11, width=8, depth=1, heads=2, mlp_width=5, max_length=7,
        score_cap=2.0, dropout={"attention": 0.5}, init_std=0.5,
    )  # fmt: skip
    model, batch = build(config), Batch.of([[1, 2, 3, 4, 5], [6, 7]])
    assert torch.equal(model.eval()(batch), model(batch))
    assert not torch.equal(model.train()(batch), model(batch))


@dataclass(frozen=True)
class Problem:
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    queries: Sequences
    keys: Sequences
    spec: AttentionSpec

    def solve(self, recorder=None):
        return attend(self.q, self.k, self.v, self.queries, self.keys, self.spec, recorder)


class Watcher:
    """A visitor that asks for everything and changes nothing: it forces the open arithmetic."""

    def __init__(self):
        self.seen = {}

    def wants(self, module, name):
        return True

    def visit(self, module, name, value):
        self.seen[name] = value
        return value


def problem(q_lengths, k_lengths, *, H=6, G=6, D=5, Dv=5, seed=0, bias=False, room=0, **how):
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    queries = Sequences.of(q_lengths, longest=max(q_lengths) + room)
    keys = queries
    if q_lengths != k_lengths:
        keys = Sequences.of(k_lengths, longest=max(k_lengths) + room)
    added = noise(1, H, queries.longest, keys.longest) if bias else None
    return Problem(
        noise(sum(q_lengths), H, D), noise(sum(k_lengths), G, D), noise(sum(k_lengths), G, Dv),
        queries, keys, AttentionSpec(scale=1 / math.sqrt(D), bias=added, **how),
    )  # fmt: skip


@st.composite
def problems(draw):
    """Ragged texts that look at themselves, at a longer past, or across."""
    q_lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    kind = draw(st.sampled_from(["self", "past", "cross"]))
    if kind == "self":
        k_lengths = q_lengths
    elif kind == "past":
        k_lengths = [n + draw(st.integers(0, 3)) for n in q_lengths]
    else:
        k_lengths = [draw(st.integers(1, 7)) for _ in q_lengths]
    return problem(
        q_lengths,
        k_lengths,
        G=draw(st.sampled_from([1, 2, 3, 6])),
        Dv=draw(st.sampled_from([3, 5, 7])),
        seed=draw(st.integers(0, 99)),
        bias=draw(st.booleans()),
        room=draw(st.sampled_from([0, 2])),
        causal=kind != "cross" and draw(st.booleans()),
        window=None if kind == "cross" else draw(st.sampled_from([None, 1, 2])),
    )


def naive(p):
    """Text by text, head by head, query by query, key by key."""
    out = p.q.new_zeros(*p.q.shape[:2], p.v.shape[2])
    group, first_q, first_k = p.q.shape[1] // p.k.shape[1], 0, 0
    for T, S in zip(p.queries.lengths, p.keys.lengths, strict=True):
        for h in range(p.q.shape[1]):
            for i in range(T):
                scores = {}
                for j in range(S):
                    back = i + S - T - j
                    if p.spec.causal and back < 0:
                        continue
                    if p.spec.window is not None and abs(back) > p.spec.window:
                        continue
                    score = p.q[first_q + i, h].dot(p.k[first_k + j, h // group]) * p.spec.scale
                    scores[j] = math.exp(
                        score + (0 if p.spec.bias is None else p.spec.bias[0, h, i, j])
                    )
                for j, weight in scores.items():
                    value = p.v[first_k + j, h // group]
                    out[first_q + i, h] += weight / sum(scores.values()) * value
        first_q, first_k = first_q + T, first_k + S
    return out


@contextmanager
def padded():
    """As inside a compiled graph: the padded rectangle with a mask, never text by text."""
    with patch.object(torch.compiler, "is_compiling", lambda: True):
        yield


@PROFILE
@given(problems())
def test_fast_path_equals_the_double_loop(p):
    torch.testing.assert_close(p.solve(), naive(p))


@PROFILE
@given(problems())
def test_padded_path_equals_text_by_text(p):
    with padded():
        rectangle = p.solve()
    torch.testing.assert_close(rectangle, p.solve())


@PROFILE
@given(problems())
def test_open_path_equals_the_fast_one(p):
    watcher = Watcher()
    ctx = Look(visitor=watcher)
    torch.testing.assert_close(p.solve((torch.nn.Identity(), ctx)), p.solve())
    weights = watcher.seen["weights"]
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


@PROFILE
@given(problems())
def test_a_batch_gives_what_each_text_gives_alone(p):
    parts = []
    q, k, v = p.q.split(p.queries.lengths), p.k.split(p.keys.lengths), p.v.split(p.keys.lengths)
    for one in zip(q, k, v, strict=True):
        T, S = Sequences.of([len(one[0])]), Sequences.of([len(one[1])])
        bias = p.spec.bias if p.spec.bias is None else p.spec.bias[..., : T.longest, : S.longest]
        parts.append(Problem(*one, T, S, replace(p.spec, bias=bias)).solve())
    torch.testing.assert_close(p.solve(), torch.cat(parts))


@PROFILE
@given(problems(), st.integers(0, 4))
def test_empty_texts_change_nothing(p, place):
    """One among the others and one at the end."""
    at = min(place, p.queries.count)

    def wider(s):
        lengths = [*s.lengths[:at], 0, *s.lengths[at:], 0]
        return Sequences.of(lengths, longest=s.longest)

    q_texts = wider(p.queries)
    k_texts = q_texts if p.keys is p.queries else wider(p.keys)
    torch.testing.assert_close(replace(p, queries=q_texts, keys=k_texts).solve(), p.solve())


def test_the_double_loop_notices_a_wrong_answer():
    """Negative control: with the other mask the two must not agree."""
    p = problem([3, 5], [3, 5], causal=True)
    wrong = replace(p, spec=replace(p.spec, causal=False))
    assert (wrong.solve() - naive(p)).abs().max() > 0.1


CASES = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window": 2},
    "grouped": {"G": 2, "causal": True},
    "bias": {"bias": True, "causal": True},
    "37/100": {"Dv": 7},
    "rounded": {"room": 4},
}


@pytest.mark.parametrize("case", CASES)
def test_compiled_without_a_break_equals_eager(case):
    p = problem([7, 2, 3], [7, 2, 3], **CASES[case])
    torch.compiler.reset()
    compiled = torch.compile(attend, backend="eager", fullgraph=True)
    again = compiled(p.q, p.k, p.v, p.queries, p.keys, p.spec)
    torch.testing.assert_close(again, p.solve())


@pytest.mark.parametrize("path", ["fast", "padded"])
def test_bias_of_each_text_its_own(path):
    """A bias of shape (B, H, T, S), as relative positions behind a cache make it."""
    p = problem([5, 2], [5, 2], causal=True)
    bias = torch.randn(2, 6, 5, 5, generator=torch.Generator().manual_seed(1)).double()
    alone = [
        problem_of_text(p, 0, bias[:1]).solve(),
        problem_of_text(p, 1, bias[1:, :, :2, :2]).solve(),
    ]
    both = replace(p, spec=replace(p.spec, bias=bias))
    if path == "padded":
        with padded():
            mixed = both.solve()
    else:
        mixed = both.solve()
    torch.testing.assert_close(mixed, torch.cat(alone))


def problem_of_text(p, i, bias):
    q, k, v = (x.split(p.queries.lengths)[i] for x in (p.q, p.k, p.v))
    text = Sequences.of([len(q)])
    return Problem(q, k, v, text, text, replace(p.spec, bias=bias))


def test_visible_draws_the_pictures_of_its_docstring():
    causal = visible(4, 4, None, AttentionSpec(causal=True), torch.device("cpu"))
    window = visible(4, 4, None, AttentionSpec(window=1), torch.device("cpu"))
    assert ["".join("·■"[x] for x in row) for row in causal[0, 0].int().tolist()] == [
        "■···", "■■··", "■■■·", "■■■■",
    ]  # fmt: skip
    assert ["".join("·■"[x] for x in row) for row in window[0, 0].int().tolist()] == [
        "■■··", "■■■·", "·■■■", "··■■",
    ]  # fmt: skip


@pytest.mark.parametrize("case", ["plain", "causal", "window", "bias"])
@pytest.mark.parametrize("path", ["fast", "padded", "open"])
def test_empty_texts_give_no_nan_gradient(path, case):
    """Static shapes: empty texts at the end and room behind the longest."""
    how = CASES[case]
    texts = Sequences.of([5, 0, 3], texts=7, longest=11)
    p = replace(problem([5, 3], [5, 3], room=6, **how), queries=texts, keys=texts)
    leaves = [x.requires_grad_() for x in (p.q, p.k, p.v)]
    ctx = Look(visitor=Watcher())
    recorder = (torch.nn.Identity(), ctx) if path == "open" else None
    if path == "padded":
        with padded():
            mixed = p.solve()
    else:
        mixed = p.solve(recorder)
    mixed.square().sum().backward()
    assert all(torch.isfinite(leaf.grad).all() and leaf.grad.any() for leaf in leaves)
    torch.testing.assert_close(mixed, problem([5, 3], [5, 3], room=6, **how).solve())


@pytest.mark.parametrize("case", ["plain", "causal", "bias"])
def test_half_precision_learns_by_the_arithmetic_of_float32(case):
    """On a CPU the kernel's way back in half precision is slow: only what comes out is rounded."""
    p = problem([7, 2, 3], [7, 2, 3], **CASES[case])
    halves = [x.bfloat16() for x in (p.q, p.k, p.v)]
    bias = None if p.spec.bias is None else p.spec.bias.bfloat16()
    results = []
    for dtype in (torch.bfloat16, torch.float32):
        leaves = [x.detach().to(dtype).requires_grad_() for x in halves]
        how = replace(p.spec, bias=None if bias is None else bias.to(dtype))
        mixed = attend(*leaves, p.queries, p.keys, how)
        mixed.sum().backward()
        results.append([mixed, *(leaf.grad for leaf in leaves)])
    for half, whole in zip(*results, strict=True):
        assert half.dtype == torch.bfloat16
        assert torch.equal(half, whole.bfloat16())


TINY = {"vocab_size": 29, "width": 12, "depth": 2, "heads": 3, "mlp_width": 7, "max_length": 11}


def test_with_a_window_every_nth_layer_looks_everywhere():
    """Layers 0, 3, 6 … look everywhere; so does every layer that looks at another text."""
    config = ModelConfig(family="seq2seq", window=2, global_every=3, **TINY)
    windows = [Attention(config, layer=i).window for i in range(7)]
    assert windows == [None, 2, 2, None, 2, 2, None]
    assert Attention(config, layer=1, memory_width=config.width).window is None
    everywhere_windowed = ModelConfig(family="encoder", window=2, **TINY)
    assert [Attention(everywhere_windowed, layer=i).window for i in range(2)] == [2, 2]


def gradients(model, ids, weights, **shapes):
    model.zero_grad()
    batch = Batch.of(ids)
    batch = replace(batch, sequences=Sequences.of(batch.sequences.lengths, **shapes))
    (model(batch) * weights).sum().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("path", ["fast", "padded"])
@pytest.mark.parametrize("position", ["learned", "rotary", "relative"])
@pytest.mark.parametrize("family", ["encoder", "decoder"])
def test_gradients_of_a_batch_are_those_of_its_texts(family, position, path):
    """Also with empty texts appended and the longest length rounded up."""
    torch.manual_seed(5)
    config = ModelConfig(family=family, position=position, init_std=0.3, **TINY)
    model = build(config, dtype=torch.float64)
    texts = [[3, 1, 4, 1, 5], [9], [2, 6, 5]]
    weights = torch.randn(9, 12, dtype=torch.float64)
    alone = [gradients(model, [t], w) for t, w in zip(texts, weights.split([5, 1, 3]), strict=True)]
    if path == "padded":
        with padded():
            together = gradients(model, texts, weights, texts=5, longest=7)
    else:
        together = gradients(model, texts, weights, texts=5, longest=7)
    for whole, *parts in zip(together, *alone, strict=True):
        torch.testing.assert_close(whole, sum(parts))
