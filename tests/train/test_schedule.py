"""The learning rate's share, against closed forms."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.train.optim.schedule import share

KINDS = ("constant", "linear", "cosine", "wsd", "inverse_sqrt")
PART = st.floats(0, 1)


@st.composite
def plans(draw: Any) -> dict[str, Any]:
    steps = draw(st.integers(1, 400))
    return {
        "steps": steps,
        "warmup": draw(st.integers(0, steps + 3)),
        "decay": draw(PART),
        "final": draw(PART),
    }


@given(st.sampled_from(KINDS), plans())
def test_every_share_is_a_share(kind: str, plan: dict[str, Any]) -> None:
    shares = [share(kind, step, **plan) for step in range(plan["steps"] + 3)]
    assert all(0 <= each <= 1 + 1e-12 for each in shares)
    after = shares[plan["warmup"] :]
    assert all(a >= b - 1e-12 for a, b in pairwise(after)), "it goes up again"


@given(st.sampled_from(KINDS), plans())
def test_the_warm_up_is_a_straight_line_to_the_peak(kind: str, plan: dict[str, Any]) -> None:
    warmup = plan["warmup"]
    for step in range(warmup):
        assert share(kind, step, **plan) == pytest.approx((step + 1) / warmup)


@given(plans())
def test_the_end_is_the_final_share(plan: dict[str, Any]) -> None:
    last, warmup, final = plan["steps"] - 1, plan["warmup"], plan["final"]
    if last <= warmup:
        return
    for kind in ("linear", "cosine"):
        assert share(kind, last, **plan) == pytest.approx(final)
        assert share(kind, last + 9, **plan) == pytest.approx(final)
    stable = share("wsd", last, **plan)
    assert stable == pytest.approx(final if plan["decay"] > 0 else 1.0)
    assert share("constant", last, **plan) == 1.0


@given(plans(), st.integers(0, 400))
def test_closed_forms(plan: dict[str, Any], step: int) -> None:
    steps, warmup, decay, final = plan["steps"], plan["warmup"], plan["decay"], plan["final"]
    if not warmup <= step < steps or steps - 1 == warmup:
        return
    done = (step - warmup) / (steps - 1 - warmup)
    assert share("linear", step, **plan) == pytest.approx(1 + done * (final - 1))
    cosine = final + (1 - final) * math.cos(math.pi * done / 2) ** 2
    assert share("cosine", step, **plan) == pytest.approx(cosine, abs=1e-12)
    if decay and done <= 1 - decay:
        assert share("wsd", step, **plan) == pytest.approx(1.0)
    root = math.sqrt(max(1, warmup) / (step + 1))
    assert share("inverse_sqrt", step, **plan) == pytest.approx(root)
