"""Row i is row i: whoever asks, whenever, with whatever number of threads."""

from itertools import islice

import numpy as np
import pytest
import torch

from glassformer.data.batches import PackedRows
from glassformer.data.dataset import NO_LABEL
from glassformer.data.masking import Masking
from glassformer.data.special_tokens import SpecialTokenTemplate
from glassformer.errors import InputError
from glassformer.objectives.causal_lm import CausalLMDataset
from glassformer.objectives.masked_lm import MaskedLMDataset
from glassformer.objectives.masked_lm_nsp import MaskedLMNSPDataset
from glassformer.objectives.translation import TranslationDataset
from stores import counted, store_of

BERT = SpecialTokenTemplate((2,), (3,), (3,), (3,), True)
MARIAN = SpecialTokenTemplate((), (1,), (1,), (1,), False)
FORBIDDEN = np.arange(2000) < 10
LENGTH, BUDGET = 17, 53


def masking(unit="token", rate=0.15):
    return Masking(rate, unit, 4, 2000, FORBIDDEN, ~FORBIDDEN & (np.arange(2000) % 4 == 0))


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    sizes = np.random.default_rng(0).integers(1, 40, 40).tolist()
    starts = [sorted({0, *range(0, size, 5)}) for size in sizes]
    return {
        "text": store_of(folder / "t", shards=3, tokens=counted(sizes), sentences=starts),
        "pairs": store_of(folder / "p", source=counted(sizes), target=counted(sizes[::-1])),
    }


def objective(stores, kind, seed=0, unit="token"):
    text = (stores["text"], BERT, LENGTH, 0, seed)
    return {
        "next": lambda: CausalLMDataset(*text),
        "masked": lambda: MaskedLMDataset(*text, masking(unit)),
        "pairs": lambda: MaskedLMNSPDataset(*text, masking(unit)),
        "translate": lambda: TranslationDataset(stores["pairs"], MARIAN, LENGTH, 0, seed, 7, (1,)),
    }[kind]()


KINDS = ("next", "masked", "pairs", "translate")


def same(one, two):
    for name in ("tokens", "segments", "labels", "label_positions", "next_sentence_labels"):
        a, b = getattr(one, name), getattr(two, name)
        assert (a is None) == (b is None)
        assert a is None or torch.equal(a, b), name
    assert torch.equal(one.sequences.offsets, two.sequences.offsets)
    if one.source is not None:
        same(one.source, two.source)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("workers", [1, 3])
def test_threads_change_nothing(stores, kind, workers):
    plain, ahead = (PackedRows(objective(stores, kind), budget=BUDGET) for _ in range(2))
    wanted = [0, 1, 2, len(plain.plan(0)) - 1, len(plain.plan(0)), 3, 2 * len(plain.plan(0)) + 1]
    for index, row in zip(wanted, ahead.stream(wanted, workers=workers), strict=True):
        same(row.batch, plain[index].batch)


def test_threads_stop_with_the_stream(stores):
    rows = PackedRows(objective(stores, "next"), budget=BUDGET)
    stream = rows.stream(iter(range(10**9)), workers=2)
    assert len(list(islice(stream, 3))) == 3
    stream.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_found_without_those_before_it(stores, kind, tmp_path):
    first = PackedRows(objective(stores, kind), budget=BUDGET, folder=tmp_path)
    many = [first[i] for i in range(2 * len(first.plan(0)))]
    late = PackedRows(objective(stores, kind), budget=BUDGET, folder=tmp_path)
    same(late[len(many) - 1].batch, many[-1].batch)
    unstored = PackedRows(objective(stores, kind), budget=BUDGET)
    same(unstored[len(many) - 1].batch, many[-1].batch)


@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_holds_every_sample_once(stores, kind):
    rows = PackedRows(objective(stores, kind), budget=BUDGET)
    end = 0
    for epoch in range(3):
        samples, plan = rows.dataset.samples(epoch), rows.plan(epoch)
        assert sorted(plan.samples.first.tolist()) == sorted(samples.first.tolist())
        assert [rows.locate(i) for i in (end, end + len(plan) - 1)] == [
            (epoch, 0), (epoch, len(plan) - 1),
        ]  # fmt: skip
        end += len(plan)


def test_rows_count_their_real_tokens(stores):
    for kind in KINDS:
        rows = PackedRows(objective(stores, kind), budget=BUDGET, fixed=True)
        bare = PackedRows(objective(stores, kind), budget=BUDGET)
        for i in range(len(rows.plan(0))):
            batch = bare[i].batch
            real = len(batch.tokens) + (0 if batch.source is None else len(batch.source.tokens))
            assert rows[i].tokens == bare[i].tokens == real
            assert len(batch.tokens) <= BUDGET


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_fixed_shapes_are_the_same_for_every_row(stores, kind, unit):
    """N, B and P: what a compiled graph is made for."""
    rows = PackedRows(objective(stores, kind, unit=unit), budget=96, fixed=True)
    shapes = set()
    for i in range(3 * len(rows.plan(0))):
        batch = rows[i].batch
        parts = [batch.tokens, batch.labels, batch.sequences.offsets]
        parts += [
            x
            for x in (batch.label_positions, batch.segments, batch.next_sentence_labels)
            if x is not None
        ]
        if batch.source is not None:
            parts += [batch.source.tokens, batch.source.sequences.offsets]
        shapes.add((batch.sequences.longest, *(len(x) for x in parts)))
        assert (batch.labels != NO_LABEL).any()
    assert len(shapes) == 1


# stored plans


def settings_of(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_a_stored_plan_is_used_and_the_same(stores, tmp_path, monkeypatch):
    rows = PackedRows(objective(stores, "masked"), budget=BUDGET, folder=tmp_path)
    begins = rows.plan(1).begins.tolist()
    assert [file.name for file in tmp_path.iterdir()] == ["epoch-00001.safetensors"]
    again = PackedRows(objective(stores, "masked"), budget=BUDGET, folder=tmp_path)
    monkeypatch.setattr(MaskedLMDataset, "samples", None)  # it cannot be made: it must be read
    assert again.plan(1).begins.tolist() == begins


@pytest.mark.parametrize("damage", [b"", b"x" * 100])
def test_a_damaged_plan_is_made_again(stores, tmp_path, damage):
    rows = PackedRows(objective(stores, "masked"), budget=BUDGET, folder=tmp_path)
    rows.plan(0)
    before = settings_of(tmp_path)
    (tmp_path / "epoch-00000.safetensors").write_bytes(damage)
    PackedRows(objective(stores, "masked"), budget=BUDGET, folder=tmp_path).plan(0)
    assert settings_of(tmp_path) == before


def test_other_settings_make_another_plan(stores, tmp_path):
    """Nobody reads a plan of another seed, length, budget, objective, order or store."""
    text, frame = stores["text"], BERT
    other, moved, cut = (
        store_of(tmp_path / f"{i}", tokens=counted(sizes), sentences=starts)
        for i, (sizes, starts) in enumerate((
            ([30, 31], [[0, 5, 9, 14], [0, 6, 12]]),
            ([31, 30], [[0, 5, 9, 14], [0, 6, 12]]),  # as many tokens and sentences, elsewhere
            ([31, 30], [[0, 5, 9, 13], [0, 6, 12]]),
        ))
    )  # fmt: skip
    objectives = [
        (MaskedLMNSPDataset(text, frame, LENGTH, 0, 0, masking()), BUDGET),
        (MaskedLMNSPDataset(text, frame, LENGTH, 0, 0, masking(), True), BUDGET),
        (MaskedLMNSPDataset(text, frame, LENGTH, 0, 1, masking()), BUDGET),
        (MaskedLMNSPDataset(text, frame, LENGTH + 1, 0, 0, masking()), BUDGET),
        (MaskedLMNSPDataset(text, frame, LENGTH, 0, 0, masking()), BUDGET + 1),
        (MaskedLMNSPDataset(other, frame, LENGTH, 0, 0, masking()), BUDGET),
        (MaskedLMNSPDataset(moved, frame, LENGTH, 0, 0, masking()), BUDGET),
        (MaskedLMNSPDataset(cut, frame, LENGTH, 0, 0, masking()), BUDGET),
        (MaskedLMDataset(text, frame, LENGTH, 0, 0, masking()), BUDGET),
        (CausalLMDataset(text, frame, LENGTH, 0, 0), BUDGET),
    ]
    for one, budget in objectives:
        stored = PackedRows(one, budget=budget, folder=tmp_path / "plan").plan(0)
        fresh = PackedRows(one, budget=budget).plan(0)
        assert stored.samples.first.tolist() == fresh.samples.first.tolist()
        assert stored.begins.tolist() == fresh.begins.tolist()


def test_nothing_to_learn_from_is_refused(tmp_path):
    store = store_of(tmp_path, tokens=[[5], [6]])
    with pytest.raises(InputError, match="no text is left: 2 documents with no token to predict"):
        PackedRows(CausalLMDataset(store, BERT, LENGTH, 0, 0), budget=BUDGET)
