"""What 4-positions.ipynb must show, after the cell of each id."""

# %% d364f3df
assert spread["none"] < 1e-4
assert min(spread["sinusoidal"], spread["learned"], spread["rotary"]) > 0.01

# %% 74c9cfa2
assert place(0, 4) == [0, 1, 0, 1]
assert place(1, 4) == [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]
assert torch.allclose(ours, sinusoid(99, 100), atol=1e-5)  # the library's table is the same

# %% 68f22ea5
assert lengths[0] == 2 * math.pi
assert lengths[0] < lengths[49] < 10000 * 2 * math.pi == 62831.853071795864

# %% a2a8c26a
for index, expected in slide.items():
    found = table[[20, 21, 98], index].tolist()
    assert all((abs(a - b) < 0.00501 for a, b in zip(found, expected, strict=True)))
assert step < leap / 3

# %% 4701bb1e
assert torch.allclose(alike.diagonal(), torch.ones(100), atol=1e-5)

# %% 042d50a9
for distance in (1, 5, 30):
    along = dots.diagonal(distance)
    assert torch.allclose(along, along[0].expand_as(along), atol=0.001)
    by_rule = sum(math.cos(distance / 10000 ** (2 * i / 100)) for i in range(50))
    assert abs(along[0] - by_rule) < 0.001

# %% f7d26a62
assert scores["none"] < 0.7
assert min(scores["sinusoidal"], scores["learned"], scores["rotary"]) > 0.95

# %% a9b3314a
for distance in (0, 3, 17):
    along = scores.diagonal(distance)
    assert torch.allclose(along, along[0].expand_as(along), atol=0.0001)
assert torch.allclose(turned_q.norm(dim=-1), q.norm().expand(64), atol=1e-5)  # only rotated
assert torch.allclose(scores[5, 5], q @ k, atol=1e-4)  # distance 0: as if nothing was rotated

# %% 31915f14
for position in ("none", "sinusoidal"):
    model = model_with(position)
    name = "encoder.blocks.0.attention.weights"
    straight = gf.record(model, [0, 1, 2, 3])[name][0]
    shuffled = gf.record(model, order)[name][0]
    _, panels = plt.subplots(1, 2, figsize=(6, 3))
    for axes, weights, who in (
        (panels[0], straight, words),
        (panels[1], shuffled, [words[i] for i in order]),
    ):
        axes.imshow(weights, cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(4), who)
        axes.set_yticks(range(4), who)
    plt.suptitle(f"positions: {position}")
    plt.tight_layout()
    same = torch.allclose(straight[order][:, order], shuffled, atol=1e-05)
    assert same == (position == "none")

# %% 4a000002
assert abs(1 / 10_000**0.5 - 0.01) < 1e-12
assert place(1, 4)[2] == math.sin(1 / 10_000**0.5)
assert abs(place(1, 4)[2] - math.sin(1 / 100_000**0.5)) > 0.006

# %% 4a000003
assert round(table[21, 11].item(), 4) == -0.4849
