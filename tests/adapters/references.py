"""Adapters made by PEFT on small models with hot weights: what ours are compared with."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import glassformer as gf
import kit


@dataclass(frozen=True)
class AdapterCase:
    """A model of tests/parity, and the options of PEFT's LoraConfig."""

    module: str
    targets: list[str] | str
    number: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join([self.model.name, *self.options])

    @property
    def model(self) -> kit.Case:
        cases: list[kit.Case] = importlib.import_module(f"parity.{self.module}").CASES
        return cases[self.number]

    def adapted(self, base: Path, seed: int = 5) -> Any:
        """PEFT's model with random weights in both matrices; its base is saved in `base`."""
        import peft  # slow, and not every test needs it

        reference = self.model.reference(self.model.attention)
        reference.save_pretrained(base)
        torch.manual_seed(seed)
        config = peft.LoraConfig(
            r=5, lora_alpha=11, target_modules=self.targets, init_lora_weights=False, **self.options
        )
        model = peft.get_peft_model(reference, config).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_magnitude" in name:
                    parameter.mul_(1 + 0.3 * torch.rand_like(parameter))
                elif "modules_to_save" in name:
                    parameter.normal_(std=0.3)
        return model


CONV = {"fan_in_fan_out": True}
# The six of the promise first, then maps that checkpoints store as one, and other numbers.
CASES = [
    AdapterCase("bert", ["query", "value", "dense"]),
    AdapterCase("roberta", ["query", "value"]),
    AdapterCase("gpt2", ["c_attn", "c_proj", "c_fc"], options=CONV),
    AdapterCase("llama", ["q_proj", "v_proj", "down_proj"]),
    AdapterCase("t5", ["q", "v", "wo"]),
    AdapterCase("bart", ["q_proj", "v_proj", "fc1"]),
    AdapterCase("phi3", ["qkv_proj", "gate_up_proj"]),
    AdapterCase("gpt_neox", ["query_key_value"]),
    AdapterCase("modernbert", ["Wqkv", "Wi"]),
    AdapterCase("albert", ["query", "ffn"]),
    AdapterCase("deberta", ["query_proj", "key_proj"]),
    AdapterCase("marian", "all-linear"),
    AdapterCase("gpt2", ["c_attn", "c_proj"], options={**CONV, "use_dora": True}),
    AdapterCase("llama", ["q_proj", "v_proj"], options={"use_dora": True, "use_rslora": True}),
    AdapterCase(
        "llama",
        ["q_proj", "v_proj"],
        options={"rank_pattern": {"layers.1.self_attn.q_proj": 3}, "alpha_pattern": {"v_proj": 7}},
    ),
]


def answers(model: Any, case: AdapterCase) -> list[Tensor]:
    """Of PEFT's model, or of ours."""
    inputs = kit.inputs(case.model)
    if isinstance(model, gf.Model):
        return kit.our_answers(model, inputs)
    return kit.reference_answers(model.base_model.model, inputs)
