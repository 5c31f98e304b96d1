"""Every formula that Numbers shows, computed from what it shows: for all architectures."""

import pytest
import torch
from drawings import KINDS, small
from slides import check

import glassformer as gf
from glassformer.studio.samples import ServedModel


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_every_formula_holds(kind, open_studio):
    model = small(kind, torch.float64)
    client = open_studio([ServedModel(kind, model)])
    ids = [5, 11, 3, 47, 2, 9, 30]
    row = client.post("/api/runs", json={"model": kind, "text": " ".join(map(str, ids))}).json()
    given = ids
    if "decoder" in row["tokens"]["queries"] and "encoder" in row["tokens"]["queries"]:
        given = (ids, [int(each["piece"]) for each in row["tokens"]["queries"]["decoder"]])
    seen = check(model, client, kind, row, gf.record(model, given))
    config = model.task.backbone.config
    assert ("position" in seen) == (config.position in ("learned", "sinusoidal"))
    assert ("β" in seen) == (config.norm == "layer" and config.norm_bias)
    assert ("W_g" in seen) == config.gated
    assert ("d" in seen) == (config.scaled and config.score_width in (None, config.head_width))
    assert ("k_δ" in seen) == (config.relative == "disentangled")
    assert ("p" in seen) == (config.norm_place in ("branch", "sandwich"))
    assert ("b_Q" in seen) == config.attention_bias


@torch.no_grad()
def test_interventions_are_in_the_formulas(open_studio):
    model = small("gpt2", torch.float64)
    client = open_studio([ServedModel("gpt2", model)])
    ask = {"model": "gpt2", "text": "5 11 3 47", "other": "9 8 7", "off": [["decoder", 0, 2]],
           "patches": [["decoder", 1, 2, 0]]}  # fmt: skip
    row = client.post("/api/runs", json=ask).json()
    edit = {"decoder.blocks.0.attention.mixed": gf.ablate(2)}
    edit |= gf.glass.patched(gf.record(model, [9, 8, 7]), "decoder", [(1, 2, 0)])
    seen = check(model, client, "gpt2", row, gf.record(model, [5, 11, 3, 47], edit=edit))
    assert {"0", "y_other"} <= seen
