"""What 2-where-weights-come-from.ipynb must show, after the cell of each id."""

# %% 7144675f
assert inputs == 37_888
assert inputs**2 == 1_435_500_544
assert count == 4 * (1024 * 1024 + 1024)
for length in (1, 11, 37):
    assert attention(torch.randn(length, 1024), one_text(length)).shape == (length, 1024)

# %% 4be9c1ac
assert [round(each, 2) for each in a.tolist()] == [0.0, 0.64, 0.03, 0.02, 0.32]
assert abs(a.sum() - 1) < 1e-6

# %% 2a000002
assert torch.allclose(long_way, A @ x @ W_V.T, atol=1e-5)
assert int((values != 0).sum()) == 5 * 4**2
assert int((mixing != 0).sum()) == 5**2 * 4
assert [each[1] for each in sparse.values()] == [37_888**2, 37 * 1024**2, 37**2 * 1024]

# %% 2a000005
assert [round(each, 1) for each in v.tolist()] == [-114.5, 129.7, -38.0, 68.4, 10.8]

# %% 196ae35e
assert right > 0.9

# %% 2ecbdf05
for text, kind in new.items():
    chance, weights = weigh(reviewer, text)
    assert (chance > 0.5) == kind
    weight_of = dict(zip(text.split(), weights[:, 0].tolist(), strict=True))
    telling = ("wonderful", "loved") if kind else ("awful", "hated")
    assert sum(weight_of[word] for word in telling) > 0.5

# %% b92315ec
assert all(right > 0.8 for right in shares.values())
assert sentences.shape == (2, 8)
assert document.shape == (1, 8)

# %% bac5599f
assert W_Q.shape == W_K.shape == (100, 37)
assert W_V.shape == (100, 100)
assert (q.shape, k.shape, v.shape, output.shape) == ((3, 37), (3, 37), (3, 100), (3, 100))
assert torch.allclose(recorder.tensors["weights"][0], weights, atol=1e-6)
assert torch.allclose(recorder.tensors["mixed"][:, 0], output, atol=1e-5)

# %% cd502aaf
assert [round(each, 2) for each in weights.tolist()] == [0.07, 0.58, 0.35]

# %% fee88f82
assert torch.allclose(outputs[0], 0.1 * v[0] + 0.3 * v[1] + 0.6 * v[2])
assert torch.allclose(outputs[1], 0.5 * v[0] + 0.2 * v[1] + 0.3 * v[2])
assert (routes >= 0).all()
assert torch.allclose(routes.sum(1), torch.ones(2))

# %% ce2af512
assert slopes["q·k"][-1] < slopes["q·k / √d_k"][-1] / 3
assert Attention(config, layer=0).scale == 1 / math.sqrt(1024 / 16)

# %% c36bc491
assert torch.allclose(many.output(torch.cat(parts, dim=-1)), many(x, one_text(7)), atol=1e-5)

# %% 1e591da8
assert trace["encoder.blocks.0.attention.weights"].shape == (4, 14, 14)
