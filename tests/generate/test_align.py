"""Word alignment from cross attention, on weights made by hand."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.config import TokenIds
from glassformer.data.readers.alignments import Gold
from glassformer.errors import InputError
from glassformer.generate.align import AlignedWords, Alignment, align, error_rate, membership
from glassformer.text.training import train_tokenizer

TEXTS = ["the cat sat on the mat.", "xa xb xc xd xe."]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS * 2, "bpe", 275, purpose="translation")


def made(tokenizer, depth=3, heads=2):
    config = gf.ModelConfig(
        family="seq2seq", vocab_size=tokenizer.highest + 1, width=8, depth=depth, heads=heads,
        mlp_width=8, max_length=64, ids=TokenIds(pad=2, start=2, end=0),
    )  # fmt: skip
    return gf.build_task(config, gf.TaskConfig(kind="translation")).eval()


def test_words_stand_between_spaces():
    found = AlignedWords.of(" the cat.\tsat")
    assert found.words == ["the", "cat.", "sat"] and found.spans[0] == (1, 4)
    joined = AlignedWords.joined(["the", "mat", ".", "1", ","])
    assert joined.text == "the mat. 1," and joined.words == ["the", "mat", ".", "1", ","]


def test_every_piece_is_a_part_of_its_word(tokenizer):
    read = tokenizer.encode("the cat sat")
    found = membership(read, AlignedWords.of("the cat sat").spans)
    pieces = [tokenizer.decode([i]) for i in read.ids]
    for j, word in enumerate(["the", "cat", "sat"]):
        assert "".join(p for p, row in zip(pieces, found, strict=True) if row[j]).strip() == word
    assert found[-1].sum() == 0  # </s> is of no word


@pytest.mark.parametrize("layers", [None, (0,), (2, 0)])
@pytest.mark.parametrize("reading", [False, True])
def test_weights_are_summed_over_pieces_of_the_source_and_their_mean(tokenizer, layers, reading):
    """Against the tensors of `record`, by plain sums."""
    task = made(tokenizer)
    source, target = "the cat sat", "xa xb"
    read, written = tokenizer.encode_all([source, target])
    model = gf.Model(task, tokenizer).eval()
    trace = gf.record(model, (read.ids, [2, *written.ids[:-1]]), keep="*.cross.weights")
    found = align(task, tokenizer, source, target, layers=layers, reading=reading)
    chosen = [trace[f"decoder.blocks.{i}.cross.weights"].mean(0) for i in layers or (1, 2)]
    looks = torch.stack(chosen).mean(0)
    looks = looks[1:] if reading else looks[:-1]
    rows = membership(written, AlignedWords.of(target).spans)
    columns = membership(read, AlignedWords.of(source).spans)
    for j in range(2):
        pieces = [t for t in range(len(looks)) if rows[t, j]]
        for i in range(3):
            mass = [sum(float(looks[t, s]) for s in range(len(read.ids)) if columns[s, i])
                    for t in pieces]  # fmt: skip
            assert found.weights[j, i] == pytest.approx(sum(mass) / len(mass), abs=1e-6)
    assert found.source == ["the", "cat", "sat"] and found.target == ["xa", "xb"]
    assert ((found.weights.sum(1) > 0) & (found.weights.sum(1) < 1)).all()  # </s> has the rest


def test_hard_links():
    weights = torch.tensor([[0.1, 0.6, 0.3], [0.0, 0.7, 0.2], [0.5, 0.2, 0.3], [0.0, 0.0, 0.0]])
    found = Alignment(["a", "b", "c"], ["w", "x", "y", "z"], weights)
    assert found.links() == [(0, 2), (1, 0), (1, 1)]  # z looked at nothing
    assert found.links(mutual=True) == [(0, 2), (1, 1)]
    assert found.pharaoh() == "0-2 1-0 1-1"


def test_nothing_to_align(tokenizer):
    task = made(tokenizer)
    for source, target in (("", "xa"), ("the", ""), ("", "")):
        assert align(task, tokenizer, source, target).links() == []


def test_refused(tokenizer):
    task = made(tokenizer)
    for wrong in ([3], [-1, 0], []):
        with pytest.raises(InputError, match="the decoder has blocks 0 to 2"):
            align(task, tokenizer, "the", "xa", layers=wrong)
    config = gf.ModelConfig(
        family="decoder", vocab_size=300, width=8, depth=1, heads=1, mlp_width=8, max_length=8
    )
    decoder = gf.build_task(config, gf.TaskConfig(kind="causal_lm"))
    with pytest.raises(InputError, match="load a translation model"):
        align(decoder, tokenizer, "the", "xa")


def test_error_rate():
    gold = Gold(["a", "b"], ["c", "d"], frozenset({(0, 0)}), frozenset({(0, 0), (1, 1)}))
    assert error_rate([[(0, 0), (1, 1)]], [gold]) == 0.0
    assert error_rate([[(0, 0)]], [gold]) == 0.0  # a possible link may be missing
    assert error_rate([[(1, 0)]], [gold]) == 1.0
    assert error_rate([[]], [gold]) == 1.0
    # 1 sure link of 1 found, 1 of 2 links possible
    assert error_rate([[(0, 0), (0, 1)]], [gold]) == pytest.approx(1 - 2 / 3)
    # over two sentences together, not the mean of the two
    assert error_rate([[(0, 0), (0, 1)], [(1, 0)]], [gold, gold]) == pytest.approx(1 - 2 / 5)


@pytest.mark.slow
def test_the_benchmark_runs():
    script = Path(__file__).parents[2] / "benchmarks" / "align.py"
    run = subprocess.run(
        [sys.executable, str(script), "--tiny"], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in run.stdout.splitlines()[2:]]
    assert len(rows) == 8 and all(0 <= float(row[3]) <= 1 for row in rows)
