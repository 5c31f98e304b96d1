"""Cross-encoders: the scores of sentence-transformers, and the command."""

import json
from pathlib import Path
from typing import Any

import pytest
from torch import nn
from transformers.utils import logging

import glassformer as gf
from commands import glassformer, refused
from folders import edit_config, one_line
from glassformer.errors import CheckpointError, InputError
from speakers import LONG, bert

QUERY = "who sat on the mat?"
TEXTS = ["the cat sat on the mat.", "paris", "a dog, a cat", "", "the cat was in paris " * 30]
SETTINGS = "config_sentence_transformers.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    logging.disable_progress_bar()
    settings = {"num_labels": 1, "id2label": {0: "score"}, "label2id": {"score": 0}}
    bert("BertForSequenceClassification", tmp_path / "model", **LONG, **settings)
    limit = {"model_max_length": 64, "tokenizer_class": "BertTokenizer"}
    (tmp_path / "model/tokenizer_config.json").write_text(json.dumps(limit))
    return tmp_path / "model"


def same(folder: Path, query: str = QUERY, texts: list[str] = TEXTS) -> list[float]:
    """The scores, if they are those of sentence-transformers in its order."""
    from sentence_transformers import CrossEncoder

    reference = CrossEncoder(str(folder), device="cpu")
    theirs = reference.rank(query, texts, return_documents=True, show_progress_bar=False)
    ours = gf.load(folder).rank(query, texts)
    assert [(r.index, r.text) for r in ours] == [(r["corpus_id"], r["text"]) for r in theirs]
    scores = [each.score for each in ours]
    assert scores == pytest.approx([row["score"] for row in theirs], abs=1e-5)
    return scores


@pytest.mark.filterwarnings("ignore:.*tokens were truncated")
def test_scores_are_those_of_sentence_transformers(folder: Path) -> None:
    scores = same(folder)
    assert all(0 < score < 1 for score in scores) and scores[0] - scores[-1] > 1e-3
    same(folder, "the cat was in paris " * 30, TEXTS)  # a query that is cut, too


@pytest.mark.parametrize("where", ["config.json", "config.json, before 4.0", SETTINGS])
@pytest.mark.filterwarnings("ignore:.*tokens were truncated")
def test_the_activation_is_read_from_the_folder(where: str, folder: Path, tmp_path: Path) -> None:
    sigmoid = [each.score for each in gf.load(folder).rank(QUERY, TEXTS)]
    name = "torch.nn.modules.linear.Identity"
    if where == SETTINGS:
        from sentence_transformers import CrossEncoder

        model = CrossEncoder(str(folder), device="cpu", activation_fn=nn.Identity())
        folder = tmp_path / "saved"
        model.save_pretrained(str(folder))
    elif where == "config.json":
        edit_config(folder, sentence_transformers={"activation_fn": name})
    else:
        edit_config(folder, sbert_ce_default_activation_function=name)
    logits = same(folder)
    assert max(abs(a - b) for a, b in zip(logits, sigmoid, strict=True)) > 0.1


def test_too_long_texts_are_told_and_top_k_kept(folder: Path) -> None:
    model = gf.load(folder)
    with pytest.warns(UserWarning, match="1 of 5 texts are longer than 64 tokens"):
        assert len(model.rank(QUERY, TEXTS, top_k=2)) == 2
    assert [str(each) for each in model.rank(QUERY, "paris")] == ["paris"]
    assert model.rank(QUERY, []) == []


def test_wrong_calls_get_one_line(folder: Path, tmp_path: Path) -> None:
    model = gf.load(folder)
    wrong: tuple[tuple[Any, ...], ...] = (
        (([QUERY], TEXTS), {}, ("rank: query = ['who", "one text")),
        ((QUERY, [7]), {}, ("rank: text 0 is 7",)),
        ((QUERY, TEXTS), {"top_k": 0}, ("rank: top_k = 0",)),
    )
    for given, options, words in wrong:
        with pytest.raises(InputError) as caught:
            model.rank(*given, **options)
        one_line(caught.value, *words)
    several, _ = bert("BertForSequenceClassification", tmp_path / "several", num_labels=3)
    with pytest.raises(InputError) as caught:
        several.rank(QUERY, TEXTS)
    one_line(caught.value, "classification, 3 labels", "no cross-encoder", "one label")
    edit_config(folder, sentence_transformers={"activation_fn": "os.system"})
    with pytest.raises(CheckpointError) as caught:
        gf.load(folder).rank(QUERY, TEXTS)
    one_line(caught.value, "config.json", "'os.system'", "Sigmoid")


def test_the_command(folder: Path, tmp_path: Path) -> None:
    texts = [TEXTS[0], "", TEXTS[1], TEXTS[2]]
    best = gf.load(folder).rank(QUERY, [text for text in texts if text])
    rows = [
        json.loads(line)
        for line in glassformer("rank", folder, QUERY, *filter(None, texts), "--json").splitlines()
    ]
    assert [(r["number"] - 1, r["text"]) for r in rows] == [(e.index, e.text) for e in best]
    assert [row["score"] for row in rows] == pytest.approx([each.score for each in best])
    shown = glassformer("rank", folder, QUERY, *filter(None, texts), "--top-k", "1").splitlines()
    assert len(shown) == 2 and best[0].text in shown[1]
    (tmp_path / "x.csv").write_text("text;n\n" + "".join(f"{t};{i}\n" for i, t in enumerate(texts)))
    words = ("--file", tmp_path / "x.csv", "--column", "text")
    said = glassformer("rank", folder, QUERY, *words, "--out", tmp_path / "y.jsonl")
    assert said.startswith(f"{tmp_path / 'y.jsonl'}: 4 rows, with score and rank")
    written = [json.loads(line) for line in (tmp_path / "y.jsonl").read_text().splitlines()]
    assert [row["n"] for row in written] == ["0", "1", "2", "3"] and written[1]["rank"] is None
    ranked = sorted((row for row in written if row["rank"]), key=lambda row: row["rank"])
    assert [row["text"] for row in ranked] == [each.text for each in best]
    assert "give a text" in refused("rank", folder, QUERY, code=2)
