"""What 6-gpt.ipynb must show, after the cell of each id."""

# %% 2ce21522
assert chances.shape == (config.vocab_size,)
assert abs(chances.sum() - 1) < 1e-4

# %% ddd31789
assert everywhere.shape == (len(ids), config.vocab_size)
for n in range(1, len(ids) + 1):
    assert torch.allclose(everywhere[n - 1].softmax(-1), next_word(ids[:n]), atol=1e-05)

# %% 7ba78df9
assert list(said.ids) == written[len(ids) : len(ids) + len(said.ids)]

# %% ae2b96c0
assert all(abs(values.sum() - 1) < 0.0001 for values in turned.values())
assert turned["temperature 0.5"].max() >= chances.max() >= turned["temperature 2"].max()
assert (turned["top-k 3"] > 0).sum() == 3
few = int((turned["top-p 0.7"] > 0).sum())
assert chances.sort(descending=True).values[:few].sum() >= 0.7
assert chances.sort(descending=True).values[: few - 1].sum() < 0.7

# %% 1e8a7250
assert [each.ids for each in drawn] == [each.ids for each in again]
assert (counted > 0).sum() <= 3
assert (counted - kept).abs().max() < 0.1

# %% c98741e5
for name in ("k", "v"):
    old = short[f"decoder.blocks.0.attention.{name}"]
    new = longer[f"decoder.blocks.0.attention.{name}"]
    assert torch.allclose(old, new[:8], atol=1e-05)
assert torch.allclose(step.softmax(-1), next_word(written[:9]), atol=1e-4)  # the same prediction
assert cache.token_bytes == config.depth * 2 * config.group_heads * config.query_width * 4  # k, v

# %% 753915c9
assert abs(looked.sum() - 1) < 1e-4

# %% 69c852f1
assert train[-1][1] < train[0][1]
assert valid[-1][1] < (3.5 if QUICK else 1.8)  # random guessing among 61 characters: log 61 = 4.1

# %% e72ae3ff
assert all(claims.values())
