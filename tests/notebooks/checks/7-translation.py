"""What 7-translation.ipynb must show, after the cell of each id."""

# %% 21272bd5
assert sizes["encoder"] == (config.depth, config.heads, S, S)
assert sizes["decoder"] == (config.decoder_depth, config.heads, T, T)
assert sizes["cross"] == (config.decoder_depth, config.heads, T, S)

# %% 9ca3772f
for values, rows, _ in parts.values():
    assert torch.allclose(values.sum(-1), torch.ones(len(rows)), atol=0.0001)
assert weights(trace, "decoder").triu(1).abs().max() == 0  # no token attends to later ones
assert weights(trace, "encoder")[0, 0].triu(1).max() > 0  # in the encoder every token may

# %% 18649362
assert torch.equal(trace[cross + "k"], other_target[cross + "k"])  # independent of the target
assert torch.equal(trace[cross + "v"], other_target[cross + "v"])
assert torch.allclose(trace[cross + "q"], other_source[cross + "q"], atol=1e-5)  # of the source
assert trace[cross + "k"].shape == (S, config.heads, config.width // config.heads)
assert trace[cross + "q"].shape == (T, config.heads, config.width // config.heads)

# %% 108fbc84
assert embedded.shape == (S, config.width)
assert torch.allclose(embedded, trace["encoder.embedding.out"], atol=1e-5)

# %% c290327e
for name, linear in (("q", attention.query), ("k", attention.key), ("v", attention.value)):
    with torch.no_grad():
        made[name] = linear(embedded).unflatten(-1, (config.heads, D))
    assert torch.allclose(made[name], trace[f"encoder.blocks.0.attention.{name}"], atol=0.0001)

# %% 8d18e2bc
assert abs(row.sum() - 1) < 1e-5
assert torch.allclose(row, trace["encoder.blocks.0.attention.weights"][0, cat], atol=1e-5)

# %% 120cad8d
assert torch.allclose(mixed, trace["encoder.blocks.0.attention.mixed"][cat, 0], atol=1e-4)

# %% d23b62b2
assert all(abs(guesses.exp().sum() - 1) < 1e-4 for guesses in first.values())

# %% 9241b219
assert tokenizer.decode(written[1:]).strip() == said.text  # as the library does it

# %% 85b8de8d
for each in best:
    with torch.no_grad():
        steps = model.logits([friend], targets=[[start, *each.ids[:-1]]])[0].log_softmax(-1)
    by_hand = steps[range(len(each.ids)), each.ids].mean().item()
    assert abs(each.score - by_hand) < 0.001
assert best[0].score >= best[1].score >= best[2].score
assert best[0].text == tokenizer.decode(beams[0][1][1:])

# %% 429a80da
assert alignment.weights.shape == (len(alignment.target), len(alignment.source))
assert (alignment.weights.sum(1) < 1 + 1e-4).all()  # the rest went to the end token

# %% d4ccfbc4
assert all(claims.values())
