"""On a GPU: captured and compiled steps give the logits of steps that are computed anew."""

import pytest
import torch

import glassformer as gf
from glassformer.config import ModelConfig, TaskConfig
from glassformer.errors import InputError
from glassformer.generate.engine import Engine
from glassformer.generate.processors import largest
from glassformer.tasks import Task, build_task

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
    """A visitor who looks at nothing: with one, no step is captured."""

    def wants(self, module, name):
        return False

    def visit(self, module, name, value):
        return value


def hot_task(name: str) -> Task:
    torch.manual_seed(0)
    config = ModelConfig(**SIZES, **MODELS[name])
    kind = "translation" if config.family == "seq2seq" else "causal_lm"
    task = build_task(config, TaskConfig(kind=kind))
    for parameter in task.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return task.eval()


@pytest.mark.parametrize("name", MODELS)
def test_the_same_from_a_graph(name: str) -> None:
    task = hot_task(name).to("cuda", torch.bfloat16)
    reads = task.backbone.config.family == "seq2seq"
    room = {"slots": 5, "capacity": 290, "memory_capacity": 8}
    captured, plain = Engine(task, **room), Engine(task, **room, visitor=Nobody())
    assert captured.uses_cuda_graphs
    assert not plain.uses_cuda_graphs
    logits = [
        engine.read(PROMPTS, sources=SOURCES if reads else None) for engine in (captured, plain)
    ]
    for step in range(270):  # over several captured lengths
        tokens = logits[1].argmax(-1)
        logits = [engine.step(tokens) for engine in (captured, plain)]
        torch.testing.assert_close(*logits, rtol=0, atol=1e-2 * float(logits[1].std()))
        if step in (50, 130):  # one leaves, another one joins
            for engine in (captured, plain):
                engine.leave(2)
                engine.read([[5, 6, 7]], [2], sources=[[8, 8]] if reads else None)


@pytest.mark.parametrize("texts", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_compiled_steps_are_the_steps(name: str, texts: int) -> None:
    task = hot_task(name).to("cuda", torch.bfloat16)
    exact = hot_task(name).double()
    reads = task.backbone.config.family == "seq2seq"
    room = {"slots": texts, "capacity": 90, "memory_capacity": 8}
    engines = [Engine(task, **room, compiled=True), Engine(task, **room, visitor=Nobody())]
    engines.append(Engine(exact, **room))
    sources = SOURCES[:texts] if reads else None
    logits = [engine.read(PROMPTS[:texts], sources=sources).cpu() for engine in engines]
    for _ in range(70):  # over two lengths
        tokens = logits[2].argmax(-1)
        logits = [engine.step(tokens.to(engine.device)).cpu() for engine in engines]
        compiled, plain = ((each - logits[2]).norm() / logits[2].norm() for each in logits[:2])
        assert compiled < max(1.5 * plain, 2e-2)


def test_changed_weights_need_a_new_compiled_engine() -> None:
    model = gf.Model(hot_task("decoder").to("cuda", torch.bfloat16))
    engine = model.engine(1, 20, compiled=True)
    model.generate([[3, 1]], engine=engine, max_new_tokens=2)
    with torch.no_grad():
        next(model.task.parameters()).mul_(2)
    with pytest.raises(InputError, match="weights have changed or moved"):
        model.generate([[3, 1]], engine=engine, max_new_tokens=2)


@pytest.mark.parametrize(("rows", "columns"), [(1, 50_257), (64, 50_257), (3, 7), (5, 4096)])
def test_the_first_of_the_largest(rows: int, columns: int) -> None:
    scores = torch.randn(rows, columns).to(torch.bfloat16).float()  # with many ties
    scores[0, columns // 2 :] = -torch.inf
    best, place = largest(scores.cuda(), 1)
    assert torch.equal(best.cpu(), scores.amax(-1, keepdim=True))
    first = (scores == best.cpu()).int().argmax(-1, keepdim=True)
    assert torch.equal(place.cpu(), first)
