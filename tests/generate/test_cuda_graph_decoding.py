"""On a GPU: a step that is played from tape says what the same step said when it was computed."""

import pytest
import torch

from glassformer.config import ModelConfig, TaskConfig
from glassformer.generate.engine import Engine
from glassformer.tasks import build_task

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

V = 531
SIZES = {"vocab_size": V, "width": 64, "depth": 3, "heads": 4, "mlp_width": 96, "max_length": 300}
PROMPTS = [[3, 1, 4, 1, 5], [9, 2], [6, 5, 3, 5, 8, 9, 7], [9], [11, 12]]
SOURCES = [[7, 3, 2], [5, 5, 5, 11, 13], [2, 19], [23, 29, 31, 37], [41]]
MODELS = {
    "decoder": {"family": "decoder"},
    "rotary": {"family": "decoder", "position": "rotary", "norm": "rms", "key_heads": 2},
    "seq2seq": {"family": "seq2seq", "position": "relative"},
}


class Nobody:
    """A visitor who looks at nothing: with one, no step is taken from tape."""

    def wants(self, module, name):
        return False

    def visit(self, module, name, value):
        return value


@pytest.mark.parametrize("name", MODELS)
def test_the_same_from_tape(name: str) -> None:
    torch.manual_seed(0)
    config = ModelConfig(**SIZES, **MODELS[name])
    reads = config.family == "seq2seq"
    task = build_task(config, TaskConfig(kind="translation" if reads else "causal_lm"))
    for parameter in task.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    task = task.to("cuda", torch.bfloat16).eval()
    room = {"slots": 5, "capacity": 290, "memory_capacity": 8}
    taped, plain = Engine(task, **room), Engine(task, **room, visitor=Nobody())
    assert taped.uses_cuda_graphs
    assert not plain.uses_cuda_graphs
    said = [engine.read(PROMPTS, sources=SOURCES if reads else None) for engine in (taped, plain)]
    for step in range(270):  # over several lengths of tape
        tokens = said[1].argmax(-1)
        said = [engine.step(tokens) for engine in (taped, plain)]
        torch.testing.assert_close(*said, rtol=0, atol=1e-2 * float(said[1].std()))
        if step in (50, 130):  # one leaves, another one joins
            for engine in (taped, plain):
                engine.leave(2)
                engine.read([[5, 6, 7]], [2], sources=[[8, 8]] if reads else None)
