"""How the processes of a run share its model."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from glassformer.distributed import DistributedContext
from glassformer.fields import DistributedConfig

Mode = Literal["plain", "replicated", "sharded"]
BYTES = 16  # of a parameter in training: the weight, its gradient and AdamW's two averages
FIXED_BYTES = 6  # of one that an adapter leaves as it is: in float32, and in half precision
MOST_REPLICATED = 0.5  # of a GPU's memory; activations need the remainder


def parallel_mode(
    config: DistributedConfig, model: nn.Module, world: DistributedContext, *, adapted: bool
) -> Mode:
    """plain: one process. replicated: each process has all weights. sharded: each has a share."""
    if config.shard == "full":
        return "sharded"
    if world.size == 1:
        return "plain"
    shardable = config.shard == "auto" and world.device.type == "cuda"
    full = shardable and _is_large(model, world.device, FIXED_BYTES if adapted else BYTES)
    return "sharded" if int(world.sum(torch.tensor(int(full)))) else "replicated"


def _is_large(model: nn.Module, device: torch.device, size: int) -> bool:
    """Whether parameters of this many bytes each leave too little memory for activations."""
    memory = torch.cuda.get_device_properties(device).total_memory
    return size * sum(p.numel() for p in model.parameters()) > MOST_REPLICATED * memory
