"""What 8-look-inside.ipynb must show, after the cell of each id."""

# %% 0480d0a8
assert torch.allclose(scores["previous"], by_hand, atol=1e-5)
assert all(((each >= 0) & (each <= 1 + 1e-5)).all() for each in scores.values())

# %% 5b0c7d14
assert ids[:25] == ids[25:]

# %% 28efd6e5
assert (moved >= -1e-5).all()
assert glass.effect(look, []).kl.abs().max() < 1e-5  # nothing switched off, nothing changed

# %% 3b600b8c
assert abs(agree(moved, moved) - 1) < 1e-5

# %% 18b0b782
assert decided.distances.shape == (L + 1, len(trace.tokens))
assert decided.distances[-1].abs().max() < 1e-4  # the last point is the prediction itself
assert final == glass.predictions(decoder, trace, top_k=1).words

# %% 2d18eafc
assert torch.allclose(mixed, flow[-1], atol=1e-5)
assert torch.allclose(flow.sum(-1), torch.ones(len(flow), T), atol=1e-4)

# %% e6989cc6
assert torch.allclose(whole, seen["encoder.blocks.0.attention.out"][it], atol=1e-4)

# %% a087e37f
assert len(free) == len(values) - values.shape[1] - 1
assert (new >= -1e-6).all()
assert torch.allclose(new.sum(1), torch.ones(len(own)), atol=1e-5)
assert changed > 0.5
assert answer < 1e-4

# %% 8e32e8d9
assert all(-1 - 1e-5 <= each <= 1 + 1e-5 for each in agreement.values())

# %% 431ac868
assert all(claims.values())
