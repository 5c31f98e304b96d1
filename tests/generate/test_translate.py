"""Translations: in their order, alone or together, in parts or whole."""

import pytest
import torch

import glassformer as gf
from glassformer.config import TokenIds
from glassformer.errors import ConfigError, InputError
from glassformer.generate.translate import _groups, translate
from glassformer.text.training import train_tokenizer
from tiny import sentences

TEXTS = sentences(12)
SETTINGS = {"max_new_tokens": 12, "no_repeat_ngram_size": 2}  # else it says one letter for ever


@pytest.fixture(scope="module")
def model():
    """Hot weights: what it writes depends on what it reads."""
    torch.manual_seed(1)
    tokenizer = train_tokenizer(TEXTS, "chars", purpose="translation")
    config = gf.ModelConfig(
        family="seq2seq", vocab_size=tokenizer.highest + 1, width=16, depth=2, heads=2,
        mlp_width=24, max_length=56, ids=TokenIds(pad=2, start=2, end=0),
    )  # fmt: skip
    model = gf.Model(gf.build_task(config, gf.TaskConfig(kind="translation")), tokenizer).eval()
    for name, weight in model.named_parameters():
        torch.nn.init.normal_(weight, std=2.0 if ".cross." in name else 0.4)
    return model


def run(model, texts, **settings):
    settings = {**SETTINGS, **settings}
    return translate(model.task, model.tokenizer, texts, **settings)


def facts(found):
    return [(each.text, pytest.approx(each.score, abs=1e-4), each.tokens) for each in found]


@pytest.mark.parametrize("beams", [1, 4])
def test_together_as_alone_and_in_order(model, beams):
    together = run(model, TEXTS, num_beams=beams)
    alone = [run(model, [text], num_beams=beams)[0] for text in TEXTS]
    assert [each.source for each in together] == TEXTS
    assert [(e.text, e.score, e.tokens) for e in together] == facts(alone)
    assert len({round(each.score, 3) for each in together}) > 6  # an exchange would be seen


def test_what_it_says_is_what_generate_says(model):
    found = run(model, TEXTS[:3], num_beams=3, n_best=2, length_penalty=0.4)
    wanted = model.generate(
        TEXTS[:3], num_beams=3, num_return_sequences=2, length_penalty=0.4, **SETTINGS
    )
    told = [one for each in found for one in (each, *each.others)]
    assert [each.text for each in told] == [each.text.strip() for each in wanted]
    assert [each.score for each in told] == [pytest.approx(each.score) for each in wanted]
    assert all(each.score >= each.others[0].score for each in found)


def test_a_single_beam_has_a_beams_score(model):
    one = run(model, TEXTS[:1], num_beams=1, length_penalty=0.5)[0]
    (wanted,) = model.generate(TEXTS[:1], logprobs=True, **SETTINGS)
    assert one.score == pytest.approx(sum(wanted.logprobs) / len(wanted.ids) ** 0.5)


def test_lines_stay_lines(model):
    one, two = run(model, TEXTS[:2])
    (both,) = run(model, [f" {TEXTS[0]}\n\n{TEXTS[1]}"])
    assert both.text == f"{one.text}\n\n{two.text}" and both.parts == 2
    assert both.tokens == one.tokens + two.tokens
    assert both.score == pytest.approx((one.score + two.score) / 2, abs=1e-4)


def test_nothing_gives_nothing(model):
    assert run(model, []) == []
    (found,) = run(model, ["  "], align=True)
    assert (found.text, found.tokens, found.parts, found.alignment) == ("", [], 0, None)


def test_a_long_text_is_its_sentences_one_after_the_other(model):
    long = " ".join(TEXTS)
    (found,) = run(model, [long], n_best=2, align=True)
    parts = run(model, TEXTS, n_best=2, align=True)
    assert found.parts == len(TEXTS) and found.broken == 0 and found.source == long
    assert found.text == " ".join(each.text for each in parts)
    assert found.others[0].text == " ".join(each.others[0].text for each in parts)
    assert found.alignment.source == long.split()
    words = [len(each.alignment.source) for each in parts], [len(e.text.split()) for e in parts]
    links, i, j = [], 0, 0
    for each, width, height in zip(parts, *words, strict=True):
        links += [(a + i, b + j) for a, b in each.alignment.links()]
        i, j = i + width, j + height
    assert found.alignment.links() == sorted(links) and len(links) >= len(TEXTS)


def test_alignment_of_a_text_that_fills_the_decoder(model):
    (found,) = run(model, TEXTS[:1], max_new_tokens=56, min_new_tokens=56, align=True)
    assert not found.complete and found.alignment.target == found.text.split()


def test_groups_hold_what_fits():
    sources = [[0] * size for size in (3, 9, 1, 5, 4, 30)]
    groups = list(_groups(sources, 10))
    assert groups == [[5], [1], [3, 4], [0, 2]]  # 30 is more than fits: it goes alone


def test_refused(model):
    with pytest.raises(InputError, match="text 1 is 7: write a string"):
        run(model, ["a", 7])
    with pytest.raises(InputError, match="None: give a text, or a list of texts"):
        model.translate(None)
    with pytest.raises(ConfigError, match="num_beams = 0"):
        run(model, ["a"], num_beams=0)
    with pytest.raises(ConfigError, match="num_beam"):
        model.translate("a", num_beam=3)
    config = gf.ModelConfig(
        family="decoder", vocab_size=300, width=8, depth=1, heads=1, mlp_width=8, max_length=8
    )
    decoder = gf.build_task(config, gf.TaskConfig(kind="causal_lm"))
    with pytest.raises(InputError, match=r"a decoder .* cannot translate: .* such as gf-en-ru"):
        translate(decoder, model.tokenizer, ["a"])
