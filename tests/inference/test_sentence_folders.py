"""Folders of sentence-transformers: pooling stacks, layers after them, and prompts."""

import json
import shutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers.utils import logging

import folders
import glassformer as gf
from folders import one_line
from glassformer.errors import CheckpointError, ConfigError, InputError
from glassformer.inference import EmbeddingConfig, embedding_config
from glassformer.objectives import OBJECTIVES
from glassformer.recipe.schema import recipe_from
from speakers import LONG, bert, close

TEXTS = ["the cat sat on the mat.", "Paris", "", "who sat on the cat, where?", "a b c " * 40]
C = 12


def layers() -> Any:
    """The kinds of modules; the import is slow, and not every test needs it."""
    from sentence_transformers.sentence_transformer import modules

    return modules


def open_reference(folder: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu")


def modes(*names: str, **options: Any) -> nn.Module:
    return layers().Pooling(C, pooling_mode=names, **options)


STACKS: dict[str, tuple[Callable[[], list[nn.Module]], dict[str, Any]]] = {
    "first, normalised": (lambda: [modes("cls"), layers().Normalize()], {}),
    "largest and mean": (lambda: [modes("max", "mean")], {}),
    "a linear layer": (lambda: [modes("mean_sqrt_len_tokens"), layers().Dense(C, 7)], {}),
    "later tokens count more": (
        lambda: [
            modes("weightedmean"), layers().Dense(C, 5, bias=False, activation_function=None),
            layers().Normalize(),
        ],
        {"prompts": {"query": "who: ", "document": "the "}},
    ),
    "everything": (
        lambda: [
            modes("lasttoken", "cls", "mean"),
            layers().Dense(3 * C, 11, activation_function=nn.GELU()),
            layers().Normalize(), layers().Dense(11, 5, activation_function=nn.ReLU()),
        ],
        {},
    ),
    "without the prompt": (
        lambda: [modes("mean", "weightedmean", "max", "lasttoken", "cls", include_prompt=False)],
        {"prompts": {"query": "where is: ", "none": ""}, "default_prompt_name": "query"},
    ),
}  # fmt: skip


def stack(folder: Path, modules: Sequence[nn.Module], **options: Any) -> Any:
    """Save a tiny BERT with these modules after it."""
    from sentence_transformers import SentenceTransformer

    logging.disable_progress_bar()
    bert("BertModel", folder / "backbone", **LONG)
    torch.manual_seed(1)
    for parameter in (p for module in modules for p in module.parameters()):
        nn.init.normal_(parameter, std=0.3)
    first = layers().Transformer(
        str(folder / "backbone"), processor_kwargs={"model_max_length": 64}
    )
    model = SentenceTransformer(modules=[first, *modules], device="cpu", **options)
    model.save_pretrained(str(folder / "model"))
    return open_reference(folder / "model")


def vectors(model: gf.Model, reference: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the last text is truncated
        ours = model.embed(TEXTS, **options)
    theirs = reference.encode(TEXTS, convert_to_tensor=True, show_progress_bar=False, **options)
    return ours, theirs


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_embeds_as_sentence_transformers_does(name: str, tmp_path: Path) -> None:
    modules, options = STACKS[name]
    reference = stack(tmp_path, modules(), **options)
    model = gf.load(tmp_path / "model")
    close(*vectors(model, reference))
    for prompt_name in model.recipe.prompts:
        close(*vectors(model, reference, prompt_name=prompt_name))
    close(*vectors(model, reference, prompt="on the mat, "))
    plain = vectors(model, reference, prompt="")
    close(*plain)
    if model.recipe.default_prompt_name:  # a control: the prompt is there
        assert not torch.allclose(plain[0], vectors(model, reference)[0], atol=1e-2)
    model.save(tmp_path / "saved")
    assert folders.files(tmp_path / "saved") == folders.files(tmp_path / "model")


def test_texts_are_lower_cased_where_the_folder_says_so(tmp_path: Path) -> None:
    """By a tokenizer that keeps the case, which does not know THE."""
    stack(tmp_path, [modes("mean")])
    (tmp_path / "model/tokenizer.json").unlink()
    edit(tmp_path / "model/tokenizer_config.json", do_lower_case=False)
    for file in ("vocab.txt", "special_tokens_map.json"):
        if (tmp_path / "backbone" / file).exists():
            shutil.copy(tmp_path / "backbone" / file, tmp_path / "model" / file)
    cased = gf.load(tmp_path / "model").embed(["THE cat", "the cat"])
    assert not torch.allclose(*cased)
    edit(tmp_path / "model/sentence_bert_config.json", do_lower_case=True)
    lower = gf.load(tmp_path / "model").embed(["THE cat", ("THE cat", "Sat")])
    assert torch.equal(lower[0], cased[1]) and not torch.allclose(*lower)
    reference = open_reference(tmp_path / "model")
    close(lower[:1], reference.encode(["THE cat"], convert_to_tensor=True))


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dense")
    stack(folder, [modes("cls", "mean"), layers().Dense(2 * C, 7), layers().Normalize()])
    return folder / "model"


def test_changed_layers_are_saved(dense: Path, tmp_path: Path) -> None:
    model = gf.load(dense)
    assert sum("sentence_layers" in name for name, _ in model.named_parameters()) == 2
    with torch.no_grad():
        model.sentence_layers["2_Dense"].bias += 1
    model.save(tmp_path / "changed")
    reference = open_reference(tmp_path / "changed")
    close(*vectors(model, reference))
    kept = folders.files(dense)
    saved = folders.files(tmp_path / "changed")
    assert [name for name in kept if kept[name] != saved[name]] == ["2_Dense/model.safetensors"]


def test_a_saved_folder_has_no_layers_of_the_one_before(dense: Path, tmp_path: Path) -> None:
    model, bare = gf.load(dense), gf.load(dense.parent / "backbone")
    model.save(tmp_path / "here")
    bare.save(tmp_path / "here")
    assert folders.files(tmp_path / "here") == folders.files(dense.parent / "backbone")


def test_another_pooling_must_fit_the_layers(dense: Path) -> None:
    model = gf.load(dense)
    assert model.embed(["a cat"], pool_by=["last", "max"]).shape == (1, 7)
    with pytest.raises(InputError) as caught:
        model.embed(["a cat"], pool_by="mean")
    one_line(caught.value, "pool_by = 'mean'", "12 numbers", "2_Dense", "24")


def test_prompts_that_do_not_exist(dense: Path) -> None:
    model = gf.load(dense)
    for options, words in (
        ({"prompt_name": "queri"}, ("prompt_name = 'queri'", "'query'")),
        ({"prompt_name": "query", "prompt": "a"}, ("prompt = 'a'", "not both")),
        ({"prompt": 7}, ("prompt = 7",)),
        ({"pool_by": 7}, ("pool_by = 7", "mean")),
        ({"pool_by": []}, ("pool_by = []", "mean")),
    ):
        with pytest.raises(InputError) as caught:
            model.embed(["a cat"], **options)
        one_line(caught.value, *words)


CONFIG, WEIGHTS = "2_Dense/config.json", "2_Dense/model.safetensors"
WRONG: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "a residual": ({"use_residual": True}, (CONFIG, "use_residual = True")),
    "of tokens": ({"module_input_name": "token_embeddings"}, (CONFIG, "token_embeddings")),
    "code": ({"activation_function": "os.system"}, (CONFIG, "'os.system'", "Tanh")),
    "a function": ({"activation_function": "torch.load"}, (CONFIG, "'torch.load'", "Tanh")),
    "no text": ({"activation_function": 3}, (CONFIG, "activation_function = 3")),
    "a width": ({"in_features": 12}, ("2_Dense", "in_features = 12", "24 numbers")),
    "another width": ({"out_features": 5}, ("2_Dense", "out_features = 5")),
    "no bias": ({"bias": False}, ("2_Dense", "linear.bias")),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_layer_that_cannot_be_read_gets_one_line(name: str, dense: Path, tmp_path: Path) -> None:
    folder = folders.copy(dense, tmp_path / "model")
    changes, words = WRONG[name]
    edit(folder / CONFIG, **changes)
    with pytest.raises(CheckpointError) as caught:
        gf.load(folder)
    one_line(caught.value, str(folder), *words)


def test_damaged_weights_of_a_layer(dense: Path, tmp_path: Path) -> None:
    folder = folders.copy(dense, tmp_path / "model")
    tensors = load_file(folder / WEIGHTS)
    save_file({**tensors, "linear.bias": tensors["linear.bias"] / 0}, folder / WEIGHTS)
    with pytest.raises(CheckpointError) as caught:
        gf.load(folder)
    one_line(caught.value, WEIGHTS, "linear.bias", "finite")
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-1])
    with pytest.raises(CheckpointError) as caught:
        gf.load(folder)
    one_line(caught.value, WEIGHTS, "not a complete safetensors file")
    (folder / WEIGHTS).rename(folder / "2_Dense/pytorch_model.bin")
    with pytest.raises(CheckpointError) as caught:
        gf.load(folder)
    one_line(caught.value, WEIGHTS, "is missing")


def test_an_eight_bit_layer_is_read_or_refused(dense: Path, tmp_path: Path) -> None:
    folder = folders.copy(dense, tmp_path / "model")
    small = {key: each.to(torch.float8_e4m3fn) for key, each in load_file(folder / WEIGHTS).items()}
    small["linear.bias"][0] = float("nan")
    save_file(small, folder / WEIGHTS)
    with pytest.raises(CheckpointError) as caught:
        gf.load(folder)
    one_line(caught.value, WEIGHTS, "linear.bias", "finite")


@pytest.mark.parametrize("name", ["poolings", "modules"])
def test_what_is_repeated_is_refused(name: str, dense: Path, tmp_path: Path) -> None:
    folder = folders.copy(dense, tmp_path / "model")
    if name == "poolings":
        edit(folder / "1_Pooling/config.json", pooling_mode=["mean"] * 10_000)
    else:
        kind = "sentence_transformers.models.Normalize"
        more = [{"idx": i, "name": str(i), "path": f"{i}_N", "type": kind} for i in range(6_000)]
        (folder / "modules.json").write_text(json.dumps(more))
    with pytest.raises(CheckpointError) as caught:
        gf.load(folder)
    one_line(caught.value, "once" if name == "poolings" else "6,000 modules: write at most 16")


def test_a_module_of_another_kind_is_named(tmp_path: Path) -> None:
    stack(tmp_path, [modes("mean"), layers().Dropout(0.1)])
    with pytest.raises(CheckpointError) as caught:
        gf.load(tmp_path / "model")
    one_line(caught.value, "modules.json", "module 2", "Dropout")


def test_training_names_the_layers_that_it_cannot_train(dense: Path) -> None:
    files = folders.files(dense)
    fields = {"name": "t", "data": {"train": "t.tsv"}, "train": {"steps": 1}}
    fields["objective"] = {"kind": "sentence_embedding", "length": 32}
    recipe = recipe_from({**fields, "init_from": str(dense)}, {}, "t.toml")
    objective = OBJECTIVES["sentence_embedding"]
    with pytest.raises(ConfigError) as caught:
        objective.wrap(recipe, gf.load(dense).task, files)
    one_line(caught.value, str(dense), "first, mean, 2_Dense", "objective.pool")
    recipe = recipe_from({**fields, "init_from": str(dense)}, {"objective.pool": "mean"}, "t.toml")
    kept = objective.model_files(recipe, files, C)
    assert not any(name.startswith(("2_Dense", "3_Normalize")) for name in kept)
    prompts = {"query": "", "document": ""}
    assert embedding_config(kept, "kept") == EmbeddingConfig(max_length=32, prompts=prompts)
