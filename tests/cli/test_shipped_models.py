"""Models by name: those that come with the package, `list`, and `demo` on them.

The stand-ins are the same recipes at a hundredth of their size.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
import transformers

import glassformer as package
import smallship
from commands import glassformer, refused
from documented import script
from glassformer import pretrained
from glassformer.cli.tour import BANKS, CAT, PAIRS, PARTS, PROMPT, TROUT
from sampling import mostly_slow

HOME = Path(package.__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stand-in of each, under its name."""
    root = tmp_path_factory.mktemp("ship")
    smallship.write_data(root / "data")
    for name in PARTS:
        words = [f"--{key}={value}" for key, value in smallship.changes(name).items()]
        recipe = smallship.RECIPES / f"{name}.toml"
        glassformer("pretrain", recipe, "--data", root / "data", "--out", root / "runs" / name,
                    *words)  # fmt: skip
        shutil.copytree(root / "runs" / name / "model", root / name)
    return root


def test_demo_goes_through_the_lectures(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)  # a folder of this name here is that model
    monkeypatch.setattr("glassformer.cli.demo.STEPS", 2)  # what the toys learn is tested elsewhere
    said = glassformer("demo", columns=120)
    shown = [TROUT, *(" ".join(pair) for pair in PAIRS), *BANKS, PROMPT, CAT, "cosine"]
    assert [text for text in shown if text not in said] == []
    for name, parts in PARTS.items():
        for title, _, page in parts:
            assert f"{title} {name}" in said
            assert f"glassformer studio {name}, page {page}" in said
    alignment = said.split("cross attention of each word")[1].splitlines()
    assert alignment[1].split() == ["The", "cat", "sat", "on", "the", "mat."]


def test_list_shows_what_is_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "runs" / "broken").mkdir(exist_ok=True)
    (folder / "runs" / "broken" / "config.json").write_text("{}")
    found = {each["name"]: each for each in json.loads(glassformer("list", "--json"))}
    own = {name: each for name, each in found.items() if not each["shipped"]}
    assert set(own) == {f"runs/{name}/model" for name in PARTS} | {"runs/broken"}
    assert own["runs/gf-decoder/model"]["family"] == "decoder"
    for name in PARTS:
        weights = folder / "runs" / name / "model" / "model.safetensors"
        each = own[f"runs/{name}/model"]
        assert each["bytes"] == weights.stat().st_size
        parameters = package.load(weights.parent).parameters()
        assert each["parameters"] == sum(part.numel() for part in parameters)
    assert "config.json" in own["runs/broken"]["problem"]
    said = glassformer("list", folder / "gf-en-ru", columns=200)
    assert (
        str(folder / "gf-en-ru") in said and "seq2seq" in said and "such as a translation" in said
    )
    assert "nowhere: no such folder" in refused("list", "nowhere")


ELSEWHERE = """
import pathlib
import sys
import glassformer as gf
from glassformer.cli.main import application
from glassformer.errors import CheckpointError

assert "lib" in gf.__file__, gf.__file__
application()(["list", "--json"], standalone_mode=False)
application()(["params", "gf-decoder", "--json"], standalone_mode=False)
assert gf.load("gf-decoder").generate("The cat", max_new_tokens=4)[0].ids
assert "torch._dynamo" not in sys.modules  # the compiler: two seconds that nobody asked for
pathlib.Path("gf-decoder").mkdir()
try:
    gf.load("gf-decoder")
except CheckpointError as error:
    print(error)
"""


def test_a_name_is_found_in_the_package(folder: Path, tmp_path: Path) -> None:
    """From anywhere; but what lies here comes first."""
    shutil.copytree(
        HOME, tmp_path / "lib" / "glassformer", ignore=shutil.ignore_patterns("web", "gf-*")
    )
    place = tmp_path / "lib" / "glassformer" / "pretrained" / "gf-decoder"
    shutil.copytree(folder / "gf-decoder", place)
    (tmp_path / "away").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], capture_output=True, text=True, cwd=tmp_path / "away",
        env=os.environ | {"PYTHONPATH": str(tmp_path / "lib")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '"name": "gf-decoder"' in done.stdout and '"shipped": true' in done.stdout
    assert done.stdout.endswith("gf-decoder: config.json is missing: this is not a model folder\n")


def test_only_the_next_sentence_classifier_is_fitted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    data, home = tmp_path / "data", tmp_path / "model"
    shutil.copytree(folder / "gf-encoder", home)
    smallship.write_data(data)
    pairs = [
        f"The {who} is {how}. It {does}."
        for who in ("cat", "dog", "boy", "girl", "man")
        for how in ("old", "here", "there")
        for does in ("sees", "loves", "finds", "takes")
    ]
    smallship.write(data / "tatoeba_mono/tatoeba.en.txt.xz", "\n".join(pairs))
    made = script("next_sentence")
    for name, value in {"PAIRS": 80, "HELD": 0.3, "HELD_PAIRS": 10, "WORDS": 8}.items():
        monkeypatch.setattr(made, name, value)
    before = safetensors.torch.load_file(home / "model.safetensors")
    made.main(home, data)
    after = safetensors.torch.load_file(home / "model.safetensors")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"cls.seq_relationship.weight", "cls.seq_relationship.bias"}
    assert capsys.readouterr().out.count("held out") == 2
    model, pair = package.load(home), ("The cat is old.", "It sees.")
    weight, bias = (after[f"cls.seq_relationship.{part}"] for part in ("weight", "bias"))
    follows, _ = (made.features(model, [pair]) @ weight.T + bias).softmax(-1)[0]
    assert abs(model.follows(*pair) - follows) < 1e-5


def test_the_fitted_classifier_separates() -> None:
    x = torch.randn(200, 5)
    follows = (x[:, 0] > 0.3).float()
    v, c = script("next_sentence").fit(x, follows)
    assert ((x @ v + c > 0) == follows.bool()).float().mean() > 0.95


def test_a_card_from_what_a_run_left(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "runs" / "gf-encoder", tmp_path / "run")
    words = ["--data", folder / "data", "--train.device=cpu", "--train.precision=float32", "--json"]
    recipe = smallship.RECIPES / "gf-encoder.toml"
    measured = glassformer("evaluate", folder / "gf-encoder", recipe, *words,
                           "--objective.length=48")  # fmt: skip
    (tmp_path / "run" / "evaluate.json").write_text(measured)
    (tmp_path / "run" / "run.toml").write_text(
        'date = 2026-11-17\nhardware = "two cores"\nnote = "It was resumed once."\n'
    )
    (tmp_path / "run" / "prepare.log").write_text("train: 3 copies of lines, left out\nmore\n")
    script("card").main("gf-encoder", tmp_path / "run")
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    accuracy = json.loads(measured)["next_sentence_accuracy"]
    for told in (
        "# gf-encoder", 'gf.load("gf-encoder")', "glassformer pretrain recipes/gf-encoder.toml",
        "Steps: 20; ", "minutes on two cores,\n2026-11-17. It was resumed once.\n",
        "WordNet 3.0 licence", "CC BY 2.0 FR", "3 copies of lines, left out",
        f"| next sentence accuracy | {accuracy:.4g} |", "## Limits", "texts have at most 48 tokens",
    ):  # fmt: skip
        assert told in card, told
    assert "20 steps</text>" in (tmp_path / "run" / "model" / "curve.svg").read_text()


def test_what_is_counted_in_samples() -> None:
    card = script("card")
    once = "a b c d e f g h i j k l m n o p"
    assert card.loops(f"{once} x {once}") and not card.loops(once)
    assert card.open_quotes('x\n"Yes, he said.\nend') and not card.open_quotes('x\n"Yes."\n"end')
    assert card.cut_words("the dogz ran off", {"the", "ran", "off"})
    assert not card.cut_words("dogz Dogz ran of", {"ran"})  # cut by the prompt, a name, the end


@pytest.mark.parametrize("name", pretrained.shipped())
def test_each_is_small_and_has_a_card(name: str) -> None:
    home = pretrained.shipped()[name]
    together = sum(file.stat().st_size for file in home.parent.glob("gf-*/*"))
    assert together < 48e6
    card = (home / "README.md").read_text()
    for part in ("## How it was trained", "## Data and licence", "## Metrics", "## Limits"):
        assert part in card, part
    assert (home / "curve.svg").read_text().startswith("<svg")


def test_transformers_opens_the_decoder() -> None:
    """In float32, where both compute alike: the same words."""
    written = package.load("gf-decoder", dtype=torch.float32).generate(PROMPT, max_new_tokens=24)
    home = pretrained.shipped()["gf-decoder"]
    reader = transformers.AutoTokenizer.from_pretrained(home)
    peer = transformers.AutoModelForCausalLM.from_pretrained(home, dtype=torch.float32)
    asked = reader(PROMPT, return_tensors="pt")
    theirs = peer.generate(**asked, max_new_tokens=24, do_sample=False)
    assert theirs[0, asked["input_ids"].shape[1] :].tolist() == list(written[0].ids)


@pytest.mark.slow
def test_transformers_opens_the_encoder() -> None:
    model = package.load("gf-encoder", dtype=torch.float32)
    home = pretrained.shipped()["gf-encoder"]
    reader = transformers.AutoTokenizer.from_pretrained(home)
    peer = transformers.AutoModelForPreTraining.from_pretrained(home, dtype=torch.float32).eval()
    with torch.no_grad():
        said = peer(**reader(*PAIRS[0], return_tensors="pt"))
        hidden = peer(**reader(TROUT, return_tensors="pt")).prediction_logits[0]
    chance = said.seq_relationship_logits.softmax(-1)[0, 0].item()
    assert model.follows(*PAIRS[0]) == pytest.approx(chance, abs=1e-6)
    assert torch.allclose(package.record(model, TROUT)["logits"], hidden, atol=1e-4)
    assert len(reader(TROUT * 20, truncation=True)["input_ids"]) == 128  # as much as it reads


@pytest.mark.slow
def test_transformers_opens_the_translator() -> None:
    (said,) = package.load("gf-en-ru", dtype=torch.float32).translate(CAT, num_beams=1)
    home = pretrained.shipped()["gf-en-ru"]
    reader = transformers.AutoTokenizer.from_pretrained(home)
    peer = transformers.AutoModelForSeq2SeqLM.from_pretrained(home, dtype=torch.float32)
    theirs = peer.generate(torch.tensor([reader(CAT)["input_ids"]]), max_new_tokens=20, num_beams=1)
    assert reader.decode(theirs[0], skip_special_tokens=True) == said.text


def test_a_name_that_is_nearly_right() -> None:
    assert "did you mean gf-decoder" in refused("generate", "gf-decodr", "The cat")


def test_what_follows_and_which_bank() -> None:
    model = package.load("gf-encoder")
    shirt, cones = (model.follows(*pair) for pair in PAIRS)
    assert shirt > 0.8 and cones < 0.3
    river, money, savings = (model.word(each, "bank").float() for each in BANKS)
    near, far = (torch.cosine_similarity(money, other, dim=0) for other in (savings, river))
    assert near > far + 0.1
    words = [each.text for each in model.fill("He opened the [MASK] with a key.")[0].candidates]
    assert words[0] == "door"


def test_the_cat_on_the_mat() -> None:
    (said,) = package.load("gf-en-ru").translate(CAT, align=True)
    assert said.alignment is not None
    cat = said.alignment.source.index("cat")
    looks = [row.index(max(row)) for row in said.alignment.weights.tolist()]
    word = said.alignment.target[looks.index(cat)]
    assert (word, said.text) == ("Кот", "Кот сел на коврик.")


@pytest.mark.parametrize("dtype", mostly_slow(["float32", "bfloat16"]))
@pytest.mark.parametrize("num_beams", mostly_slow([4, 1]))
def test_a_full_stop_does_not_change_the_translation(
    dtype: str, num_beams: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = package.load("gf-en-ru", dtype=dtype)
    texts = [CAT, CAT.rstrip(".")]
    # On a CPU that emulates bfloat16 torch turns oneDNN off.
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", torch.backends.mkldnn.enabled)
    found = [each.text for each in model.translate(texts, num_beams=num_beams)]
    assert found == ["Кот сел на коврик.", "Кот сел на коврик"]
    assert (
        CAT not in (smallship.RECIPES / "household_en_ru.tsv").read_text()
    )  # it was not learnt by heart
