"""From text to ids: the same whether it was broken off or not, in memory that does not grow."""

import multiprocessing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import normalizers

from glassformer.data import prepare as module
from glassformer.data.prepare import Progress, chunks, encode, parts, prepare, sentences
from glassformer.data.store import META, Store, read_meta
from glassformer.errors import GlassformerError, InputError
from glassformer.text import Tokenizer
from sampling import mostly_slow
from stores import RUSSIAN, TEXTS, bpe, chars, translation, unigram, wordpiece

PAIRS = list(zip(TEXTS, RUSSIAN * 2, strict=True))
CASES = {
    "text": (bpe(), "text", TEXTS),
    "sentences": (wordpiece(), "sentences", TEXTS),
    "pairs": (translation(), "pairs", PAIRS),
}


def run(documents, tokenizer, folder, **settings):
    return list(prepare(documents, tokenizer, folder, **settings))


def files(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


# what is written


def test_documents_end_with_the_end_token(tmp_path):
    tokenizer = bpe()
    last = run(TEXTS, tokenizer, tmp_path, kind="text")[-1]
    store = Store(tmp_path)
    found = [each.tolist() for each in store["tokens"].lists()]
    assert found == [[*tokenizer.encode(text).ids, 0] for text in TEXTS]
    assert store.end == [0] and store.meta.fingerprint == tokenizer.fingerprint
    assert last == Progress(len(TEXTS), sum(map(len, TEXTS)), sum(map(len, found)))


def test_characters_have_no_end_token(tmp_path):
    run(TEXTS[:2], chars(), tmp_path, kind="text")
    assert [len(each) for each in Store(tmp_path)["tokens"].lists()] == [*map(len, TEXTS[:2])]
    assert Store(tmp_path).end == []


def test_sentences_are_cut_and_none_is_lost(tmp_path):
    tokenizer = wordpiece()
    run(TEXTS, tokenizer, tmp_path, kind="sentences")
    store = Store(tmp_path)
    for text, ids, starts in zip(
        TEXTS, store["tokens"].lists(), store["sentences"].lists(), strict=True
    ):
        parts = tokenizer.ids(sentences(text))
        assert ids.tolist() == [i for part in parts for i in part]
        assert starts.tolist() == [sum(map(len, parts[:i])) for i in range(len(parts))]


def test_pairs_stand_side_by_side(tmp_path):
    tokenizer = translation()
    run(PAIRS, tokenizer, tmp_path, kind="pairs")
    store = Store(tmp_path)
    for side, name in enumerate(("source", "target")):
        found = [each.tolist() for each in store[name].lists()]
        assert found == tokenizer.ids([pair[side] for pair in PAIRS])


def test_a_text_that_gives_no_tokens_stays_a_document(tmp_path):
    run(["the cat", " \n ", "the dog"], wordpiece(), tmp_path, kind="sentences")
    store = Store(tmp_path)
    assert [len(each) > 0 for each in store["tokens"].lists()] == [True, False, True]
    assert [each.tolist() for each in store["sentences"].lists()] == [[0], [], [0]]


@given(st.text("ab.!?…\"') \n", max_size=40))
def test_sentences_hold_the_whole_text(text):
    found = sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(part == part.strip() and part and "\n" not in part for part in found)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('He said "No!" Then he left.', ['He said "No!"', "Then he left."]),
        ("Wait... what?! Yes.", ["Wait...", "what?!", "Yes."]),
        ("3.5 metres. End", ["3.5 metres.", "End"]),
        ("One line\nanother line", ["One line", "another line"]),
        ("....", ["...."]),
    ],
)
def test_sentences(text, wanted):
    assert sentences(text) == wanted


def test_a_page_of_marks_takes_no_longer_than_a_page():
    assert len(sentences("?" * 200_000)) == 1
    assert len(sentences(". " * 50_000)) == 50_000


@given(st.lists(st.text(max_size=30), max_size=30))
def test_chunks_hold_all_in_order(texts):
    found = list(chunks(texts))
    assert [text for chunk in found for text in chunk] == texts
    assert all(found)


def test_encode_without_an_end():
    tokenizer = bpe()
    (found,) = encode(TEXTS[:1], tokenizer, "text")
    assert found["tokens"].tolist() == tokenizer.encode(TEXTS[0]).ids


def prefixed():
    """As Llama's: every text gets a space in front, so that no part is like the whole."""
    backend = bpe().backend
    backend.normalizer = normalizers.Prepend("x")
    return Tokenizer(backend)


@pytest.mark.parametrize("make", [bpe, wordpiece, translation, chars, unigram, prefixed])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_long_document_is_cut_where_it_makes_no_difference(monkeypatch, make, data):
    monkeypatch.setattr(module, "PART", 40)
    words = [word for text in TEXTS for word in text.split(" ")]
    joined = st.tuples(st.sampled_from(words), st.sampled_from([" ", "  ", "\n", "\n\n", " \n"]))
    text = "".join(word + space for word, space in data.draw(st.lists(joined, max_size=80)))
    tokenizer = make()
    cut = list(parts(text, tokenizer))
    assert "".join(cut) == text
    (found,) = encode([text], tokenizer, "text")
    assert [found["tokens"].tolist()] == tokenizer.ids([text])
    if make is prefixed:
        assert cut == [text]
    else:
        assert max(map(len, cut)) <= 80


def test_documents_stay_apart_when_they_are_cut(monkeypatch):
    monkeypatch.setattr(module, "PART", 30)
    monkeypatch.setattr(module, "CHUNK", 70)
    texts = ["", *TEXTS, " \n ", "a" * 200, *TEXTS]
    tokenizer = bpe()
    found = [each["tokens"].tolist() for each in encode(texts, tokenizer, "text", (0,))]
    assert found == [[*ids, 0] for ids in tokenizer.ids(texts)]


# broken off and taken up


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("stop", [1, 2, 3, 5])
def test_taken_up_it_is_the_same_to_the_byte(tmp_path, monkeypatch, case, stop):
    monkeypatch.setattr(module, "CHUNK", 1)  # a chunk a document
    tokenizer, kind, texts = CASES[case]
    run(texts, tokenizer, tmp_path / "whole", kind=kind, shard=30, sources=["a"])
    assert len(read_meta(tmp_path / "whole").documents) > 2
    broken = prepare(texts, tokenizer, tmp_path / "broken", kind=kind, shard=30, sources=["a"])
    for _ in range(stop):
        next(broken)
    broken.close()
    before = read_meta(tmp_path / "broken")
    steps = run(texts, tokenizer, tmp_path / "broken", kind=kind, shard=30, sources=["a"])
    done = sum(before.documents) if before else 0
    assert len(steps) == len(texts) - done  # nothing whole is done again
    assert steps[-1].tokens == sum(
        sum(each) for name, each in read_meta(tmp_path / "whole").tokens.items()
        if name != "sentences"
    )  # fmt: skip
    assert files(tmp_path / "broken") == files(tmp_path / "whole")


def test_what_is_done_is_not_done_again(tmp_path):
    run(TEXTS, bpe(), tmp_path, kind="text")
    before = files(tmp_path)

    def never():
        raise AssertionError
        yield

    (progress,) = run(never(), bpe(), tmp_path, kind="text")
    assert progress.documents == len(TEXTS) and files(tmp_path) == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"tokenizer": wordpiece()}, "fingerprint"),
        ({"kind": "sentences"}, "columns"),
        ({"sources": ["b.txt"]}, "sources"),
    ],
)
def test_other_data_in_the_same_folder_is_refused(tmp_path, change, named):
    first = {"tokenizer": bpe(), "kind": "text", "sources": ["a.txt"]}
    list(prepare(TEXTS, folder=tmp_path, **first))
    with pytest.raises(InputError, match=f"other data was prepared here \\({named}: .*another"):
        list(prepare(TEXTS, folder=tmp_path, **(first | change)))


def test_no_text_at_all_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no text in it"):
        run([], bpe(), tmp_path, kind="text")
    assert not (tmp_path / META).exists()


def test_a_character_that_the_tokenizer_does_not_know_is_one_line(tmp_path):
    with pytest.raises(InputError, match="does not know '☃', as in 'The cat sat on a ☃ mat': t"):
        run([*TEXTS, "The cat sat on a ☃ mat"], chars(), tmp_path, kind="text")


# several processes


@pytest.mark.parametrize("case", mostly_slow(CASES))
def test_the_number_of_workers_changes_no_byte(case, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 60)
    tokenizer, kind, documents = CASES[case]
    for workers in (1, 2, 3):
        settings = {"kind": kind, "shard": 100, "workers": workers}
        progress = run(documents, tokenizer, tmp_path / str(workers), **settings)
        assert len(progress) > 3 and len(read_meta(tmp_path / str(workers)).documents) > 1
    assert files(tmp_path / "1") == files(tmp_path / "2") == files(tmp_path / "3")


def test_a_killed_worker_is_one_line_and_the_same_call_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 60)
    documents, settings = TEXTS * 20, {"kind": "text", "shard": 100, "workers": 2}
    steps = prepare(documents, bpe(), tmp_path / "killed", **settings)
    while not (tmp_path / "killed" / META).exists():
        next(steps)
    multiprocessing.active_children()[0].kill()
    with pytest.raises(GlassformerError, match=r"a worker process has ended.*to resume") as error:
        list(steps)
    assert "\n" not in str(error.value)
    assert not read_meta(tmp_path / "killed").done
    for folder in ("killed", "whole"):
        run(documents, bpe(), tmp_path / folder, kind="text", shard=100)
    ours, whole = (Store(tmp_path / each)["tokens"].row.tolist() for each in ("killed", "whole"))
    assert ours == whole


def test_what_a_worker_cannot_encode_is_named(tmp_path):
    with pytest.raises(InputError, match="the tokenizer does not know '☃'"):
        run(["the cat ☃"], chars(), tmp_path, kind="text", workers=2)
