"""Steering vectors, probes and tuned lenses do what they say, and survive a file."""

import pytest
import torch

import glassformer as gf
from folders import one_line, tiny
from glassformer.errors import ConfigError, InputError
from glassformer.interpret.probing import Probe, fit_probe
from glassformer.interpret.steering import SteeringVector, steering_vector
from glassformer.interpret.tuned_lens import TunedLens, fit_tuned_lens, logit_lens
from glassformer.interpret.word_vectors import word_vectors

TEXT = [3, 14, 15, 9, 26, 5]
TEXTS = [[(7 * i + 3 * j) % 53 for j in range(9)] for i in range(12)]


def test_a_steering_vector_is_a_difference_of_means(tmp_path) -> None:
    model = tiny("decoder")
    steer = steering_vector(model, TEXTS[:3], TEXTS[3:5], layer=0)
    name = "decoder.blocks.0.out"
    rows = [gf.record(model, text, keep=name)[name].mean(0) for text in TEXTS[:5]]
    expected = torch.stack(rows[:3]).mean(0) - torch.stack(rows[3:]).mean(0)
    torch.testing.assert_close(steer.vector, expected)
    before, after = (gf.record(model, TEXT, edit=edit) for edit in (None, steer.edit(2.0)))
    torch.testing.assert_close(after[name], before[name] + 2 * expected)
    assert not torch.equal(after["logits"], before["logits"])
    steer.save(tmp_path / "steer.safetensors")
    again = SteeringVector.load(tmp_path / "steer.safetensors")
    assert torch.equal(again.vector, steer.vector) and (again.stack, again.layer) == ("decoder", 0)


def words_and_vectors(count: int, seed: int = 0):
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 200, (count,), generator=draw)
    return [f"w{i}" for i in ids.tolist()], ids, torch.randn(count, 10, generator=draw)


def test_a_probe_reads_what_is_there_and_the_control_cannot(tmp_path) -> None:
    words, _, vectors = words_and_vectors(600)
    labels = ["yes" if x > 0 else "no" for x in (vectors[:, 3] - vectors[:, 5]).tolist()]
    probe = fit_probe(vectors, labels, words)
    assert probe.accuracy > 0.95 and probe.control_accuracy < 0.65 and probe.selectivity > 0.3
    right = [one == two for one, two in zip(probe.predict(vectors), labels, strict=True)]
    assert sum(right) > 0.95 * len(labels)
    probe.save(tmp_path / "probe.safetensors")
    again = Probe.load(tmp_path / "probe.safetensors")
    assert again.predict(vectors) == probe.predict(vectors)
    assert (again.accuracy, again.labels) == (probe.accuracy, probe.labels)


def test_a_probe_that_learns_words_by_heart_has_no_selectivity() -> None:
    _, ids, _ = words_and_vectors(600)
    vectors = torch.nn.functional.one_hot(ids % 20, 20).float()  # the word itself, and nothing else
    labels = ["yes" if i % 20 < 10 else "no" for i in ids.tolist()]
    probe = fit_probe(vectors, labels, [f"w{i % 20}" for i in ids.tolist()])
    assert probe.accuracy == probe.control_accuracy == 1 and probe.selectivity == 0


@pytest.mark.parametrize("family", ["encoder", "decoder"])
def test_a_tuned_lens_is_nearer_to_the_model_than_the_logit_lens(family, tmp_path) -> None:
    model = tiny(family).float()
    plain = logit_lens(model).distances(model, TEXTS)
    losses = []
    lens = fit_tuned_lens(
        model, TEXTS, steps=60, lr=1e-2, on_step=lambda step, loss: losses.append(loss)
    )
    tuned = lens.distances(model, TEXTS)
    assert plain[0] > 0.01 and tuned[0] < 0.7 * plain[0] and losses[-1] < losses[0]
    trace = gf.record(model, TEXT)
    last = trace[f"{family}.blocks.1.out"]  # after the last block the logit lens is the model
    torch.testing.assert_close(logit_lens(model).logits(model, 1, last), trace["logits"])
    assert plain[-1] <= 1e-9
    lens.save(tmp_path / "lens.safetensors")
    again = TunedLens.load(tmp_path / "lens.safetensors")
    assert torch.equal(again.weight, lens.weight) and torch.equal(again.bias, lens.bias)
    again.check(tiny(family).to(torch.bfloat16))
    model.task.backbone.token_embedding.data[0, 0] += 1
    with pytest.raises(InputError) as caught:
        again.distances(model, TEXTS)
    one_line(caught.value, "other weights")


def test_word_vectors_are_those_of_first_tokens() -> None:
    model = gf.load("gf-encoder")
    sentences = [["The", "unbelievable", "cat"], ["It", "sat"]]
    layers = word_vectors(model, sentences)
    assert len(layers) == model.config.depth
    for name, vectors in layers.items():
        whole = gf.record(model, "The unbelievable cat", keep=name)
        assert torch.equal(vectors[0], whole[name][1])
        assert torch.equal(vectors[2], whole[name][whole.tokens.index("cat")])
        assert len(vectors) == 5
    for wrong in ([[]], [["a", "", "b"]]):
        with pytest.raises(InputError) as caught:
            word_vectors(model, wrong)
        one_line(caught.value, "word")


def test_mistakes_get_one_line(tmp_path) -> None:
    model, wide = tiny("decoder"), SteeringVector(torch.ones(13), "decoder", 0)
    (tmp_path / "x.safetensors").write_bytes(b"no")
    for call, error, words in (
        (lambda: steering_vector(model, [TEXT], [], layer=0), InputError, ("both kinds",)),
        (lambda: steering_vector(model, [TEXT], [TEXT], layer=2), ConfigError, ("0 to 1",)),
        (lambda: fit_probe(torch.zeros(4, 2), ["a"] * 4, ["b"] * 4), InputError, ("two labels",)),
        (lambda: fit_probe(torch.zeros(4, 2), ["a"] * 3, ["b"] * 4), InputError, ("4, 3 and 4",)),
        (lambda: fit_probe(torch.zeros(0, 2), [], []), InputError, ("no labels",)),
        (lambda: fit_probe(torch.zeros(2, 2), ["a", "b"], ["a", "b"]), InputError, ("too few",)),
        (lambda: gf.record(model, TEXT, edit=wide.edit()), ConfigError, ("13 entries", "have 12")),
        (lambda: fit_tuned_lens(model, []), InputError, ("at least one",)),
        (lambda: fit_tuned_lens(model, [TEXT], steps=0), ConfigError, ("steps = 0",)),
        (lambda: Probe.load(tmp_path / "x.safetensors"), InputError, ("x.safetensors",)),
        (lambda: TunedLens.load(tmp_path / "none"), InputError, ("none",)),
    ):
        with pytest.raises(error) as caught:
            call()
        one_line(caught.value, *words)
    logit_lens(model).save(tmp_path / "lens.safetensors")
    with pytest.raises(InputError) as caught:
        SteeringVector.load(tmp_path / "lens.safetensors")
    one_line(caught.value, "glassformer-steering-1")
