"""What 3-the-layer.ipynb must show, after the cell of each id."""

# %% 298bd17c
assert mu == 5
assert abs(sigma - 5**0.5) < 1e-6
assert abs(normed.mean()) < 1e-6
assert abs(normed.std(correction=0) - 1) < 1e-6
assert torch.allclose(by_hand, norm(x, ctx), atol=1e-4)

# %% 5d16ae48
assert torch.allclose(normed.mean(-1), torch.zeros(3), atol=1e-5)
assert torch.allclose(moved.mean(-1), torch.full((3,), 2.0), atol=1e-5)
assert torch.allclose(moved.std(-1, correction=0), torch.full((3,), 0.5), atol=1e-3)

# %% 8f8b53de
assert torch.allclose(ffn(x, ctx)[shuffled], ffn(x[shuffled], ctx), atol=1e-6)  # one by one
shapes = []
for width, wide in ((512, 2048), (100, 512)):
    sizes = {"width": width, "mlp_width": wide, "heads": 1, "mlp_bias": False}
    ffn = MLP(config.model_copy(update=sizes))
    W_1, W_2 = (ffn.up.weight, ffn.down.weight)
    shapes.append((tuple(W_1.shape), tuple(W_2.shape)))
    v = torch.randn(3, width)
    assert torch.allclose(ffn(v, ctx), (v @ W_1.T).relu() @ W_2.T, atol=1e-05)
assert shapes == [((2048, 512), (512, 2048)), ((512, 100), (100, 512))]

# %% a5749248
assert torch.allclose(layer(x, ctx), y, atol=1e-6)
assert y.shape == x.shape
assert deep.shape == x.shape

# %% 616a5380
dropping.train()
assert not torch.equal(dropping(x, ctx), dropping(x, ctx))  # random, each time anew
dropping.eval()
assert torch.equal(dropping(x, ctx), dropping(x, ctx))

# %% 212e1dda
assert torch.allclose(stream, trace["encoder.blocks.7.out"], atol=1e-5)

# %% 9fb5f6cf
assert torch.equal(complete(x, ctx), layer(x, ctx))  # nothing left out: the library's layer

# %% 382a2961
assert curves["nothing"][-1] < blind / 2
assert curves["attention"][-1] > blind - 0.01
assert curves["residual"][-1] > blind - 0.3
assert 0.5 < spread["nothing"][-1] < 1.5
assert spread["norm"][-1] > 2 * spread["nothing"][-1]

# %% d6333cb3
assert known["nothing"] > 0.95
assert known["mlp"] < known["nothing"] - 0.2

# %% 680970b3
shapes = {part.name: (part.per, part.shape) for part in table.parts}
assert shapes["query"] == shapes["key"] == ("head", (100, 37))
assert shapes["value"] == ("head", (100, 100))
assert shapes["up"] == ("block", (100, 512))
assert shapes["down"] == ("block", (512, 100))
assert shapes["token"] == ("model", (32_000, 100))
assert table.per_head == 2 * 100 * 37 + 100 * 100

# %% b764549a
assert sum(shares.values()) == table.bare
assert shares["embeddings"] == 3_200_000

# %% 3a000002
assert counted[37][0] == 17_400
assert counted[100][0] == 30_000
assert counted[100][1] - counted[37][1] == 12 * (30_000 - 17_400)  # six layers of two heads
