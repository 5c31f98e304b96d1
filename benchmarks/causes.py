"""Time of attribution, patching and edges: a decoder of GPT-2's size with random weights.

python benchmarks/causes.py [--tiny] [--cuda]

The sweep of all heads is compared with patching them one by one through `gf.record`, in the same
run, and with TransformerLens on the same weights, if it is installed (`pip install
transformer-lens`): in turns, and the shortest time of each. Each is computed once before it is
timed. Peak memory is that of integrated gradients on a GPU,
and of the whole process on a CPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import tempfile
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


def beside_transformer_lens(
    sizes: dict[str, int], clean: list[int], corrupted: list[int], turns: int = 3
) -> None:
    """The sweep of all heads by both libraries, on the same weights of GPT-2's architecture."""
    from transformer_lens import patching
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=sizes["vocab_size"], n_embd=sizes["width"], n_layer=sizes["depth"],
        n_head=sizes["heads"], n_inner=sizes["mlp_width"], bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    device = "cuda" if options.cuda else "cpu"
    theirs = GPT2LMHeadModel(config).eval()
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        model = gf.load(folder, device=device)
        bridge = TransformerBridge.boot_transformers(folder, hf_model=theirs.to(device))
    texts = [torch.tensor([each], device=device) for each in (clean, corrupted)]

    def peer() -> torch.Tensor:
        with torch.no_grad():
            _, cache = bridge.run_with_cache(texts[0])
            return patching.get_act_patch_attn_head_out_all_pos(
                bridge, texts[1], cache, lambda logits: logits[0, -1, 5] - logits[0, -1, 7]
            )

    def ours() -> torch.Tensor:
        return patching_sweep(model, clean, corrupted, 5, 7, site="head").patched

    apart = float((peer().cpu() - ours()).abs().max())
    times = [(seconds(ours), seconds(peer)) for _ in range(turns)]
    own, other = (min(column) for column in zip(*times, strict=True))
    print(
        f"the same beside TransformerLens   {own:8.2f} s   TransformerLens {other:8.2f} s", end=""
    )
    print(f"   {other / own:.1f} times as fast; values at most {apart:.0e} apart")


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
    if importlib.util.find_spec("transformer_lens") is not None:
        beside_transformer_lens(sizes, clean, corrupted)
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
