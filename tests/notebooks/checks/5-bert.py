"""What 5-bert.ipynb must show, after the cell of each id."""

# %% 7ec4c35e
for word in ("river", "rivers", "unbelievably", "glassformer"):
    read = tokenizer.encode(word)
    pieces = [t for t, special in zip(read.tokens, read.special, strict=True) if not special]
    assert "".join(piece.removeprefix("##") for piece in pieces) == word

# %% fe3318b1
cut = read.tokens.index("[SEP]") + 1
assert read.tokens[0] == "[CLS]"
assert read.tokens.count("[SEP]") == 2
assert read.tokens[-1] == "[SEP]"
assert read.segments == [0] * cut + [1] * (len(read.ids) - cut)
assert torch.allclose(summed, trace["encoder.embedding.out"], atol=1e-4)

# %% f983877b
for each, vectors in zip(ids, together, strict=True):
    assert vectors.shape == (len(each), config.width)
    assert torch.allclose(model.hidden([each])[0], vectors, atol=0.0001)

# %% 58a1c0e2
assert TROUT[blank.start : blank.end] == "[MASK]"
assert abs(sum(chances) - 1) < 1e-3

# %% fc0ede13
assert all(0 <= chance <= 1 for chance in follows)

# %% e2afdae3
assert torch.allclose(said.loss, words + order, atol=1e-5)

# %% b04f2a54
assert [int(count) for count in counted.values()] == [4, 28, 41, 109, 108, 102, 177, 335]
assert (
    gf.PRESETS["bert-base-uncased"].model.heads,
    gf.PRESETS["bert-large-uncased"].model.heads,
) == (12, 16)

# %% 4153bd8d
assert all(abs(e["loss"] - sum(e["losses"].values())) < 1e-3 for e in train)  # summed, again
assert train[-1]["loss"] < train[0]["loss"]

# %% 6c53e2b9
assert QUICK or right >= 4

# %% 79d708be
assert QUICK or reached["runs/village/model"] > reached["bert-tiny"] + 0.15

# %% e4a17a57
assert torch.allclose(lecture, cosines[0, len(RIVER)], atol=1e-4)  # word() is the last layer's

# %% b1ad144a
assert torch.allclose(seen.sum(-1), torch.ones_like(seen[..., 0]), atol=1e-4)

# %% 38380cd2
assert all(claims.values())
