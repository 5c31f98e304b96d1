"""How a model knows the order of words. Pure functions; tables are computed once, in float32."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from glassformer.config import RotaryScaling, Sinusoid


def sinusoid(length: int, width: int, layout: Sinusoid = "interleaved") -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)),  PE(pos, 2i+1) = cos of the same.   (length, width)

    Wavelengths run from 2π to 10000·2π. "interleaved" is the slide's order, sin cos sin cos …;
    "halves" holds the same numbers with all sines first, as Marian's checkpoints do; in
    "halves_inclusive" the last wavelength is 10000·2π itself, as in M2M100's.
    """
    position = torch.arange(length, dtype=torch.float64, device="cpu")
    last = max(1, width - 2) if layout == "halves_inclusive" else width
    slower = 10_000.0 ** (torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / last)
    angle = position[:, None] / slower
    waves = torch.stack if layout == "interleaved" else torch.cat
    return waves([angle.sin(), angle.cos()], dim=-1).reshape(length, width).float()


def rotation(length: int, width: int, base: float, scaling: RotaryScaling | None = None) -> Tensor:
    """cos and sin of each position's angle, for each pair of entries.   (2, length, width / 2)"""
    speed = 1.0 / base ** (torch.arange(0, width, 2, dtype=torch.float32, device="cpu") / width)
    if scaling is not None:
        speed = scaled(speed, scaling)
    angle = torch.arange(length, dtype=torch.float32, device="cpu")[:, None] * speed
    return torch.stack([angle.cos(), angle.sin()])


def scaled(speed: Tensor, scaling: RotaryScaling) -> Tensor:
    """Slower angles for longer texts: by `factor`, or only where they turn too seldom."""
    slow = speed / scaling.factor
    if scaling.original_length is None or scaling.low is None or scaling.high is None:
        return slow
    turns = scaling.original_length * speed / (2 * math.pi)  # in a text of the original length
    share = ((turns - scaling.low) / (scaling.high - scaling.low)).clamp(0, 1)
    return (1 - share) * slow + share * speed


def rotate(x: Tensor, turn: Tensor) -> Tensor:
    """Turn each pair (x_i, x_{i + R/2}) of the first R entries by its position's angle; R is
    mostly D.   (N, H, D), (2, N, R/2)

    The dot product of two turned vectors depends on how far apart they are, not on where.
    """
    cos, sin = turn.to(x.dtype)[:, :, None].unbind()  # (N, 1, R/2)
    half = cos.shape[-1]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)


def distance_rows(rows: int, furthest: int) -> Tensor:  # (2 · furthest + 1,)
    """The row of a table for each distance (query − key) from −furthest to furthest.

    Half of the rows hold one distance each; the others grow logarithmically.
    """
    near = rows // 4
    distance = torch.arange(-furthest, furthest + 1, device="cpu")
    most = torch.tensor((furthest - 1) / near, device="cpu").log()
    growth = (distance.abs().clamp(min=near) / near).log() / most * (near - 1)
    far = distance.sign() * (near + growth.ceil().long())
    row = torch.where(distance.abs() <= near, distance, far) + rows // 2
    return row.clamp(0, rows - 1)


def relative_bucket(distance: Tensor, *, both_sides: bool, buckets: int, furthest: int) -> Tensor:
    """The bucket of a distance (key − query): near distances have their own, far ones share one.

    Half of the buckets hold one distance each; the others grow logarithmically up to `furthest`.
    """
    if both_sides:
        buckets //= 2
        side = (distance > 0).long() * buckets
        distance = distance.abs()
    else:
        side = torch.zeros_like(distance)
        distance = (-distance).clamp(min=0)
    exact = buckets // 2
    growth = torch.log(distance.clamp(min=1).float() / exact) / math.log(furthest / exact)
    far = (exact + (growth * (buckets - exact)).long()).clamp(max=buckets - 1)
    return side + torch.where(distance < exact, distance, far)
