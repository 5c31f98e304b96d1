"""What goes in comes out: folders of transformers, written back bit for bit."""

from pathlib import Path

import pytest
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

import folders
from folders import INDEX, KINDS, edit_config, edit_tensors, read_config, read_tensors, renamed
from glassformer import build_task
from glassformer.checkpoint import load_task, save_task
from glassformer.errors import CheckpointError
from glassformer.tasks import Task
from sampling import every_nth, mostly_slow

# A class of each architecture is quick, and all heads of BERT.
FIRST = {kind: name for name, kind in reversed(KINDS.items())}.values()
CLASSES = [
    pytest.param(
        name, marks=() if name in FIRST or name.startswith("BertFor") else pytest.mark.slow
    )
    for name in KINDS
]
# Where transformers opens and saves each: a class of each family, the others are slow.
FEW = {
    "T5ForConditionalGeneration",
    "BertForMaskedLM",
    "ModernBertForMaskedLM",
    "LlamaForCausalLM",
    "MarianMTModel",
}
TRIPS = [pytest.param(name, marks=() if name in FEW else pytest.mark.slow) for name in KINDS]


def there_and_back(folder: Path) -> Task:
    """Load and save; every file must be as it was."""
    task, origin = load_task(folder)
    again = folder.with_name("again")
    save_task(task, again, origin)
    assert folders.files(again) == folders.files(folder)
    return task


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_is_written_back_as_it_was(name: str, tmp_path: Path) -> None:
    folder = folders.write(name, tmp_path / name)
    there_and_back(folder)
    expected = {"config.json", "model.safetensors"}
    if folders.TASKS[name].kind in ("causal_lm", "translation"):
        expected |= {"generation_config.json"}
    assert folders.files(folder).keys() == expected


@pytest.mark.parametrize("name", TRIPS)
def test_every_class_survives_a_trip_through_transformers(name: str, tmp_path: Path) -> None:
    task, origin = load_task(folders.write(name, tmp_path / "first"))
    save_task(task, tmp_path / "ours", origin)
    theirs = getattr(transformers, name).from_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    back, _ = load_task(tmp_path / "theirs")
    assert list(folders.differences(task, back)) == []
    assert back.backbone.config == task.backbone.config
    assert back.spec == task.spec


@pytest.mark.parametrize(
    "name", mostly_slow(["MarianMTModel", "BertForMaskedLM", "GPT2LMHeadModel"])
)
def test_shards_are_written_back_with_their_index(name: str, tmp_path: Path) -> None:
    wide = {"vocab_size": 499, "decoder_vocab_size": 499, "pad_token_id": 498}
    changes = wide if name.startswith("Marian") else {"vocab_size": 499}
    folder = folders.write(name, tmp_path / "shards", shards="20KB", **changes)
    names = folders.files(folder)
    assert INDEX in names
    assert sum(each.endswith(".safetensors") for each in names) > 1
    sharded = there_and_back(folder)
    whole, _ = load_task(folders.write(name, tmp_path / "whole", **changes))
    assert list(folders.differences(sharded, whole)) == []


@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Qwen2ForCausalLM"])
def test_a_list_of_end_tokens_is_read_by_its_first_and_written_back(
    name: str, tmp_path: Path
) -> None:
    folder = folders.write(name, tmp_path / "chat")
    edit_config(folder, eos_token_id=[5, 7])
    assert there_and_back(folder).backbone.config.ids.end == 5
    edit_config(folder, eos_token_id=[[5], 7])
    with pytest.raises(CheckpointError, match="eos_token_id"):
        load_task(folder)


@pytest.mark.parametrize("dtype", mostly_slow([torch.bfloat16, torch.float16]), ids=str)
@pytest.mark.parametrize(
    "name", mostly_slow(["MarianMTModel", "BertForMaskedLM", "GPT2LMHeadModel"])
)
def test_half_precision_stays_half(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    task = there_and_back(folders.write(name, tmp_path / "half", dtype=dtype))
    assert {each.dtype for each in task.parameters()} == {dtype}


@pytest.mark.parametrize(
    "said", [{}, {"torch_dtype": "float16"}, {"torch_dtype": "float32"}, {"dtype": None}], ids=str
)
def test_what_a_config_says_of_the_precision_stays(said: dict, tmp_path: Path) -> None:
    """Older files say torch_dtype, or nothing, or something else: the text is still theirs."""
    folder = folders.write("BertForMaskedLM", tmp_path / "half", dtype=torch.float16)
    edit_config(folder, dtype=folders.GONE)
    edit_config(folder, **said)
    there_and_back(folder)


@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_a_changed_precision_is_said_in_the_config(key: str, tmp_path: Path) -> None:
    folder = folders.write("GPT2LMHeadModel", tmp_path / "full")
    edit_config(folder, dtype=folders.GONE)
    edit_config(folder, **{key: "float32"})
    task, origin = load_task(folder)
    save_task(task.to(torch.bfloat16), tmp_path / "half", origin)
    expected = {k: v for k, v in read_config(folder).items() if k != key}
    assert read_config(tmp_path / "half") == expected | {"dtype": "bfloat16"}
    assert {each.dtype for each in read_tensors(tmp_path / "half").values()} == {torch.bfloat16}
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "half", dtype="auto")
    assert theirs.dtype == torch.bfloat16


def test_what_a_file_says_of_itself_stays(tmp_path: Path) -> None:
    folder = folders.write("GPT2LMHeadModel", tmp_path / "gpt2")
    about = {"format": "pt", "by": "somebody", "date": "today", "steps": "7", "a": "b", "c": "d"}
    save_file(read_tensors(folder), folder / folders.WEIGHTS, about)
    task, origin = load_task(folder)
    save_task(task, tmp_path / "again", origin)
    with safe_open(tmp_path / "again" / folders.WEIGHTS, "pt") as file:  # in whatever order
        assert file.metadata() == about


def test_gpt2_files_of_the_first_days(tmp_path: Path) -> None:
    """No prefix, and the triangle of each layer among the weights."""
    folder = folders.write("GPT2LMHeadModel", tmp_path / "gpt2")
    new, _ = load_task(folder)
    triangle = torch.ones(17, 17, dtype=torch.uint8).tril()[None, None]
    masks = {f"h.{i}.attn.bias": triangle for i in range(2)}
    masks |= {f"h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(2)}
    renamed(folder, lambda name: name.removeprefix("transformer."))
    edit_tensors(folder, lambda tensors: tensors.update(masks))
    assert "wte.weight" in read_tensors(folder)
    assert list(folders.differences(there_and_back(folder), new)) == []


GREEK = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


def greek(name: str) -> str:
    for new, old in GREEK.items():
        name = name.replace(new, old)
    return name


@pytest.mark.parametrize("name", ["BertModel", "BertForMaskedLM"])
def test_bert_files_of_the_first_days(name: str, tmp_path: Path) -> None:
    """Norms with Greek names, and the numbers of the positions among the weights."""
    folder = folders.write(name, tmp_path / "bert")
    new, _ = load_task(folder)
    prefix = "" if name == "BertModel" else "bert."
    renamed(folder, greek)
    numbers = {f"{prefix}embeddings.position_ids": torch.arange(17)[None]}
    edit_tensors(folder, lambda tensors: tensors.update(numbers))
    assert f"{prefix}embeddings.LayerNorm.gamma" in read_tensors(folder)
    assert list(folders.differences(there_and_back(folder), new)) == []


@pytest.mark.parametrize("spelling", [str, greek], ids=["new names", "Greek names"])
@pytest.mark.parametrize(
    "name", mostly_slow(["BertModel", "BertForMaskedLM", "BertForQuestionAnswering"])
)
def test_heads_that_the_class_does_not_use_are_kept(name: str, spelling, tmp_path: Path) -> None:
    """As in bert-base-uncased: the file of the pretraining, opened as something smaller."""
    folder = folders.write(name, tmp_path / "bert")
    alone, _ = load_task(folder)
    whole = read_tensors(folders.write("BertForPreTraining", tmp_path / "whole"))
    prefix = "bert." if name == "BertModel" else ""
    extra = {k: t for k, t in whole.items() if "cls." in k or "pooler" in k}
    renamed(folder, lambda each: prefix + each)
    edit_tensors(folder, lambda tensors: tensors.update(extra | dict(tensors)))
    renamed(folder, spelling)
    assert list(folders.differences(there_and_back(folder), alone)) == []


COPIES = {
    "BertForMaskedLM": {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    "GPT2LMHeadModel": {"lm_head.weight": "transformer.wte.weight"},
    "MarianMTModel": {
        "lm_head.weight": "model.shared.weight",
        "model.encoder.embed_tokens.weight": "model.shared.weight",
        "model.decoder.embed_tokens.weight": "model.shared.weight",
    },
}


def with_copies(name: str, folder: Path) -> dict[str, str]:
    """A folder whose file holds the tied tensors twice; copy → what it copies."""
    edit_tensors(folder, lambda t: t.update({k: t[v] for k, v in COPIES[name].items()}))
    return COPIES[name]


@pytest.mark.parametrize("name", mostly_slow(reversed(COPIES)))
def test_tied_copies_in_the_file_are_written_back(name: str, tmp_path: Path) -> None:
    folder = folders.write(name, tmp_path / "tied")
    copies = with_copies(name, folder)
    there_and_back(folder)
    assert copies.keys() <= read_tensors(folder.with_name("again")).keys()


@pytest.mark.parametrize("name", mostly_slow(reversed(COPIES)))
def test_tied_copies_follow_a_weight_that_is_trained(name: str, tmp_path: Path) -> None:
    folder = folders.write(name, tmp_path / "tied")
    copies = with_copies(name, folder)
    task, origin = load_task(folder)
    with torch.no_grad():
        for each in task.parameters():
            each.add_(1)
    save_task(task, tmp_path / "trained", origin)
    old, new = read_tensors(folder), read_tensors(tmp_path / "trained")
    for copy, original in copies.items():
        assert torch.equal(new[copy], old[original] + 1)
        assert torch.equal(new[original], old[original] + 1)


@pytest.mark.parametrize(
    ("name", "copy"), mostly_slow(((n, c) for n in COPIES for c in COPIES[n]), keep=2)
)
def test_a_tied_copy_that_differs_is_refused(name: str, copy: str, tmp_path: Path) -> None:
    folder = folders.write(name, tmp_path / "tied")
    with_copies(name, folder)
    edit_tensors(folder, lambda tensors: tensors[copy].view(-1)[0].add_(1))
    with pytest.raises(CheckpointError) as caught:
        load_task(folder)
    folders.one_line(caught.value, str(folder), repr(copy), "remove it")
    edit_tensors(folder, lambda tensors: tensors.pop(copy))
    load_task(folder)  # as it said


def test_an_output_of_its_own_is_kept_apart(tmp_path: Path) -> None:
    folder = folders.write("GPT2LMHeadModel", tmp_path / "untied", tie_word_embeddings=False)
    task = there_and_back(folder)
    assert task.lm_head.weight.shape == task.backbone.token_embedding.shape
    assert not torch.equal(task.lm_head.weight, task.backbone.token_embedding)


MASKED = [name for name, task in folders.TASKS.items() if task.kind.startswith("masked_lm")]


@pytest.mark.parametrize("name", every_nth(MASKED, 3))
def test_an_encoder_may_have_an_output_of_its_own(name: str, tmp_path: Path) -> None:
    folder = folders.write(name, tmp_path / "untied", tie_word_embeddings=False)
    task = there_and_back(folder)
    assert not torch.equal(task.lm_head.weight, task.backbone.token_embedding)
    save_task(task, tmp_path / "new")
    theirs = open_theirs(name, tmp_path / "new").get_output_embeddings()
    assert torch.equal(theirs.weight, task.lm_head.weight)
    assert torch.equal(theirs.bias, task.lm_head.bias)


def test_the_bias_of_an_output_of_its_own_may_stand_beside_it(tmp_path: Path) -> None:
    """As in files of older versions, where both names meant one tensor and one was written."""
    folder = folders.write("BertForMaskedLM", tmp_path / "untied", tie_word_embeddings=False)
    tensors = read_tensors(folder)
    there, beside = tensors["cls.predictions.decoder.bias"], tensors["cls.predictions.bias"]
    assert torch.equal(there_and_back(folder).lm_head.bias, there)
    edit_tensors(folder, lambda tensors: tensors.pop("cls.predictions.decoder.bias"))
    assert torch.equal(there_and_back(folder).lm_head.bias, beside)
    edit_tensors(folder, lambda tensors: tensors.pop("cls.predictions.bias"))
    with pytest.raises(CheckpointError, match=r"'cls\.predictions\.decoder\.bias' is missing"):
        load_task(folder)


STRANGE = {"my_note": {"a": [1, 2.5, None, "ü"]}, "task_specific_params": None, "zeta": -0.0}


def test_keys_that_mean_nothing_here_survive(tmp_path: Path) -> None:
    folder = folders.write("BertForSequenceClassification", tmp_path / "bert")
    edit_config(folder, **STRANGE)
    there_and_back(folder)
    task, origin = load_task(folder)
    task.spec = task.spec.model_copy(update={"labels": ("no", "yes")})
    save_task(task, tmp_path / "changed", origin)
    config = read_config(tmp_path / "changed")
    assert {key: config[key] for key in STRANGE} == STRANGE


def test_new_labels_are_written_and_nothing_else_changes(tmp_path: Path) -> None:
    folder = folders.write("BertForTokenClassification", tmp_path / "bert")
    task, origin = load_task(folder)
    assert task.spec.labels == ("LABEL_0", "LABEL_1")
    task.spec = task.spec.model_copy(update={"labels": ("noun", "verb")})
    save_task(task, tmp_path / "named", origin)
    expected = {"id2label": {"0": "noun", "1": "verb"}, "label2id": {"noun": 0, "verb": 1}}
    assert read_config(tmp_path / "named") == read_config(folder) | expected
    assert load_task(tmp_path / "named")[0].spec.labels == ("noun", "verb")


def test_labels_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = {i: f"word {i}" for i in range(11)}
    folder = folders.write("GPT2ForTokenClassification", tmp_path / "gpt2", id2label=names)
    edit_config(folder, id2label={str(i): names[i] for i in reversed(range(11))})
    assert there_and_back(folder).spec.labels == tuple(names.values())


def fresh(name: str, folder: Path, **changes: object) -> Task:
    """A model of ours that came from nowhere, saved."""
    config = folders.CONFIGS[name].model_copy(update=changes)
    task = folders.heat(build_task(config, folders.TASKS[name]).eval())
    save_task(task, folder)
    return task


def open_theirs(name: str, folder: Path) -> torch.nn.Module:
    """With transformers, which must find every tensor and nothing beside."""
    cls = getattr(transformers, name)
    model, report = cls.from_pretrained(folder, output_loading_info=True)
    assert {key: list(names) for key, names in report.items() if names} == {}
    return model


def test_every_class_has_a_task() -> None:
    assert folders.TASKS.keys() == KINDS.keys()


@pytest.mark.parametrize(
    "name", [param for param in TRIPS if KINDS[param.values[0]] not in folders.ALIKE]
)
def test_a_fresh_model_is_opened_by_transformers(name: str, tmp_path: Path) -> None:
    fresh(name, tmp_path / "fresh")
    assert read_config(tmp_path / "fresh")["architectures"] == [name]
    theirs = open_theirs(name, tmp_path / "fresh")
    state, written = theirs.state_dict(), read_tensors(tmp_path / "fresh")
    if KINDS[name] in ("gpt_neox", "nomic_bert"):  # their tensors have other names in memory
        theirs.save_pretrained(tmp_path / "theirs")
        state = read_tensors(tmp_path / "theirs")
    for key, tensor in written.items():
        assert torch.equal(state[key], tensor), key
    places = {state[key].data_ptr() for key in written}
    assert {key for key, tensor in state.items() if tensor.data_ptr() not in places} == set()


@pytest.mark.parametrize("name", TRIPS)
def test_a_fresh_model_survives_a_trip_through_transformers(name: str, tmp_path: Path) -> None:
    task = fresh(name, tmp_path / "fresh")
    open_theirs(name, tmp_path / "fresh").save_pretrained(tmp_path / "theirs")
    for folder in ("fresh", "theirs"):
        back, _ = load_task(tmp_path / folder)
        assert list(folders.differences(task, back)) == []
        assert back.backbone.config == task.backbone.config
        assert back.spec == task.spec


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "MarianMTModel"])
def test_a_fresh_untied_model_is_whole_or_refused(name: str, tmp_path: Path) -> None:
    try:
        task = fresh(name, tmp_path / "fresh", tied=False)
    except CheckpointError as error:
        folders.one_line(error, "tied")
        return
    state = open_theirs(name, tmp_path / "fresh").state_dict()
    assert torch.equal(state["lm_head.weight"], task.lm_head.weight)
    assert list(folders.differences(load_task(tmp_path / "fresh")[0], task)) == []


@pytest.mark.parametrize("name", ["BertForSequenceClassification", "GPT2ForTokenClassification"])
def test_the_dropout_of_a_head_is_not_lost(name: str, tmp_path: Path) -> None:
    dropped = folders.TASKS[name].model_copy(update={"dropout": 0.3})
    save_task(build_task(folders.CONFIGS[name], dropped), tmp_path / "fresh")
    assert load_task(tmp_path / "fresh")[0].spec == dropped


def test_a_model_that_no_layout_holds_is_refused(tmp_path: Path) -> None:
    config = folders.CONFIGS["gpt2"].model_copy(update={"position": "rotary"})
    task = build_task(config, folders.TASKS["GPT2LMHeadModel"])
    with pytest.raises(CheckpointError) as caught:
        save_task(task, tmp_path / "fresh")
    folders.one_line(caught.value, "position", "'rotary'")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_can_be_saved_onto_itself(tmp_path: Path) -> None:
    """The weights are still mapped from the very file that is replaced."""
    folder = folders.write("BertForMaskedLM", tmp_path / "bert")
    before = folders.files(folder)
    task, origin = load_task(folder)
    save_task(task, folder, origin)
    assert folders.files(folder) == before
    with torch.no_grad():
        task.backbone.token_embedding.add_(1)
    save_task(task, folder, origin)
    assert list(folders.differences(load_task(folder)[0], task)) == []
    assert [each.name for each in tmp_path.iterdir()] == ["bert"]


def test_what_else_is_in_a_folder_stays(tmp_path: Path) -> None:
    fresh("GPT2LMHeadModel", tmp_path / "model")
    (tmp_path / "model" / "notes.md").write_text("mine")
    task = fresh("BertForMaskedLM", tmp_path / "model")
    assert (tmp_path / "model" / "notes.md").read_text() == "mine"
    assert list(folders.differences(load_task(tmp_path / "model")[0], task)) == []


@pytest.mark.parametrize(("old", "new"), [("1GB", "4KB"), ("4KB", "1GB"), ("4KB", "6KB")])
def test_the_new_weights_count_however_they_are_cut(old: str, new: str, tmp_path: Path) -> None:
    """One file over shards, shards over one file, shards over shards."""
    folder = folders.write("GPT2LMHeadModel", tmp_path / "old", shards=old)
    other = folders.write("GPT2LMHeadModel", tmp_path / "new", shards=new)
    task, origin = load_task(other)
    with torch.no_grad():
        task.backbone.token_embedding.add_(1)
    save_task(task, folder, origin)
    assert list(folders.differences(load_task(folder)[0], task)) == []
    theirs = open_theirs("GPT2LMHeadModel", folder)
    assert torch.equal(theirs.transformer.wte.weight, task.backbone.token_embedding)


def test_a_write_that_fails_leaves_the_old_folder_whole(tmp_path: Path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    task = fresh("GPT2LMHeadModel", tmp_path / "model")
    before = folders.files(tmp_path)
    monkeypatch.setattr("glassformer.checkpoint.folder.save_file", full)
    for name in ("model", "another"):
        with pytest.raises(CheckpointError) as caught:
            save_task(task, tmp_path / name)
        folders.one_line(caught.value, str(tmp_path / name), "no space left")
    assert folders.files(tmp_path) == before


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("a file")
    with pytest.raises(CheckpointError) as caught:
        fresh("GPT2LMHeadModel", tmp_path / "model")
    folders.one_line(caught.value, str(tmp_path / "model"))
    assert (tmp_path / "model").read_text() == "a file"


def test_the_current_folder_is_a_folder_too(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    task = fresh("GPT2LMHeadModel", Path())
    assert list(folders.differences(load_task(tmp_path)[0], task)) == []
