"""One engine: a running batch says what each text alone would say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from glassformer.config import ModelConfig, TaskConfig
from glassformer.errors import InputError
from glassformer.generate.engine import Engine
from glassformer.tasks import Task, build_task

V = 53
SIZES = {"vocab_size": V, "width": 28, "depth": 3, "heads": 7, "mlp_width": 37, "max_length": 41}
PROMPTS = [[3, 1, 4, 1, 5], [9, 2], [6, 5, 3, 5, 8, 9, 7], [9]]
SOURCES = [[7, 3, 2], [5, 5, 5, 11, 13], [2, 19], [23, 29, 31, 37]]


def hot(family: str, **more: object) -> Task:
    """Fresh weights nearly say nothing: these do."""
    kind = "translation" if family == "seq2seq" else "causal_lm"
    config = ModelConfig(family=family, **SIZES, **more)  # type: ignore[arg-type]
    task = build_task(config, TaskConfig(kind=kind)).double().eval()
    torch.manual_seed(0)
    for parameter in task.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return task


MODELS = {
    "decoder": hot("decoder"),
    "rotary": hot("decoder", position="rotary", key_heads=7, norm="rms"),
    "seq2seq": hot("seq2seq", position="relative"),
}


@pytest.fixture(params=MODELS)
def task(request: pytest.FixtureRequest) -> Task:
    return MODELS[request.param]


def sources(task: Task, which: list[int]) -> list[list[int]] | None:
    return [SOURCES[i] for i in which] if task.backbone.config.family == "seq2seq" else None


def whole(task: Task, text: list[int], number: int) -> Tensor:
    """The model on the whole text, nothing remembered."""
    given = sources(task, [number])
    ids, targets = ([text], None) if given is None else (given, [text])
    with torch.no_grad():
        return task.logits(ids, targets=targets)[0][-1].float()


def check(task: Task, texts: dict[int, list[int]], logits: Tensor, slots: dict[int, int]) -> None:
    for number, text in texts.items():
        torch.testing.assert_close(logits[slots[number]], whole(task, text, number))


def test_a_batch_says_what_each_text_alone_says(task: Task) -> None:
    engine = Engine(task, slots=4, capacity=20, memory_capacity=5)
    texts = {i: list(prompt) for i, prompt in enumerate(PROMPTS)}
    logits = engine.read(PROMPTS, sources=sources(task, [0, 1, 2, 3]))
    for step in range(6):
        check(task, texts, logits, {i: i for i in range(4)})
        tokens = torch.tensor([(7 * step + 3 * i) % V for i in range(4)])
        for i, token in enumerate(tokens.tolist()):
            texts[i].append(token)
        logits = engine.step(tokens)


def test_one_that_joins_later_says_the_same_and_disturbs_nobody(task: Task) -> None:
    engine = Engine(task, slots=3, capacity=20, memory_capacity=5)
    texts = {0: list(PROMPTS[0]), 1: list(PROMPTS[1])}
    engine.read([PROMPTS[0], PROMPTS[1]], [2, 0], sources=sources(task, [0, 1]))
    slots = {0: 2, 1: 0}
    for step in range(8):
        if step == 2:
            engine.read([PROMPTS[3]], [1], sources=sources(task, [3]))
            texts[3], slots[3] = list(PROMPTS[3]), 1
        if step == 4:  # one leaves, another takes its slot
            engine.leave(slots.pop(0))
            del texts[0]
            engine.read([PROMPTS[2]], [2], sources=sources(task, [2]))
            texts[2], slots[2] = list(PROMPTS[2]), 2
        tokens = torch.zeros(3, dtype=torch.long)
        for number, text in texts.items():
            token = (5 * step + number) % V
            tokens[slots[number]] = token
            text.append(token)
        check(task, texts, engine.step(tokens), slots)


def test_a_free_slot_steps_along_for_ever(task: Task) -> None:
    engine = Engine(task, slots=2, capacity=6, memory_capacity=5)
    for _ in range(3):
        logits = engine.read([PROMPTS[1]], [0], sources=sources(task, [1]))
        text = list(PROMPTS[1])
        for _ in range(4):
            text.append(11)
            logits = engine.step(torch.tensor([11, 12]))
        torch.testing.assert_close(logits[0], whole(task, text, 1))
        engine.leave(0)


def work(task: Task, lengths: list[int]) -> int:
    """Multiplications and additions of one step, these many tokens in the cache."""
    engine = Engine(task, slots=len(lengths), capacity=41, memory_capacity=9)
    engine.read([[1] * length for length in lengths], sources=sources(task, [0] * len(lengths)))
    with FlopCounterMode(display=False) as counted, sdpa_kernel(SDPBackend.MATH):
        engine.step(torch.ones(len(lengths), dtype=torch.long))
    return counted.get_total_flops()


def test_the_work_of_a_step_grows_with_the_cache_and_in_any_order_it_is_the_same(
    task: Task,
) -> None:
    five, ten, twenty, forty = (work(task, [length] * 3) for length in (5, 10, 20, 40))
    assert forty - twenty == 2 * (twenty - ten) == 4 * (ten - five) > 0
    assert work(task, [5, 20, 10]) == work(task, [20, 10, 5]) == work(task, [5, 10, 20]) <= twenty


def test_a_free_slot_looks_at_something() -> None:
    """The first token of an empty source, not at nothing: some kernels make NaN of that."""
    task = MODELS["seq2seq"]
    engine = Engine(task, slots=3, capacity=20, memory_capacity=9)
    engine.read([PROMPTS[1]], [1], sources=[SOURCES[1]])
    assert engine.cache.memory is not None
    assert engine.cache.memory.sizes.tolist() == [1, len(SOURCES[1]), 1]
    assert engine.step(torch.tensor([1, 2, 3])).isfinite().all()


@pytest.fixture
def poisoned() -> Iterator[None]:
    """Memory that nobody has written holds NaN: whoever reads it is found out."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_beams_fork_and_texts_leave(task: Task, poisoned: None) -> None:
    engine = Engine(task, slots=6, capacity=20, memory_capacity=5, beams=3)
    read = engine.read(PROMPTS[:2], sources=sources(task, [0, 1]))
    texts = [list(PROMPTS[i // 3]) for i in range(6)]
    check(task, {0: texts[0], 1: texts[3]}, read, {0: 0, 1: 1})
    orders = [[0, 0, 1, 3, 5, 5], [2, 1, 0, 4, 4, 3], [3, 5, 4]]  # at last the first text leaves
    gone = 0
    for step, order in enumerate(orders):
        tokens = torch.tensor([(11 * step + 5 * i) % V for i in range(len(texts))])
        texts = [[*text, token] for text, token in zip(texts, tokens.tolist(), strict=True)]
        logits = engine.step(tokens)
        engine.select(torch.tensor(order))
        gone += len(texts) // 3 - len(order) // 3
        texts, logits = [texts[i] for i in order], logits[torch.tensor(order)]
        for slot, text in enumerate(texts):
            number = slot // 3 + gone
            torch.testing.assert_close(logits[slot], whole(task, text, number))
    tokens = torch.tensor([1, 2, 3])
    logits = engine.step(tokens)
    for slot, text in enumerate(texts):
        torch.testing.assert_close(logits[slot], whole(task, [*text, slot + 1], 1))


def test_select_right_after_reading(task: Task) -> None:
    engine = Engine(task, slots=2, capacity=20, memory_capacity=5)
    engine.read(PROMPTS[:2], sources=sources(task, [0, 1]))
    engine.select(torch.tensor([1, 0]))
    logits = engine.step(torch.tensor([4, 4]))
    check(task, {0: [*PROMPTS[0], 4], 1: [*PROMPTS[1], 4]}, logits, {0: 1, 1: 0})


def test_there_is_no_room() -> None:
    engine = Engine(MODELS["decoder"], slots=1, capacity=3)
    with pytest.raises(InputError, match="at most 3"):
        engine.read([[1, 2, 3, 4]])
    with pytest.raises(InputError, match="at least one"):
        engine.read([[]])
    engine.read([[1, 2, 3]])
    with pytest.raises(InputError, match="room for 3 tokens per text and 4 are needed"):
        engine.step(torch.tensor([1]))
