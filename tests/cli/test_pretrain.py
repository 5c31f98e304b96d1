"""Recipes, dry runs, prepared stores and rows of any size: all around a run but its steps."""

import json
import math
import tomllib
from pathlib import Path

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

import glassformer as gf
from commands import glassformer, refused
from glassformer.config import TokenIds
from glassformer.data.run_paths import RunPaths
from glassformer.distributed import DistributedContext
from glassformer.errors import GlassformerError
from glassformer.objectives import objective_of
from glassformer.recipe.schema import model_config, read_recipe
from glassformer.sizes import measure
from glassformer.train import batch_size as auto
from glassformer.train.build import Builder
from glassformer.train.dry_run import memory
from glassformer.train.init_from import check_model
from glassformer.train.loop import take_step
from glassformer.train.state import State
from sampling import mostly_slow
from tiny import KINDS, pairs, text, write_recipe

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))
SMALL = [path for path in RECIPES if path.stem.endswith("-cpu")]
PUBLISHED = {"gpt2-124m": 124_439_808 + 47 * 768, "bert-base": 109_482_240}


def head_of(recipe, config):
    return objective_of(recipe).task_config(recipe, config, ())


def dry(recipe, out, *words, **settings):
    return glassformer("pretrain", recipe, "--out", out, "--dry-run", *words, **settings)


# recipes


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_can_be_read(path):
    recipe = read_recipe(path)
    assert recipe.name == path.stem
    config = model_config(recipe, 50_257 if "gpt" in path.stem else 30_522, TokenIds(pad=0), "")
    if path.stem in PUBLISHED:
        assert measure(config, head_of(recipe, config)).bare == PUBLISHED[path.stem]


def test_there_are_small_and_large_recipes():
    assert {path.stem for path in SMALL} >= {"bert-tiny-cpu", "translate-tiny-cpu"}
    assert PUBLISHED.keys() <= {path.stem for path in RECIPES}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_what_a_recipe_trains_can_be_saved(path):
    check_model(read_recipe(path), path.name)


def test_a_model_that_no_layout_holds_is_named_before_any_text_is_read(tmp_path):
    recipe = next(path for path in RECIPES if path.stem == "multi30k-en-de")
    words = ("pretrain", recipe, "--model.dropout.embedding", "0.1", "--data", tmp_path)
    assert "dropout.embedding and dropout.residual differ" in refused(*words, code=2)


@pytest.mark.parametrize("path", mostly_slow(SMALL), ids=lambda path: path.stem)
def test_small_recipes_can_be_run(path, tmp_path):
    translate = path.stem.startswith("translate")
    (tmp_path / "text.txt").write_text(pairs() if translate else text())
    words = ["--data", tmp_path, "--data.train", tmp_path / "text.txt", "--json"]
    kind = read_recipe(path).tokenizer.kind
    words += [] if kind == "chars" else ["--tokenizer.vocab_size", 300]
    facts = json.loads(dry(path, tmp_path / "out", *words))
    assert facts["name"] == path.stem
    assert 100_000 < facts["parameters"]["with_head"] < 5_000_000
    assert facts["first_batch"]["answers"] > 0


# dry runs


@pytest.fixture(scope="module", params=mostly_slow(reversed(KINDS), keep=2))
def described(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    recipe = write_recipe(folder, request.param)
    return json.loads(dry(recipe, folder / "run", "--json")), recipe, request.param


def test_a_dry_run_trains_and_saves_nothing(described):
    _, recipe, _ = described
    run = recipe.parent / "run"
    assert {each.name for each in run.iterdir()} <= {"data", "plan", "tokenizer", ".lock"}


def test_a_dry_run_counts(described):
    facts, _, kind = described
    memory = facts["memory_bytes"]
    assert memory["total"] == sum(n for name, n in memory.items() if name != "total")
    count = facts["parameters"]["with_head"]
    assert (memory["weights"], memory["gradients"], memory["optimiser"]) == (
        4 * count, 4 * count, 8 * count,
    )  # fmt: skip
    assert facts["steps"] == 6 and facts["micro_batches"] == 1
    assert facts["micro_batch_tokens"] == 96
    assert facts["epochs"] == pytest.approx(6 / facts["micro_batches_per_epoch"])
    assert 0 < facts["filler_fraction"] < 0.5
    assert 0 < facts["tokens_per_step"] <= 96 * (2 if kind == "translation" else 1)
    documents = facts["data"]["train"]["documents"] + facts["data"]["valid"]["documents"]
    assert documents == (120 if kind == "translation" else 50)


@pytest.mark.parametrize("kind", KINDS)
def test_activations_are_about_what_a_row_keeps_for_the_way_back(tmp_path, kind):
    wide = {"width": 64, "depth": 3, "heads": 4, "mlp_width": 256}
    recipe = write_recipe(tmp_path, kind, model=wide, train={"micro_batch_tokens": 320})
    builder = Builder(read_recipe(recipe), RunPaths(tmp_path, tmp_path / "run", ""))
    trainer = builder.trainer(DistributedContext(0, 1, torch.device("cpu")))
    row, task = trainer.rows[0], trainer.state.task
    weights = {p.untyped_storage().data_ptr() for p in task.parameters()}
    kept = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = task(row.batch)  # held: no address is used twice
    measured = sum(size for address, size in kept.items() if address not in weights)
    measured += 2 * 4 * output.logits.numel()  # logits and their gradient
    share = row.tokens / trainer.rows.budget / (2 if kind == "translation" else 1)
    estimated = memory(trainer, builder.recipe)["activations"]
    assert 0.6 < share * estimated / measured < 1.6


def test_the_first_batch_is_shown(described):
    facts, recipe, kind = described
    whole = (recipe.parent / "text.txt").read_text()
    for shown in facts["first_batch"]["shown"]:
        tokens, answers = shown["tokens"], shown["answers"]
        assert len(tokens) == len(answers)
        if kind == "causal_lm":
            assert tokens[1:] == answers[:-1]
            assert "".join(tokens) in whole
        elif kind == "translation":
            assert "".join(shown["source"][:-1]) + "\t" in whole and shown["source"][-1] == "</s>"
            assert "\t" + "".join(answers[:-1]) in whole and answers[-1] == "</s>"
            assert tokens == ["<pad>", *answers[:-1]]
        else:
            assert tokens[0] == "[CLS]" and tokens[-1] == "[SEP]"
            hidden = [answer for answer in answers if answer is not None]
            assert 0 < len(hidden) < len(tokens) / 3
            assert ("follows" in shown) == (kind == "masked_lm_nsp")


def test_a_dry_run_is_read_at_eighty_columns(described):
    _, recipe, kind = described
    for columns in (80, 120):
        said = dry(recipe, recipe.parent / "run", columns=columns)
        assert max(map(len, said.splitlines())) <= columns
        assert kind in said and "The first micro-batch" in said and "no model was written" in said
    assert "←" in said


def test_skipped_texts_are_counted(tmp_path):
    found = {}
    for kind, whole in (
        ("causal_lm", "the cat\n\n" + "the dog sat on a mat " * 20),
        ("masked_lm_nsp", "One only here\n\nThe cat sat. It ran far. It saw a dog.\n\n" * 3),
        ("translation", "the cat\tTHE CAT\n\tEMPTY\n" + "dog " * 40 + "\tDOG\n"),
    ):
        recipe = write_recipe(tmp_path / kind, kind, data={"valid_fraction": 0.0})
        (tmp_path / kind / "text.txt").write_text(whole)
        said = dry(recipe, tmp_path / kind / "run", "--tokenizer.vocab_size=290", "--json")
        found[kind] = json.loads(said)["skipped"]
    assert found == {
        "causal_lm": {"documents of more than 32 tokens, read in parts": 1},
        "masked_lm_nsp": {
            "documents of one sentence, without a pair": 3,
            "tokens in no pair (in the first epoch)": pytest.approx(25, abs=25),
        },
        "translation": {
            "pairs with an empty side, skipped": 1,
            "pairs with a side of more than 32 tokens, skipped": 1,
        },
    }


def test_a_dry_run_of_finetuning(tmp_path):
    recipe = write_recipe(tmp_path)
    glassformer("pretrain", recipe, "--out", tmp_path / "run", "--train.steps", 1)
    lines = recipe.read_text().replace("[model]", "[x]").replace("[tokenizer]", "[y]")
    parts = [part for part in lines.split("\n\n") if part[:3] not in ("[x]", "[y]")]
    (tmp_path / "tune.toml").write_text("\n\n".join(parts))
    said = glassformer(
        "finetune", tmp_path / "run" / "model", tmp_path / "tune.toml", "--out", tmp_path / "out",
        "--dry-run", "--json",
    )  # fmt: skip
    assert json.loads(said)["init_from"] == str(tmp_path / "run" / "model")


# prepared stores


def test_a_recipe_can_name_a_prepared_store(tmp_path):
    """With the same documents, the same run: bit for bit."""
    recipe = write_recipe(tmp_path, data={"valid": "valid.txt"})
    (tmp_path / "valid.txt").write_text(text(8, seed=1))
    plain = json.loads(glassformer("pretrain", recipe, "--out", tmp_path / "plain", "--json"))
    tokenizer = tmp_path / "plain" / "tokenizer"
    for name in ("text", "valid"):
        glassformer(
            "data", "prepare", tmp_path / f"{name}.txt", "--tokenizer", tokenizer, "--out",
            tmp_path / name,
        )  # fmt: skip
    stores = ["--data.train", tmp_path / "text", "--data.valid", tmp_path / "valid"]
    named = [*stores, "--tokenizer.path", tokenizer]
    words = ["pretrain", recipe, "--out", tmp_path / "stored", "--json", *named]
    stored = json.loads(glassformer(*words))
    assert stored["valid"] == plain["valid"]
    ids = write_recipe(tmp_path / "ids", data={"train": "text", "valid": "valid"})
    said = glassformer(
        "evaluate", tmp_path / "stored" / "model", ids, "--data", tmp_path, "--json"
    )  # fmt: skip
    assert plain["valid"].items() <= json.loads(said).items()
    assert "bits_per_byte" not in json.loads(said)
    assert not (tmp_path / "stored" / "data").exists()
    weights = [(tmp_path / run / "model" / "model.safetensors").read_bytes()
               for run in ("plain", "stored")]  # fmt: skip
    assert weights[0] == weights[1]


def test_stores_that_cannot_serve_are_refused(tmp_path):
    recipe = write_recipe(tmp_path, "masked_lm_nsp")
    dry(recipe, tmp_path / "run")
    tokenizer = tmp_path / "run" / "tokenizer"
    glassformer(
        "data", "prepare", tmp_path / "text.txt", "--tokenizer", tokenizer, "--out", tmp_path / "s"
    )
    words = ["pretrain", recipe, "--data.train", tmp_path / "s", "--tokenizer.path", tokenizer]
    assert "cannot be split" in refused(*words, "--out", tmp_path / "a", code=2)
    learning = glassformer(*words[:-2], "--data.valid_fraction", 0, "--out", tmp_path / "a", code=2)
    assert "name their tokenizer in tokenizer.path" in learning.errors
    words += ["--data.valid_fraction", 0]
    assert "prepare the data for this objective" in refused(*words, "--out", tmp_path / "b")
    words += ["--objective.kind", "masked_lm"]
    glassformer(*words, "--out", tmp_path / "c", "--dry-run")
    other = write_recipe(tmp_path / "other", "masked_lm", tokenizer={"vocab_size": 60})
    dry(other, tmp_path / "other" / "run")
    words[5] = tmp_path / "other" / "run" / "tokenizer"
    assert "prepared with another tokenizer" in refused(*words, "--out", tmp_path / "d")


# rows of any size


@pytest.mark.parametrize("flag", mostly_slow(["--max-tokens", "--train.micro_batch_tokens"]))
def test_auto_finds_a_number_and_a_resumed_run_keeps_it(tmp_path, monkeypatch, flag):
    recipe = write_recipe(tmp_path)
    words = ("pretrain", recipe, "--out", tmp_path / "run", flag, "auto")
    glassformer(*words, "--train.steps", 3)
    path = tmp_path / "run" / "recipe.toml"
    written = tomllib.loads(path.read_text())
    assert written["train"]["micro_batch_tokens"] == auto.ON_CPU
    monkeypatch.setattr(auto, "ON_CPU", 77)
    glassformer(*words)
    assert tomllib.loads(path.read_text()) == written | {"train": written["train"] | {"steps": 6}}


def test_auto_holds_at_least_the_longest_text(tmp_path):
    recipe = write_recipe(
        tmp_path, objective={"length": 1500}, train={"micro_batch_tokens": "auto"}
    )
    facts = json.loads(dry(recipe, tmp_path / "run", "--json"))
    assert facts["micro_batch_tokens"] == 1500


class Card:
    """A GPU's memory, as it would be: real steps on the CPU, their size by a formula."""

    def __init__(self, monkeypatch, total, each):
        self.each, self.total, self.tried = each, total, []
        real = auto.take_step

        def step(state, rows, world):
            self.tried.append(len(rows[0].batch.tokens))
            if self.max_memory_allocated(None) > self.total:
                raise torch.OutOfMemoryError
            return real(state, rows, world)

        monkeypatch.setattr(auto, "take_step", step)
        for name in (
            "mem_get_info", "memory_reserved", "memory_allocated", "max_memory_allocated",
            "empty_cache", "reset_peak_memory_stats", "synchronize",
        ):  # fmt: skip
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))

    def mem_get_info(self, device):
        return self.total, self.total

    def memory_reserved(self, device):
        return 0

    def memory_allocated(self, device):
        return 1_000

    def max_memory_allocated(self, device):
        return 1_000 + 5_000 + self.each * self.tried[-1]

    def empty_cache(self):
        pass

    def reset_peak_memory_stats(self, device):
        pass

    def synchronize(self, device):
        pass


@pytest.mark.parametrize("checkpointing", [False, True])
def test_rows_grow_until_the_card_is_nearly_full(tmp_path, monkeypatch, checkpointing):
    recipe = read_recipe(
        write_recipe(
            tmp_path,
            train={"micro_batch_tokens": "auto", "activation_checkpointing": checkpointing},
        )
    )
    config = model_config(recipe, 31, TokenIds(), "")
    task = gf.build_task(config, head_of(recipe, config)).train()
    before = {name: tensor.clone() for name, tensor in task.state_dict().items()}
    card = Card(monkeypatch, total=7_000_000, each=1_000)
    found = auto._largest(recipe, objective_of(recipe), task, torch.device("cpu"))
    assert card.tried == [1024, 2048, 4096, 8192]  # the last one did not fit
    assert found == 5 * 1024 and 0.7 < 1_000 * found / 7e6 <= auto.SHARE
    assert all(torch.equal(before[name], tensor) for name, tensor in task.state_dict().items())
    for graphs, more in ((False, ""), (True, " --train.cuda_graphs false")):
        train = recipe.train.model_copy(update={"cuda_graphs": graphs})
        Card(monkeypatch, total=900_000, each=1_000)
        with pytest.raises(
            GlassformerError, match=f"not even .*activation_checkpointing true{more}$"
        ):
            auto._largest(
                recipe.model_copy(update={"train": train}), objective_of(recipe), task,
                torch.device("cpu"),
            )  # fmt: skip


@given(st.integers(1, 10**6), st.integers(1, 10**9), st.floats(1e6, 1e11))
def test_a_row_fills_what_is_there(each, base, limit):
    """With memory that grows in a straight line, the number found fits and 1,024 more do not."""

    def need(tokens):
        return base + each * tokens

    known, tokens = [(0, base)], auto.LEAST
    while tokens <= auto.MOST and need(tokens) <= limit:
        known.append((tokens, need(tokens)))
        tokens *= 2
    if len(known) == 1:
        with pytest.raises(GlassformerError, match="not even 1,024 tokens fit"):
            auto._fill(known, limit, tokens, "")
        return
    found = auto._fill(known, limit, tokens, "")
    assert found % auto.LEAST == 0 and auto.LEAST <= found <= auto.MOST
    assert need(found) <= limit
    assert found == auto.MOST or need(found + auto.LEAST) > limit or found + auto.LEAST >= tokens


@pytest.mark.parametrize("kind", KINDS)
def test_rows_to_try_are_rows_that_can_be_learnt_from(tmp_path, kind):
    recipe = read_recipe(write_recipe(tmp_path, kind))
    config = model_config(recipe, 31, TokenIds(pad=0, start=0, end=1), "")
    state = State(gf.build_task(config, head_of(recipe, config)).train(), recipe.train)
    row = auto._row(recipe, objective_of(recipe), state.task, 100)
    assert len(row.batch.tokens) == 100 and row.batch.sequences.longest == 32
    step = take_step(state, [row, row], DistributedContext(0, 1, torch.device("cpu")))
    assert math.isfinite(step.norm) and set(step.losses) == (
        {"labels", "next_sentence_labels"} if kind == "masked_lm_nsp" else {"labels"}
    )


# what is trained can be opened by others


def test_a_trained_translator_is_a_marian_model(tmp_path):
    recipe = write_recipe(tmp_path, "translation")
    glassformer("pretrain", recipe, "--out", tmp_path / "run")
    folder = tmp_path / "run" / "model"
    theirs = transformers.MarianMTModel.from_pretrained(folder).eval()
    ours = gf.load(folder)
    source, target = [7, 30, 12, 0], [2, 9, 40]
    (logits,) = ours.logits([source], targets=[target])
    with torch.no_grad():
        wanted = theirs(
            input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target])
        ).logits[0]
    torch.testing.assert_close(logits, wanted, rtol=1e-4, atol=1e-4)
    assert theirs.final_logits_bias.abs().max() > 0  # it was learnt
    assert (theirs.config.decoder_start_token_id, theirs.config.eos_token_id) == (2, 0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokenizer("the cat").input_ids == ours.tokenizer.encode("the cat").ids
