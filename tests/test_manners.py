"""What a caller may give to the Python calls, and what they answer."""

from __future__ import annotations

import copy
import doctest
import inspect
import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
import torch

import glassformer as gf
from folders import one_line
from glassformer.adapters import new_adapter, write_adapter
from glassformer.errors import GlassformerError
from glassformer.fields import AdapterConfig
from glassformer.generate.settings import GenerationOptions, Settings
from glassformer.glass.figures import FIGURES
from glassformer.glass.tables import TABLES
from glassformer.glass.trace import FigureName, FigureOptions, TableName, TableOptions, ViewOptions
from glassformer.tasks import Output
from sampling import every_nth, mostly_slow
from tiny import write_recipe

TEXTS = ["The cat sat.", "A dog [MASK] home."]


class Series:
    """As pandas' and polars' columns are, for those who only look at the surface."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def to_list(self) -> list[Any]:
        return list(self.values)


class Frame:
    columns = ("text", "label")


def _with_head(encoder: gf.Model, **task: Any) -> gf.Model:
    small = encoder.config.model_copy(update={"depth": 1})
    return gf.Model(gf.build_task(small, gf.TaskConfig(**task)), encoder.tokenizer).eval()


@pytest.fixture(scope="module")
def models() -> dict[str, gf.Model]:
    encoder = gf.load("gf-encoder")
    return {
        "encoder": encoder,
        "decoder": gf.load("gf-decoder"),
        "translator": gf.load("gf-en-ru"),
        "classifier": _with_head(
            encoder, kind="classification", labels=("bad", "good"), pooler="tanh"
        ),
        "reranker": _with_head(encoder, kind="classification", labels=("score",), pooler="tanh"),
        "tagger": _with_head(encoder, kind="token_classification", labels=("O", "B-PER")),
        "reader": _with_head(encoder, kind="question_answering"),
    }


@pytest.fixture(scope="module")
def trace(models: dict[str, gf.Model]) -> gf.Trace:
    return gf.record(models["encoder"], "The cat sat.")


CONTAINERS = {
    "a list": list,
    "a generator": lambda texts: (text for text in texts),
    "an array": np.array,
    "numpy's strings": lambda texts: [np.str_(text) for text in texts],
    "a series": Series,
    "a dict's keys": lambda texts: dict.fromkeys(texts).keys(),
}
MASKED = ["The cat [MASK].", "A dog [MASK] home."]


@pytest.mark.parametrize("container", every_nth(CONTAINERS, 2))
def test_every_call_takes_texts_from_anywhere(container: str, models: dict[str, gf.Model]) -> None:
    hold, tokenizer = CONTAINERS[container], models["encoder"].tokenizer
    assert torch.equal(models["encoder"].embed(hold(TEXTS)), models["encoder"].embed(TEXTS))
    assert models["encoder"].similarity(hold(TEXTS), hold(TEXTS[:1])).shape == (2, 1)
    for name, call, texts in (
        ("encoder", "fill", MASKED), ("classifier", "classify", TEXTS), ("tagger", "tag", TEXTS),
        ("decoder", "generate", TEXTS), ("translator", "translate", TEXTS),
    ):  # fmt: skip
        short = {"max_new_tokens": 3} if call == "generate" else {}
        assert getattr(models[name], call)(hold(texts), **short) == getattr(models[name], call)(
            list(texts), **short
        )
    assert len(models["encoder"].follows(hold(TEXTS), hold(MASKED))) == 2
    assert len(models["reader"].answer(hold(TEXTS), hold(MASKED))) == 2
    assert tokenizer(hold(TEXTS)) == [tokenizer.encode(text) for text in TEXTS]


def test_one_text_is_as_good_as_a_list_of_one(models: dict[str, gf.Model]) -> None:
    encoder, text = models["encoder"], np.str_("The cat [MASK].")
    assert torch.equal(encoder.embed(text), encoder.embed([str(text)]))
    assert [encoder.fill(text)] == encoder.fill([text])
    assert [encoder.follows(text, text)] == encoder.follows([text], [text])
    assert [models["tagger"].tag(text)] == models["tagger"].tag([text])
    assert models["tagger"].tag([["The", "cat"]]) == [models["tagger"].tag("The cat")]
    assert [models["reader"].answer(text, text)] == models["reader"].answer([text], [text])
    assert encoder.tokenizer(text) == encoder.tokenizer([text])[0]
    assert torch.equal(encoder.word(text, np.str_("cat")), encoder.word(str(text), "cat"))
    assert models["classifier"].classify(("a", "b")) == models["classifier"].classify([("a", "b")])
    assert gf.record(encoder, text, keep="*.out").tokens == encoder.tokenizer(text).tokens


def test_token_ids_may_be_tensors_and_arrays(models: dict[str, gf.Model]) -> None:
    ids, decoder = [[5, 6, 7], [8, 9, 10]], models["decoder"]
    with torch.no_grad():
        expected = decoder.logits(ids)
        for given in (torch.tensor(ids), np.array(ids), map(torch.tensor, ids), iter(ids)):
            assert all(map(torch.equal, decoder.logits(given), expected))
    texts = decoder.generate(ids, max_new_tokens=2)
    assert decoder.generate(torch.tensor(ids), max_new_tokens=2) == texts
    assert decoder.generate(np.array(ids[0]), max_new_tokens=2) == texts[:1]
    assert gf.record(decoder, np.array(ids[0]), keep="*.out").tokens


def test_embed_has_the_usual_options(
    models: dict[str, gf.Model], capsys: pytest.CaptureFixture[str]
) -> None:
    encoder, texts = models["encoder"], ["a", "b c", "d e f", "g", "h"]
    whole = encoder.embed(texts)
    sizes: list[int] = []
    forward = encoder.task.backbone.forward

    def counted(batch: gf.Batch, **options: Any) -> Any:
        sizes.append(batch.sequences.count)
        return forward(batch, **options)

    encoder.task.backbone.forward = counted
    try:
        torch.testing.assert_close(encoder.embed(texts, batch_size=2), whole)
    finally:
        del encoder.task.backbone.forward
    assert sizes == [2, 2, 1]
    unit = encoder.embed(texts, normalize=True)
    torch.testing.assert_close(unit.norm(dim=-1), torch.ones(5))
    assert not torch.allclose(whole.norm(dim=-1), torch.ones(5))
    array = encoder.embed(texts, to_numpy=True)
    assert isinstance(array, np.ndarray) and array.shape == (5, 256)
    torch.testing.assert_close(encoder.similarity(array, whole).diag(), torch.ones(5))
    assert capsys.readouterr().err == ""
    encoder.embed(texts, progress=True)
    shown = capsys.readouterr()
    assert "5/5" in shown.err and shown.out == ""


WRONG: dict[str, tuple[Any, tuple[str, ...]]] = {
    "a list as a batch": (lambda m, t: m([[1, 2]]), ("gf.Batch.of", "model.logits", "model.fill")),
    "texts as a batch": (lambda m, t: m("a cat"), ("gf.Batch.of", "model.embed")),
    "a tensor by its number": (lambda m, t: t[0], ("trace[0]", "names", "encoder.embedding")),
    "heads by name": (lambda m, t: gf.ablate("all"), ("'all'", "ablate(0, 1)")),
    "no such dtype": (lambda m, t: gf.load("gf-encoder", dtype="int3"), ("'int3'", "float32")),
    "a dtype of integers": (lambda m, t: gf.load("gf-encoder", dtype=torch.int8), ("bfloat16",)),
    "no such device": (lambda m, t: gf.load("gf-encoder", device="gpu"), ("'gpu'", "cpu")),
    "no folder": (lambda m, t: gf.load(None), ("None", "folder")),
    "record of a name": (lambda m, t: gf.record("gf-encoder", "a"), ("gf.load",)),
    "a table": (lambda m, t: m.embed(Frame()), ("embed", "'text', 'label'")),
    "a dict": (lambda m, t: m.classify({"text": "a"}), ("classify", "a list of texts")),
    "a number": (lambda m, t: m.embed(5), ("embed", "5")),
    "a gap": (lambda m, t: m.embed(Series(["a", float("nan")])), ("embed", "text 1", "nan")),
    "a batch of none": (lambda m, t: m.embed("a", batch_size=0), ("batch_size", "0")),
    "a text and a list": (lambda m, t: m.follows("a", ["b"]), ("follows", "two texts")),
    "two lengths": (lambda m, t: m.follows(["a"], ["b", "c"]), ("1 texts and 2", "length")),
    "an option of another table": (lambda m, t: t.table("path", head=1), ("'head'", "token")),
    "an option with a typo": (lambda m, t: t.figure("head", lyer=1), ("'lyer'", "layer")),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_one_line(name: str, models: dict[str, gf.Model], trace: gf.Trace) -> None:
    call, words = WRONG[name]
    with pytest.raises(GlassformerError) as caught:
        call(models["encoder"], trace)
    one_line(caught.value, *words)


def test_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(GlassformerError) as caught:
        gf.load("gf-encoder", device="cuda")
    one_line(caught.value, "device = 'cuda'", "cpu")


def test_what_is_meant_is_taken(models: dict[str, gf.Model]) -> None:
    mixed = torch.arange(24.0).reshape(2, 4, 3)
    for heads in ([0, 2], (0, 2), torch.tensor([0, 2]), np.array([0, 2]), range(0, 3, 2)):
        assert torch.equal(gf.ablate(heads)(mixed), gf.ablate(0, 2)(mixed))
    assert gf.load("gf-encoder", dtype="float64").task.backbone.token_embedding.dtype == (
        torch.float64
    )


def test_a_model_says_what_it_is(models: dict[str, gf.Model]) -> None:
    encoder = models["encoder"]
    assert encoder.config is encoder.task.backbone.config and encoder.device.type == "cpu"
    assert repr(encoder) == (
        "Model(encoder, masked_lm_nsp, 6 layers of width 256, 7,734,018 parameters, float32 on cpu)"
    )
    assert repr(encoder.tokenizer) == "Tokenizer(WordPiece, 11,008 tokens)"


@pytest.mark.parametrize("name", mostly_slow(["translator", "encoder", "decoder", "classifier"]))
def test_a_model_can_be_pickled(name: str, models: dict[str, gf.Model], tmp_path: Path) -> None:
    model, file = models[name], io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    copies = pickle.loads(pickle.dumps(model)), torch.load(file, weights_only=False)
    batch = gf.Batch.of([[5, 6]], source=gf.Batch.of([[7]]) if name == "translator" else None)
    with torch.no_grad():
        expected = model(batch)
        for each in (*copies, copy.deepcopy(model)):
            output: Output = each(batch)
            assert torch.equal(output.logits, expected.logits)
            assert each.tokenizer.fingerprint == model.tokenizer.fingerprint
    copies[0].save(tmp_path / "copy")
    model.save(tmp_path / "own")
    for saved in (tmp_path / "own").rglob("*"):
        other = tmp_path / "copy" / saved.relative_to(tmp_path / "own")
        assert saved.is_dir() or saved.read_bytes() == other.read_bytes()


def test_a_head_that_no_architecture_stores_is_one_line(
    models: dict[str, gf.Model], tmp_path: Path
) -> None:
    model = _with_head(models["encoder"], kind="classification", labels=("bad", "good"))
    with pytest.raises(GlassformerError) as caught:
        model.save(tmp_path / "model")
    one_line(caught.value, "classification")


def test_the_typed_options_are_those_that_exist() -> None:
    assert get_type_hints(GenerationOptions).keys() == Settings.model_fields.keys()
    for names, options, known in (
        (TableName, TableOptions, TABLES), (FigureName, FigureOptions, FIGURES),
    ):  # fmt: skip
        assert set(names.__args__) == set(known)
        taken = {name for draw in known.values() for name in inspect.signature(draw).parameters}
        assert get_type_hints(options).keys() == taken - {"trace"}
    view = inspect.signature(gf.view).parameters
    assert get_type_hints(ViewOptions).keys() == view.keys() - {"trace", "page"}


def public_calls() -> dict[str, Any]:
    """The functions of the package, and the methods of the classes that they return."""
    calls = {name: getattr(gf, name) for name in gf.__all__}
    found = {f"gf.{name}": call for name, call in calls.items() if inspect.isfunction(call)}
    for owner in (gf.Model, gf.Trace, gf.Tokenizer, gf.Training):
        for name in dir(owner):
            call = getattr(owner, name)
            ours = str(getattr(call, "__module__", "")).startswith("glassformer")
            if not name.startswith("_") and ours and inspect.isroutine(call):
                found[f"{owner.__name__}.{name}"] = call
    return found


LONG = ("Model.export_onnx",)  # a trace of the graph: most of a minute


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in public_calls()],
)
def test_the_example_of_every_call_runs(
    name: str, models: dict[str, gf.Model], trace: gf.Trace, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    recipe, call = write_recipe(tmp_path), public_calls()[name]
    encoder = models["encoder"]
    adapter = new_adapter(encoder.task, encoder.origin, AdapterConfig(rank=2))
    adapted = adapter.apply_to(encoder.task)
    write_adapter(tmp_path / "polite", adapted, encoder.origin, adapter.config, adapter.saved)
    finder = doctest.DocTestFinder(recurse=False)
    (test,) = finder.find(call, name, globs={"gf": gf, "trace": trace, "recipe": recipe, **models})
    assert test.examples, f"{name} has no example"
    heard = io.StringIO()
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.DocTestRunner(optionflags=flags, verbose=False).run(test, out=heard.write)
    assert result.failed == 0, heard.getvalue()
