"""Edges are what brute force says to first order, and a circuit's faithfulness is measured."""

import pytest
import torch

import glassformer as gf
from folders import CONFIGS, TASKS, heat, one_line, tiny
from glassformer.errors import ConfigError, InputError
from glassformer.interpret import circuits
from glassformer.interpret.circuits import edge_effects
from glassformer.interpret.contrast import ask_pair
from glassformer.interpret.split import SplitPass

CLEAN, CORRUPTED = [3, 14, 15, 9, 26], [3, 14, 40, 9, 26]
SOURCE, OTHER = [8, 9, 7, 3], [8, 30, 7, 3]
NAMES = [
    "BertForMaskedLM", "DebertaV2ForMaskedLM", "AlbertForMaskedLM", "GPT2LMHeadModel",
    "GPTNeoXForCausalLM", "Gemma2ForCausalLM", "Olmo2ForCausalLM", "MarianMTModel",
    "T5GemmaForConditionalGeneration",
]  # fmt: skip


def hot(name: str) -> gf.Model:
    task = gf.build_task(CONFIGS[name], TASKS[name], dtype=torch.float64)
    return heat(gf.Model(task).eval())


def pair(model: gf.Model):
    if model.config.family == "seq2seq":
        return (SOURCE, CLEAN), (OTHER, CORRUPTED)
    return CLEAN, CORRUPTED


@pytest.mark.parametrize("name", NAMES)
def test_the_split_pass_computes_what_the_model_computes(name: str) -> None:
    model = hot(name)
    contrast, _ = ask_pair(model, *pair(model), 4, 31, position=2)
    assert abs(SplitPass(contrast).run().item() - contrast.value()) <= 1e-9


@pytest.fixture(scope="module", params=["encoder", "decoder", "seq2seq"])
def effects(request):
    model = tiny(request.param)
    return edge_effects(model, *pair(model), 4, 31, position=2)


def test_all_edges_are_the_clean_text_and_no_edge_is_the_corrupted_one(effects) -> None:
    everything = effects.circuit(len(effects.edges))
    assert abs(everything.faithfulness - 1) <= 1e-9
    assert abs(effects.value([]) - effects.corrupted.value()) <= 1e-9
    assert everything.connected == everything.edges


def test_the_effect_of_a_small_change_is_its_estimate() -> None:
    """Where the corrupted text is nearly the clean one, the estimate is the effect itself."""
    model = tiny("encoder")
    table = model.task.backbone.encoder.embedding.token.weight.data
    table[40] = table[15] + 1e-5 * table[40]
    effects = edge_effects(model, CLEAN, CORRUPTED, 4, 31, position=2, steps=1)
    for edge in effects.edges[:40:4]:
        assert abs(effects.measured(edge) - edge.effect) <= 1e-3 * abs(effects.edges[0].effect)
    assert abs(effects.edges[0].effect) > 0


def test_an_edge_is_possible_where_the_reader_reads_what_the_writer_wrote(effects) -> None:
    """Without the heads of one attention, which read before any of them writes."""
    for edge in effects.edges:
        one, two = edge.writer, edge.reader
        assert (one.stack, one.layer, one.kind) != (two.stack, two.layer, two.kind)


@pytest.mark.parametrize(("name", "count"), [
    # a writer's edges: to later heads, MLPs and the logits; of 2 layers with 3 heads each
    ("GPT2LMHeadModel", 9 + 3 * 6 + 5 + 3 * 2 + 1),  # embedding, heads 0, MLP 0, heads 1, MLP 1
    ("GPTNeoXForCausalLM", 9 + 3 * 5 + 5 + 3 * 1 + 1),  # parallel: heads do not reach their MLP
])  # fmt: skip
def test_the_number_of_edges(name: str, count: int) -> None:
    model = hot(name)
    effects = edge_effects(model, *pair(model), 4, 31, position=2, steps=1)
    assert len(effects.edges) == count
    assert all(abs(edge.effect) > 1e-12 for edge in effects.edges)


def test_writers_come_before_readers(effects) -> None:
    kinds = {(edge.writer.kind, edge.reader.kind) for edge in effects.edges}
    assert ("embedding", "logits") in kinds and ("head", "mlp") in kinds
    for edge in effects.edges:
        same = edge.writer.stack == edge.reader.stack
        assert edge.writer.layer <= edge.reader.layer or not same
    crossing = [e for e in effects.edges if e.writer.stack != e.reader.stack]
    assert all(e.reader.kind == "cross_head" for e in crossing)
    assert bool(crossing) == bool(effects.clean.source_tokens)


def test_a_circuit_is_drawn_as_a_graph(effects) -> None:
    text = effects.circuit(12).dot()
    assert text.startswith("digraph circuit {") and text.endswith("}")
    assert text.count("->") == len(effects.circuit(12).connected)


def test_mistakes_get_one_line(effects) -> None:
    with pytest.raises(ConfigError) as caught:
        effects.circuit(0)
    one_line(caught.value, "edges = 0")
    with pytest.raises(ConfigError) as caught:
        edge_effects(tiny("decoder"), CLEAN, CORRUPTED, 4, 31, steps=0)
    one_line(caught.value, "steps = 0")


def test_a_text_that_needs_too_much_memory_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(circuits, "MEMORY", 10_000)
    with pytest.raises(InputError) as caught:
        edge_effects(tiny("decoder"), CLEAN, CORRUPTED, 4, 31)
    one_line(caught.value, "5 tokens", "GB", "2 tokens at most")  # 17,280 bytes
