"""Time of attribution, patching and edges: a decoder of GPT-2's size with random weights.

python benchmarks/causes.py [--tiny] [--cuda]

The sweep of all heads is compared with patching them one by one through `gf.record`, in the same
run. Each is computed once before it is timed. Peak memory is that of integrated gradients on a GPU,
and of the whole process on a CPU.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import torch

import glassformer as gf
from glassformer.interpret import edge_effects, input_attribution, patching_sweep

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--tiny", action="store_true", help="a size for tests")
parser.add_argument("--cuda", action="store_true", help="on a GPU")
options = parser.parse_args()


def seconds(work: Callable[[], object]) -> float:
    if options.cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if options.cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def one_by_one(model: gf.Model, clean: list[int], corrupted: list[int]) -> None:
    """Each head of the clean text in the corrupted one, a forward pass for each."""
    kept = gf.record(model, clean, keep="*.attention.mixed")
    for name, mixed in kept.items():
        for head in range(mixed.shape[1]):

            def change(old: torch.Tensor, head: int = head, new: torch.Tensor = mixed):
                old[:, head] = new[:, head]
                return old

            gf.record(model, corrupted, keep="logits", edit={name: change})


def main() -> None:
    sizes = {"vocab_size": 50257, "width": 768, "depth": 12, "heads": 12, "mlp_width": 3072}
    if options.tiny:
        sizes = {"vocab_size": 97, "width": 24, "depth": 2, "heads": 3, "mlp_width": 48}
    config = gf.ModelConfig(family="decoder", norm_place="pre", max_length=1024, **sizes)
    torch.manual_seed(0)
    task = gf.build_task(config, gf.TaskConfig(kind="causal_lm", bias=False))
    model = gf.Model(task).eval().to("cuda" if options.cuda else "cpu")
    draw = torch.Generator().manual_seed(1)
    long = 64 if options.tiny else 1024
    text = torch.randint(0, sizes["vocab_size"], (long,), generator=draw).tolist()
    clean = text[:16]
    corrupted = [*clean[:3], text[20], *clean[4:]]
    contrast = {"answer": 5, "other": 7}
    patching_sweep(model, clean, corrupted, site="head", **contrast)  # warm
    swept = seconds(lambda: patching_sweep(model, clean, corrupted, site="head", **contrast))
    single = seconds(lambda: one_by_one(model, clean, corrupted))
    cells = sizes["depth"] * sizes["heads"]
    print(
        f"sweep of {cells} heads, 16 tokens   {swept:8.2f} s   one by one {single:8.2f} s", end=""
    )
    print(f"   {single / swept:.1f} times as fast")
    edge_effects(model, clean, corrupted, steps=1, **contrast)  # warm
    edges = seconds(lambda: edge_effects(model, clean, corrupted, steps=5, **contrast))
    print(f"all edges, EAP-IG of 5 steps     {edges:8.2f} s")
    steps = 2 if options.tiny else 8
    input_attribution(model, text, 5, 7, steps=1)  # warm
    if options.cuda:
        torch.cuda.reset_peak_memory_stats()
    words = seconds(lambda: input_attribution(model, text, 5, 7, steps=steps))
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    peak = torch.cuda.max_memory_allocated() / 1e9 if options.cuda else own
    print(f"integrated gradients, {long} tokens   {words:8.2f} s for {steps} steps   {peak:.1f} GB")


main()
