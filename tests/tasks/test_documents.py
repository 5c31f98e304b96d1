"""Attention over the words and sentences of documents: as a plain loop, alone or together."""

import pytest
import torch
from torch import Tensor

from glassformer import ModelConfig, TaskConfig, build_task
from glassformer.glass import Recorder
from glassformer.model import Batch, Sequences
from glassformer.tasks import Important, Task

C = 7
DOCUMENTS = ([[5, 2, 3], [11]], [[1, 2, 3, 4, 5]], [[2, 2], [3, 7, 12, 1], [9]])  # of sentences
POOLS = ("words", "hierarchy")


def flat(documents: object) -> tuple[list[list[int]], list[int]]:
    lists = list(documents)  # type: ignore[call-overload]
    return [text for each in lists for text in each], [len(each) for each in lists]


def build(pool: str, **changes: object) -> Task:
    torch.manual_seed(5)
    sizes = {"vocab_size": 13, "width": C, "depth": 0, "heads": 1, "mlp_width": 3, "max_length": 11}
    fields = {"family": "encoder", "position": "none", "final_norm": False, **sizes, **changes}
    task = TaskConfig(kind="classification", labels=("no", "yes"), pool=pool)  # type: ignore[arg-type]
    model = build_task(ModelConfig(**fields), task, dtype=torch.float64).eval()  # type: ignore[arg-type]
    for each in model.parameters():
        each.data.normal_(std=0.6)
    return model


def mixed(vectors: list[Tensor], v: Tensor) -> Tensor:
    """Σ a_i x_i, one after the other."""
    scores = [sum(float(a) * float(b) for a, b in zip(x, v, strict=True)) for x in vectors]
    top = max(scores)
    weights = [torch.tensor(s - top, dtype=torch.float64).exp() for s in scores]
    total = sum(weights)
    return torch.stack([w / total * x for w, x in zip(weights, vectors, strict=True)]).sum(0)


def by_hand(task: Task, document: list[list[int]]) -> Tensor:
    important, table = task.important, task.backbone.token_embedding
    assert isinstance(important, Important)
    v = important.words.vectors[0]
    if important.sentences is None:
        vector = mixed([table[i] for text in document for i in text], v)
    else:
        sentences = [mixed([table[i] for i in text], v) for text in document]
        mapped = [torch.tanh(important.map.weight @ s + important.map.bias) for s in sentences]
        vector = mixed(mapped, important.sentences.vectors[0])
    linear = task.labels.linear  # type: ignore[union-attr]
    return linear.weight @ vector + linear.bias  # type: ignore[union-attr,operator]


@pytest.mark.parametrize("pool", POOLS)
@torch.no_grad()
def test_it_is_the_plain_loop(pool: str) -> None:
    task = build(pool)
    ids, counts = flat(DOCUMENTS)
    for logits, document in zip(task.logits(ids, documents=counts), DOCUMENTS, strict=True):
        torch.testing.assert_close(logits, by_hand(task, document))


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("depth", [0, 2])
@torch.no_grad()
def test_together_is_as_alone(pool: str, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    task = build(pool, depth=depth, position="learned" if depth else "none")
    ids, counts = flat(DOCUMENTS)
    together = task.logits(ids, documents=counts)
    alone = [task.logits(each, documents=[len(each)])[0] for each in DOCUMENTS]
    torch.testing.assert_close(together, alone)
    monkeypatch.setattr("glassformer.tasks.base.ROW", {"cpu": 8})  # several rows
    assert len(list(task.batches(ids, documents=counts))) > 1
    torch.testing.assert_close(task.logits(ids, documents=counts), together)
    wrong = task.logits(ids, documents=[1, 2, 3])  # other documents give other answers
    assert not torch.allclose(torch.stack(wrong), torch.stack(together))


@torch.no_grad()
def test_where_sentences_end_matters_to_the_hierarchy_alone() -> None:
    one, other = [[1, 2, 3], [4, 5]], [[1, 2], [3, 4, 5]]
    for pool, same in (("words", True), ("hierarchy", False)):
        task = build(pool)
        logits = [task.logits(each, documents=[2])[0] for each in (one, other)]
        assert torch.allclose(*logits) == same


def test_texts_without_documents_are_documents_each() -> None:
    task = build("hierarchy")
    ids, _ = flat(DOCUMENTS)
    torch.testing.assert_close(task.logits(ids), task.logits(ids, documents=[1] * len(ids)))


@torch.no_grad()
def test_the_weights_are_seen_and_can_be_changed() -> None:
    task = build("hierarchy")
    ids, counts = flat(DOCUMENTS[2:])
    batch = Batch.of(ids)
    batch = Batch(batch.tokens, batch.sequences, documents=Sequences.of(counts))
    seen = Recorder(task, "important.*.weights")
    task(batch, visitor=seen)
    words, sentences = (seen.tensors[f"important.{x}.weights"] for x in ("words", "sentences"))
    assert words.shape == (7, 1) and sentences.shape == (3, 1)
    for text in words.split([2, 4, 1]):
        assert text.sum().item() == pytest.approx(1.0)
    assert sentences.sum().item() == pytest.approx(1.0)
    second = torch.tensor([[0.0], [1.0], [0.0]], dtype=torch.float64)
    edited = Recorder(task, "*", {"important.sentences.weights": second})
    only = task(batch, visitor=edited).logits[0]
    torch.testing.assert_close(only, task.logits(ids[1:2])[0])
