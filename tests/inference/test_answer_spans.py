"""`answer`: the best span of transformers' logits, found by trying them all."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
from folders import one_line
from glassformer.errors import InputError
from glassformer.inference import answer
from glassformer.inference.windows import encode_windows
from speakers import LONG, bert, bytewise, close, said

CASES = {
    "BertForQuestionAnswering": bert,
    "RobertaForQuestionAnswering": bytewise,
    "GPT2ForQuestionAnswering": bytewise,
    "BartForQuestionAnswering": bytewise,
}
QUESTION, CONTEXT = "who sat?", "a cat, the abcd,  sat on mats. paris was"


def by_hand(
    logits: tuple[torch.Tensor, torch.Tensor], read: Any, context: str, most: int
) -> tuple[list[tuple[float, str, int, int]], float]:
    """All spans of the context, best first, with the logarithm of the sum of all."""
    starts, ends = logits
    inside = [i for i, text in enumerate(read.texts) if text == 1]
    inside = [i for i in inside if context[slice(*read.spans[i])].strip()]
    found = []
    for i in inside:
        for j in inside:
            if 0 <= j - i < most:
                a, b = read.spans[i][0], read.spans[j][1]
                a += len(context[a:b]) - len(context[a:b].lstrip())
                found.append((float(starts[i] + ends[j]), context[a:b], a, b))
    whole = float(torch.tensor([each[0] for each in found]).double().logsumexp(0))
    return sorted(found, key=lambda each: -each[0]), whole


@pytest.mark.parametrize("most", [1, 3, 30])
@pytest.mark.parametrize("name", CASES)
def test_the_best_spans_of_all(name: str, most: int, tmp_path: Path) -> None:
    model, reference = CASES[name](name, tmp_path / "m", **LONG if CASES[name] is bert else {})
    out = said(reference, model, (QUESTION, CONTEXT))
    read = model.tokenizer.encode((QUESTION, CONTEXT))
    expected, whole = by_hand((out.start_logits[0], out.end_logits[0]), read, CONTEXT, most)
    found = model.answer(QUESTION, CONTEXT, top_k=4, max_tokens=most)
    assert [(each.text, each.start, each.end) for each in found] == [e[1:] for e in expected[:4]]
    close(
        [each.score for each in found], torch.tensor([e[0] for e in expected[:4]]).sub(whole).exp()
    )
    assert all(CONTEXT[each.start : each.end] == each.text == str(each) for each in found)
    assert model.answer(QUESTION, CONTEXT, max_tokens=most) == found[:1]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[gf.Model, Any]:
    return bert("BertForQuestionAnswering", tmp_path_factory.mktemp("m"), **LONG)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> gf.Model:
    return bert("BertForQuestionAnswering", tmp_path_factory.mktemp("m"))[0]


def test_no_answer_is_weighed_against_the_first_token(pair: tuple[gf.Model, Any]) -> None:
    model, reference = pair
    out = said(reference, model, (QUESTION, CONTEXT))
    read = model.tokenizer.encode((QUESTION, CONTEXT))
    logits = out.start_logits[0], out.end_logits[0]
    expected, whole = by_hand(logits, read, CONTEXT, 30)
    nothing = float(logits[0][0] + logits[1][0])
    whole = math.log(math.exp(whole) + math.exp(nothing))
    edge = nothing - expected[0][0]  # above the best span
    for threshold in (edge - 0.01, edge + 0.01):
        found = model.answer(QUESTION, CONTEXT, no_answer=True, threshold=threshold, top_k=2)
        best, none = found if threshold > edge else reversed(found)
        assert best.text == expected[0][1] and (none.text, none.start, none.end) == ("", 0, 0)
        close([best.score, none.score], torch.tensor([expected[0][0], nothing]).sub(whole).exp())
    assert all(each.text for each in model.answer(QUESTION, CONTEXT, top_k=999))


def test_no_answer_counts_where_it_is_least_likely(short: gf.Model) -> None:
    context = "the cat sat on a mat who was on the mat " * 2
    none, best = short.answer("who", context, no_answer=True, threshold=-999, top_k=2)
    assert none.text == "" != best.text
    (reading,) = encode_windows(*short.able("answer"), [("who", context)], side=1)
    assert len(reading.windows) > 1
    rows = [[reading.encoding.ids[place] for place in each.places] for each in reading.windows]
    kinds = [[reading.encoding.segments[place] for place in w.places] for w in reading.windows]
    with torch.no_grad():
        logits = short.logits(rows, segments=kinds)
    nothing = min(float(each[0].sum()) for each in logits)
    assert nothing < max(float(each[0].sum()) for each in logits) - 0.01
    inside = [each[window.lead : -1] for each, window in zip(logits, reading.windows, strict=True)]
    most = max(
        float(each[i, 0] + each[j, 1])
        for each in inside
        for i in range(len(each))
        for j in range(i, len(each))
    )
    assert math.log(best.score / none.score) == pytest.approx(most - nothing, abs=1e-4)


def pointing(model: gf.Model, token: str) -> gf.Model:
    """The same model, so changed that it sees words only and likes this one as start and end."""
    with torch.no_grad():
        for name, weights in model.task.backbone.named_parameters():
            if "norm" in name:
                weights.fill_(float(name.endswith("weight")))
            elif "token" not in name:
                weights.zero_()
        (vector,) = model.hidden([[model.tokenizer.id(token)]])  # all are of the same length
        model.task.labels.linear.weight.copy_(vector.expand(2, -1))
    return model


@pytest.mark.parametrize("place", [0, 1, 17, 40, 59])
def test_an_answer_in_any_window_is_found_at_its_place(place: int, tmp_path: Path) -> None:
    model = pointing(bert("BertForQuestionAnswering", tmp_path / "m")[0], "paris")
    words = [("a", "b", "c", "d", "e", "f")[i % 6] for i in range(60)]
    words[place] = "Paris"
    context = "  ".join(words)
    (found,) = model.answer("who", context)
    assert found.text == "Paris" and found.start == context.index("Paris")
    for overlap in (0, 5):
        assert model.answer("who", context, overlap=overlap)[0].text == "Paris"


def test_many_questions_alone_or_together(short: gf.Model) -> None:
    asked = [("who", "the cat"), ("where?", "a mat " * 20), ("who", "paris was, on the cat")]
    for (question, context), found in zip(
        asked, answer(*short.able("answer"), asked, top_k=3), strict=True
    ):
        alone = short.answer(question, context, top_k=3)
        assert [(each.start, each.end) for each in found] == [(a.start, a.end) for a in alone]
        assert [e.score for e in found] == pytest.approx([a.score for a in alone], abs=1e-6)
        assert 0 < sum(each.score for each in found) <= 1 + 1e-9


@settings(max_examples=40, deadline=None)
@given(context=st.text(st.sampled_from("abc .,\n\tÀ猫\u0301😀\u200b"), min_size=1, max_size=60))
def test_places_slice_back_to_the_answer(short: gf.Model, context: str) -> None:
    try:
        found = short.answer("who", context, top_k=3)
    except InputError as error:
        one_line(error, "context 0")
        return
    for each in found:
        assert each.text and each.text == context[each.start : each.end] == each.text.strip()


WRONG: dict[str, tuple[tuple[Any, Any], dict[str, Any], tuple[str, ...]]] = {
    "no question": ((" ", "the cat"), {}, ("question 0", "' '")),
    "no context": (("who", ""), {}, ("context 0", "''")),
    "a context without a token": (("who", "\u200b"), {}, ("context 0", "no token")),
    "a number": (("who", 5), {}, ("answer", "5")),
    "no answers": (("who", "the cat"), {"top_k": 0}, ("top_k = 0",)),
    "no length": (("who", "the cat"), {"max_tokens": 0}, ("max_tokens = 0",)),
    "no threshold": (("who", "the cat"), {"threshold": float("nan")}, ("threshold = nan",)),
    "too long a question": (("who " * 20, "the cat"), {}, ("text 0", "17", "shorten")),
    "an overlap of all": (("who", "the cat " * 20), {"overlap": 13}, ("overlap = 13", "0 to 12")),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_asked_gets_one_line(name: str, short: gf.Model) -> None:
    asked, more, words = WRONG[name]
    with pytest.raises(InputError) as caught:
        short.answer(*asked, **more)
    one_line(caught.value, *words)


def test_a_model_without_a_first_token_has_an_answer_to_all(tmp_path: Path) -> None:
    model, _ = bytewise("GPT2ForQuestionAnswering", tmp_path / "m")
    with pytest.raises(InputError) as caught:
        model.answer("who", "the cat", no_answer=True)
    one_line(caught.value, "no_answer")
