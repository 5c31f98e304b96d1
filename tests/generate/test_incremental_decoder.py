"""Text that comes piece by piece: whole characters, and nothing of a stop string."""

import itertools

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from generate.storytellers import SENTENCES, SIZES, speaker, tokenizer
from glassformer.generate.generation import IncrementalDecoder, decode_tokens
from sampling import mostly_slow

TOKENIZERS = {kind: tokenizer(kind) for kind in SIZES}
TEXTS = [*SENTENCES, "🙂🙂🙂", "é", "a b  c", "日本語 日本"]


def pieces(kind, ids, stop=()):
    """What is shown after each token, up to the one that ends the text."""
    spelling = IncrementalDecoder(TOKENIZERS[kind], stop)
    shown = []
    for i, token in enumerate(ids):
        spelling.add(token)
        last = spelling.stopped or i == len(ids) - 1
        shown.append(spelling.more(last=last))
        if spelling.stopped:
            break
    return shown


@pytest.mark.parametrize("kind", SIZES)
def test_the_pieces_are_the_text(kind):
    for text in TEXTS:
        ids = TOKENIZERS[kind].ids([text])[0]
        shown = pieces(kind, ids)
        assert "".join(shown) == TOKENIZERS[kind].decode(ids)
        assert kind == "chars" or not any("\ufffd" in each for each in shown)


def test_half_a_character_is_held_back():
    ids = TOKENIZERS["bytes"].ids(["a🙂b"])[0]
    assert pieces("bytes", ids) == ["a", "", "", "", "🙂", "b"]
    assert pieces("bytes", ids[:3]) == ["a", "", "\ufffd"]  # that was all: show what there is


@pytest.mark.parametrize("kind", ["bytes", "bpe", "unigram"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_tokens(kind, data):
    """Also those that are no text at all."""
    token = st.integers(0, len(TOKENIZERS[kind]) - 1)
    ids = data.draw(st.lists(token, min_size=1, max_size=20))
    assert "".join(pieces(kind, ids)) == TOKENIZERS[kind].decode(ids)


@pytest.mark.parametrize("kind", ["bytes", "bpe", "unigram", "chars"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_stop_string_is_never_shown(kind, data):
    text = data.draw(st.text("ab \n🙂", min_size=1, max_size=20))
    stop = data.draw(st.lists(st.text("ab \n🙂", min_size=1, max_size=3), min_size=1, max_size=2))
    ids = TOKENIZERS[kind].ids([text])[0]
    if not ids:
        return
    shown = pieces(kind, ids, stop)
    *before, last = (decode_tokens(TOKENIZERS[kind], ids[: i + 1], stop) for i in range(len(shown)))
    assert "".join(shown) == last[0]
    assert not any(found for _, found in before)  # the first token that completes one is the last
    assert last[1] or len(shown) == len(ids)


@pytest.mark.parametrize("kind", mostly_slow(["bpe", "bytes"]))
def test_stop_strings_end_texts_where_transformers_ends_them(kind, tmp_path):
    """Greedy: the same ids. The text is told without the stop string."""
    model = speaker(kind)
    model.save(tmp_path)
    reference = transformers.GPT2LMHeadModel.from_pretrained(tmp_path)
    reader = transformers.PreTrainedTokenizerFast(tokenizer_object=model.tokenizer.backend)
    stopped = 0
    for prompt in SENTENCES:
        ids = model.tokenizer.ids([prompt])[0]
        free = model.generate([ids], max_new_tokens=30, eos_token_id=[])[0].text
        for start, size in itertools.product((3, 9), (1, 2, 4)):
            stop = free[start : start + size]
            if not stop or "\ufffd" in stop:
                continue
            found = model.generate([ids], max_new_tokens=30, stop=stop, eos_token_id=[])[0]
            theirs = reference.generate(
                torch.tensor([ids]), max_new_tokens=30, stop_strings=[stop], tokenizer=reader,
                eos_token_id=None, attention_mask=torch.ones(1, len(ids)).long(), pad_token_id=0,
            )[0]  # fmt: skip
            assert [*ids, *found.ids] == theirs.tolist(), (prompt, stop)
            assert stop not in found.text and found.text == free[: free.find(stop)]
            stopped += found.stopped == "stop"
    assert stopped > 5


def test_a_stop_string_ends_beams_too():
    model = speaker("bpe")
    free = model.generate("The cat", num_beams=3, max_new_tokens=12)[0]
    stop = free.text[2:4]
    asked = {"num_beams": 3, "num_return_sequences": 3, "stop": [stop]}
    for most in range(1, 21):  # at the last token that is allowed as well
        for each in model.generate("The cat", max_new_tokens=most, **asked):
            assert stop not in each.text
            assert (each.stopped == "stop") == (stop in model.tokenizer.decode(each.ids))


def test_streaming_gives_the_text_that_generate_gives():
    for kind in ("bytes", "bpe"):
        model = speaker(kind)
        for seed in range(2):
            asked = {"temperature": 0.7, "seed": seed, "max_new_tokens": 40}
            whole = model.generate("The cat", **asked)[0].text
            assert "".join(model.stream("The cat", **asked)) == whole
            stop = whole[5:7]
            cut = "".join(model.stream("The cat", stop=stop, **asked))
            assert cut == whole[: whole.find(stop)]
