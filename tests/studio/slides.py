"""The formulas that Numbers shows, computed from what it shows."""

import math

import torch
from torch.nn import functional as F

from glassformer.glass import stream
from glassformer.model.position import rotate

OPERATORS = {
    "+": lambda *parts: sum(parts),
    "-": lambda a, b: a - b,
    "/": lambda a, b: a / b,
    "times": lambda a, b: a * b,
    "scale": lambda a, v: a[:, None] * v if a.dim() else a * v,
    "of": lambda W, x: x @ W.T,
    "dot": lambda q, k: k @ q if q.dim() == 1 else (q * k).sum(-1),
    "exp": torch.exp,
    "sqrt": lambda x: x**0.5,
    "square": lambda x: x**2,
}
CALLS = {
    "mean": torch.mean, "var": lambda x: x.var(correction=0), "ReLU": F.relu, "GELU": F.gelu,
    "GELU_tanh": lambda x: F.gelu(x, approximate="tanh"), "SiLU": F.silu, "tanh": torch.tanh,
}  # fmt: skip


class Silent:
    """Shows nothing."""

    def see(self, module, name, x):
        return x


class Slide:
    """What is known at one head: the vectors shown, the model's weights, and the trace."""

    def __init__(self, model, trace, shown, stack, layer, head, query, units=()):
        self.side = "encoder" if stack == "encoder" else "decoder"
        part = "cross" if stack == "cross" else "attention"
        self.trace, self.head, self.query = trace, head, query
        self.name = f"{self.side}.blocks.{layer}.{part}"
        self.stack = getattr(model.task.backbone, self.side)
        self.block = self.stack.blocks[layer]
        self.attention = getattr(self.block, part)
        self.known = {name: torch.tensor(each).double() for name, each in shown["vectors"].items()}
        rows = {
            "k": shown["k"], "v": shown["v"], "s": shown["scores"],
            "u": shown["scaled"], "a": shown["weights"], "b": shown["bias"] or [],
            "w": [-math.inf if each is None else each for each in shown["masked"]],
        }  # fmt: skip
        for name, each in rows.items():
            self.known[f"{name}_j"] = self.known[f"{name}_i"] = torch.tensor(each).double()
        self.known |= {"d": torch.tensor(float(shown["width"])), "0": torch.zeros(())}
        on = torch.ones(self.block.mlp.up.out_features).double()
        on[[unit for at, deep, unit in units if (at, deep) == (self.side, layer)]] = 0
        self.known["on"] = on

    def sources(self):
        """The inputs of W_K and W_V for all keys."""
        if self.attention.cross:
            norm = "encoder.norm.out"
            return self.trace[
                norm if norm in self.trace else list(stream(self.trace, "encoder"))[-1]
            ]
        block = self.name.rpartition(".")[0]
        normed = f"{block}.attention_norm.out"
        if not self.block.post and normed in self.trace:
            return self.trace[normed]
        number = int(block.rpartition(".")[2])
        before = f"{self.side}.blocks.{number - 1}.out" if number else f"{self.side}.embedding.out"
        return self.trace[before]

    def weights(self, name):
        """A weight or bias of the model; of this head, for queries, keys and values."""
        kind, at = name.split("_")
        module = {
            "Q": self.attention.query, "K": self.attention.key, "V": self.attention.value,
            "O": self.attention.output, "1": self.block.mlp.up, "2": self.block.mlp.down,
            "g": self.block.mlp.gate, "E": self.stack.embedding.project,
        }[at]  # fmt: skip
        tensor = module.weight if kind == "W" else module.bias
        if at not in "QKV" or tensor is None:
            return tensor
        heads = self.attention.heads if at == "Q" else self.attention.key_heads
        head = self.head // (self.attention.heads // heads)
        return tensor.unflatten(0, (heads, -1))[head]

    def norm(self, result):
        block, cross = self.block, self.attention.cross
        if result in ("p", "p_mlp"):
            after = block.cross_out_norm if cross else block.attention_out_norm
            return after if result == "p" else block.mlp_out_norm
        if result in ("y", "n_mlp"):
            return block.mlp_norm
        if result == "h" or result == "n_e":
            return self.stack.embedding.norm
        if result == "x":
            return block.cross_norm if cross else block.attention_norm
        if not block.post:
            return block.mlp_norm if cross or block.cross is None else block.cross_norm
        return block.cross_norm if cross else block.attention_norm

    def value(self, formula, result):
        if isinstance(formula, str):
            return self.symbol(formula, result)
        sign, *parts = formula
        if sign == "call" and parts[0] == "RoPE":
            x = self.value(parts[1], result)
            local = f"{self.side}.local_rotation"
            own = self.attention.window is not None and local in self.trace
            turn = self.trace[local if own else f"{self.side}.rotation"]
            one = x.dim() == 1
            at = turn[:, self.query : self.query + 1] if one else turn
            turned = rotate((x[None] if one else x)[:, None], at.double())[:, 0]
            return turned[0] if one else turned
        if sign == "call" and parts[0] in ("norm_Q", "norm_K"):
            return self.qk_normed(parts[0][-1], parts[1], result)
        if sign == "call":
            return CALLS[parts[0]](self.value(parts[1], result))
        if sign == "sum":
            return self.value(parts[1], result).sum(0)
        if sign == "join":
            return self.trace[f"{self.name}.mixed"][self.query].flatten()
        if sign == "mask":
            x = self.value(parts[0], result)
            return x.masked_fill(self.known["w_j"].isinf(), -math.inf)
        return OPERATORS[sign](*(self.value(part, result) for part in parts))

    def qk_normed(self, part, formula, result):
        """Each head alone, or all heads as one vector."""
        module = self.attention.query_norm if part == "Q" else self.attention.key_norm
        x = self.value(formula, result)
        if module.width != x.shape[-1]:
            linear = self.attention.query if part == "Q" else self.attention.key
            x = linear(self.known["x"] if part == "Q" else self.sources())
        y = module(x.double(), Silent())
        heads = self.attention.heads if part == "Q" else self.attention.key_heads
        if module.width == self.known["q"].shape[-1]:
            return y
        return y.unflatten(-1, (heads, -1))[..., self.head // (self.attention.heads // heads), :]

    def of_distances(self, linear):
        """What a map makes of the vector for the distance to each key, in this head."""
        keys = torch.arange(self.trace[f"{self.name}.weights"].shape[-1])
        distances = self.stack.distances
        rows = distances.rows[self.query - keys + distances.furthest]
        vectors = self.trace[f"{self.side}.distances.norm.out"][rows]
        return linear(vectors).unflatten(-1, (self.attention.heads, -1))[:, self.head]

    def symbol(self, name, result):
        if name[0].isdigit() and name != "0":
            return torch.tensor(float(name)).double()
        if name in self.known:
            return self.known[name]
        if name in ("k_δ", "q_δ"):
            return self.of_distances(self.attention.key if name == "k_δ" else self.attention.query)
        if name in ("x_j", "m_j"):
            return self.sources()
        if name in "γβε":
            norm = self.norm(result)
            return {"γ": norm.weight, "β": norm.bias, "ε": torch.tensor(norm.eps)}[name]
        return self.weights(name)


def symbols(formula):
    if isinstance(formula, str):
        return {formula}
    skip = 2 if formula[0] in ("call", "sum") else 1
    return set().union(*(symbols(each) for each in formula[skip:]))


def check(model, client, id, row, trace, units=()):
    """All steps at all layers; says what the formulas are made of. `units` are switched off."""
    seen = set()
    for stack in row["stacks"]:
        for layer in range(stack["layers"]):
            for head, query in ((0, 0), (stack["heads"] - 1, stack["rows"] - 2)):
                at = f"{stack['name']}/{layer}/{head}/{query}"
                shown = client.get(f"/api/runs/{row['run']}/numbers/{at}").json()
                slide = Slide(model, trace, shown, stack["name"], layer, head, query, units)
                for step in shown["steps"]:
                    assert step["formulas"]
                    assert set(step["shows"]) <= set(shown["vectors"]) <= set(shown["names"])
                    for _, result, formula in step["formulas"]:
                        value = slide.value(formula, result)
                        expected = slide.known[result]
                        near = torch.isclose(value.double(), expected, atol=2e-5, rtol=1e-4)
                        assert near.all(), (id, at, result, formula)
                        vectors = {n for n in symbols(formula) if n in shown["vectors"]}
                        assert vectors <= set(step["shows"]), (step["name"], result, formula)
                        seen |= symbols(formula)
    return seen
