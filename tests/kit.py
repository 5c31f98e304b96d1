"""One assertion kit: a new architecture's test is data.

A `Case` names a class of transformers and a small config. `check_parity` gives it hot weights
(a fresh start of std 0.02 hides wrong positions and off-by-one windows), runs ragged texts of
odd lengths through both, and asks for the same numbers; `check_control` breaks one key of the
config and asks for different ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import glassformer as gf

LENGTHS = (7, 13, 1, 11)
TARGET_LENGTHS = (5, 1, 11, 3)
Given = dict[str, list[list[int]]]
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()


@dataclass(frozen=True)
class Case:
    name: str  # the class in transformers
    config: type[transformers.PretrainedConfig]
    sizes: dict[str, Any]
    width: int = 24
    double: float = 1e-9  # more where the reference itself falls back to float32
    end: int | None = None  # the token each text must end with; then no targets are given
    attention: str = "sdpa"  # of the reference, where only the other one is right
    untied: bool = False  # an output matrix of its own, where transformers ties it at first

    def __str__(self) -> str:
        return self.name

    def reference(self, attention: str, dtype: torch.dtype = torch.float32) -> Any:
        model = getattr(transformers, self.name)
        config = self.config(**self.sizes)
        config._attn_implementation = attention
        torch.manual_seed(1)
        built = model(config)
        if self.untied:
            built.lm_head.weight = torch.nn.Parameter(built.lm_head.weight.detach().clone())
            built.config.tie_word_embeddings = False
        return hot(built, self.width).to(dtype).eval()


def hot(model: torch.nn.Module, width: int) -> torch.nn.Module:
    """Weights as large as a trained model's, so that every mistake shows."""
    std = 0.3 if width <= 64 else 0.3 * math.sqrt(64 / width)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                norm = "norm" in name.lower() or ".ln_" in name
                centre = 1.0 if norm and name.endswith("weight") else 0.0
                parameter.normal_(std=std).add_(centre)
        for name, buffer in model.named_buffers():
            if name.endswith("final_logits_bias"):
                buffer.normal_(std=std)
    return model


def texts(lengths: tuple[int, ...], vocab: int, seed: int = 2) -> list[list[int]]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(3, vocab, (n,), generator=draw).tolist() for n in lengths]


def inputs(case: Case) -> Given:
    """Ragged texts, as our calls take them."""
    vocab = case.sizes["vocab_size"]
    found = {"ids": texts(LENGTHS, vocab)}
    if case.sizes.get("type_vocab_size", 0) > 1:
        found["segments"] = [[int(i > n // 2) for i in range(n)] for n in LENGTHS]
    if case.end is not None:
        found["ids"] = [[*each[:-1], case.end] for each in found["ids"]]
    elif "decoder" in case.sizes or any("decoder_layers" in name for name in case.sizes):
        found["targets"] = texts(TARGET_LENGTHS, vocab, seed=3)
    return found


def reference_answers(model: Any, given: Given) -> list[Tensor]:
    """The same texts padded, with masks; what it says, cut back to each text."""

    def padded(lists: list[list[int]]) -> Tensor:
        rows = [torch.tensor(each) for each in lists]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0)

    ids = padded(given["ids"])
    mask = padded([[1] * len(each) for each in given["ids"]])
    call = {"input_ids": ids, "attention_mask": mask}
    if "segments" in given:
        call["token_type_ids"] = padded(given["segments"])
    if "targets" in given:
        call["decoder_input_ids"] = padded(given["targets"])
    with torch.no_grad():
        out = model(**call)
    lengths = [len(each) for each in given.get("targets", given["ids"])]
    answer = _answer(out)
    if type(model).__name__ == "ElectraForPreTraining":  # one score a token
        answer = answer[..., None]
    if answer.dim() == 2:  # one row a text
        return list(answer)
    return [row[:n] for row, n in zip(answer, lengths, strict=True)]


def _answer(out: Any) -> Tensor:
    if "start_logits" in out:
        return torch.stack([out.start_logits, out.end_logits], -1)
    return next(out[k] for k in ("logits", "prediction_logits", "last_hidden_state") if k in out)


def our_answers(model: gf.Model, given: Given) -> list[Tensor]:
    call = model.hidden if model.task.spec.kind == "features" else model.logits
    with torch.no_grad():
        return call(given["ids"], **{k: v for k, v in given.items() if k != "ids"})


def difference(ours: list[Tensor], theirs: list[Tensor]) -> float:
    assert [a.shape for a in ours] == [b.shape for b in theirs]
    return max((a - b).abs().max().item() for a, b in zip(ours, theirs, strict=True))


def tolerance(case: Case, given: Given, theirs: list[Tensor]) -> float:
    """5e-5, or three times what its own two ways to attend differ by."""
    other = reference_answers(case.reference("eager"), given)
    return max(5e-5, 3 * difference(other, theirs))


def saved(case: Case, folder: Path, dtype: torch.dtype = torch.float32) -> tuple[Any, gf.Model]:
    reference = case.reference(case.attention, dtype)
    reference.save_pretrained(folder)
    return reference, gf.load(folder)


def check_parity(case: Case, folder: Path) -> None:
    """Batch, alone and open all say what the reference says."""
    model, given, theirs, limit = compared(case, folder)
    assert difference(our_answers(model, given), theirs) <= limit, "batch"
    assert difference(list(alone(model, given)), theirs) <= limit, "alone"
    assert difference(list(opened(model, given)), theirs) <= limit, "open"


def check_compiled(case: Case, folder: Path) -> None:
    model, given, theirs, limit = compared(case, folder)
    assert difference(compiled(model, given, "aot_eager"), theirs) <= limit


def compared(case: Case, folder: Path) -> tuple[gf.Model, Given, list[Tensor], float]:
    """A model, what it is asked, the reference's answers and how far off one may be."""
    reference, model = saved(case, folder)
    given = inputs(case)
    theirs = reference_answers(reference, given)
    return model, given, theirs, tolerance(case, given, theirs)


def check_double(case: Case, folder: Path) -> None:
    """In float64 nothing hides behind rounding.

    The reference reads each text alone: some of its softmaxes are in float32, where float64's mask
    of padding is −∞, and a row of padding that sees nothing else becomes NaN.
    """
    reference, model = saved(case, folder, torch.float64)
    given = inputs(case)
    theirs = [reference_answers(reference, one)[0] for one in one_by_one(given)]
    assert model.task.backbone.token_embedding.dtype == torch.float64
    assert difference(our_answers(model, given), theirs) <= case.double


def check_control(case: Case, control: dict[str, Any], folder: Path) -> None:
    """The parity test can fail: with one key of the config wrong, it must."""
    reference, _ = saved(case, folder)
    given = inputs(case)
    theirs = reference_answers(reference, given)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | control))
    with pytest.raises(AssertionError):
        assert difference(our_answers(gf.load(folder), given), theirs) <= tolerance(
            case, given, theirs
        )


def one_by_one(given: Given) -> Iterator[Given]:
    for i in range(len(given["ids"])):
        yield {name: [lists[i]] for name, lists in given.items()}


def alone(model: gf.Model, given: Given) -> Iterator[Tensor]:
    for one in one_by_one(given):
        yield our_answers(model, one)[0]


def opened(model: gf.Model, given: Given) -> Iterator[Tensor]:
    """Every text through the open arithmetic, with a visitor that keeps all there is."""
    from glassformer.glass import Recorder

    for one in one_by_one(given):
        batch = next(model.task.batches(one.pop("ids"), **one))
        recorder = Recorder(model)
        with torch.no_grad():
            logits = model(batch, visitor=recorder).logits
        assert any(name.endswith("attention.weights") for name in recorder.tensors)
        yield logits if model.task.per == "token" else logits[0]


def compiled(model: gf.Model, given: Given, backend: str) -> list[Tensor]:
    torch._dynamo.reset()
    call = torch.compile(model.task, backend=backend, fullgraph=True)
    batch = next(model.task.batches(**given))
    with torch.no_grad():
        logits = call(batch).logits
    if model.task.per == "text":
        return list(logits)
    return list(logits.split(batch.sequences.lengths))


def check_cache(case: Case, folder: Path) -> None:
    """A prompt at once, then one token at a time, then two: the same logits as without a cache."""
    reference, model = saved(case, folder)
    given = inputs(case)
    given["ids" if "targets" not in given else "targets"] = texts((9, 7, 8, 7), 101, seed=5)
    theirs = reference_answers(reference, given)
    limit = tolerance(case, given, theirs)
    assert difference(list(stepped(model, given)), theirs) <= limit


def stepped(model: gf.Model, given: Given) -> list[Tensor]:
    writing = given.get("targets", given["ids"])
    source = gf.Batch.of(given["ids"]) if "targets" in given else None
    cache = gf.Cache(
        model.task.backbone.config, len(writing), max(map(len, writing)), memory_capacity=16
    )
    parts: list[list[Tensor]] = [[] for _ in writing]
    done = [0] * len(writing)
    whole = [len(each) for each in writing]
    for ends in ([3, 1, 2, 1], [4, 2, 3, 2], [6, 4, 5, 4], whole):
        step = [w[d:e] for w, d, e in zip(writing, done, ends, strict=True)]
        batch = gf.Batch.of(step, source=source)
        with torch.no_grad():
            logits = model(batch, cache=cache).logits
        for part, row in zip(parts, logits.split(batch.sequences.lengths), strict=True):
            part.append(row)
        done, source = ends, None
    return [torch.cat(part) for part in parts]
