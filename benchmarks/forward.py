"""Speed of a forward pass, beside transformers on the same weights in the same run.

python benchmarks/forward.py            CPU: texts of mixed length, one short text, imports
python benchmarks/forward.py --cuda     one GPU: 2,048 texts of mixed length
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from transformers import BertConfig, BertModel

import glassformer as gf

Texts = list[list[int]]


def lognormal(count: int, seed: int = 0) -> Texts:
    """Lognormal lengths, like real texts: mean 119 tokens, 8 to 512."""
    draw = torch.Generator().manual_seed(seed)
    spread = 0.8
    centre = math.log(121) - spread**2 / 2  # so that the mean is 119 after clipping
    lengths = torch.randn(count, generator=draw).mul(spread).add(centre).exp().clamp(8, 512).int()
    return [torch.randint(1000, 30000, (n,), generator=draw).tolist() for n in lengths.tolist()]


def padded(reference: BertModel, texts: Texts, size: int, device: str) -> torch.Tensor:
    """The common way: batches padded to their longest text, with a mask, then mean pooling."""
    rows = []
    for start in range(0, len(texts), size):
        part = [torch.tensor(text) for text in texts[start : start + size]]
        ids = torch.nn.utils.rnn.pad_sequence(part, batch_first=True).to(device)
        lengths = torch.tensor([len(each) for each in part], device=device)
        mask = (torch.arange(ids.shape[1], device=device) < lengths[:, None]).long()
        hidden = reference(input_ids=ids, attention_mask=mask).last_hidden_state
        rows.append((hidden * mask[..., None]).sum(1) / lengths[:, None])
    return torch.cat(rows)


def race(calls: dict[str, Callable[[], object]], device: str, rounds: int) -> dict[str, float]:
    """The best of several rounds for each, in turns, so that other load affects all alike."""
    best = dict.fromkeys(calls, math.inf)
    for turn in range(rounds + 1):
        for name, call in calls.items():
            _wait(device)
            start = time.perf_counter()
            call()
            _wait(device)
            if turn > 0:  # the first round warms up
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def pair(device: str, tiny: bool = False) -> tuple[BertModel, gf.Model]:
    """BERT-base with random weights, in both libraries."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2} if tiny else {}
    reference = BertModel(BertConfig(attn_implementation="sdpa", **sizes)).eval()
    with tempfile.TemporaryDirectory() as folder:
        reference.save_pretrained(folder)
        model = gf.load(folder, device=device)
        model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()}, assign=True)
    return reference.to(device), model


def compare(
    what: str,
    ours: Callable[[], object],
    reference: BertModel,
    texts: Texts,
    *,
    bar: float,
    tiny: bool,
    autocast: bool = False,
) -> None:
    """Ours beside its best: sorted by length, with the batch size that suits it best."""
    ordered = sorted(texts, key=len)

    def theirs(size: int) -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            padded(reference, ordered, size, "cpu")

    sizes = (1, 2) if tiny else (1, 2, 4, 8, 16) if len(texts) > 1 else (1,)
    calls: dict[str, Callable[[], object]] = {"ours": ours}
    calls |= {str(size): lambda n=size: theirs(n) for size in sizes}
    times = race(calls, "cpu", 2 if len(texts) > 1 else 25)
    mine = times.pop("ours")
    size = min(times, key=times.__getitem__)
    others = " ".join(f"{n}:{t:.3g}s" for n, t in times.items())
    print(
        f"{what:46} {mine:8.3f} s {times[size]:9.3f} s {times[size] / mine:6.2f}×  (bar {bar}×)  "
        f"its batch sizes {others}"
    )


@torch.no_grad()
def on_cpu(tiny: bool) -> None:
    reference, model = pair("cpu", tiny)
    texts, short = lognormal(8 if tiny else 64), [lognormal(64)[0][:16]]
    print(f"BERT-base, CPU, {torch.get_num_threads()} threads, {sum(map(len, texts))} tokens")
    print(f"{'':46} {'glassformer':>10} {'transformers':>11}")
    agree = (model.task.vectors(texts) - padded(reference, texts, 1, "cpu")).abs().max()
    many, one = (lambda: model.task.vectors(texts)), (lambda: model.task.vectors(short))
    compare("64 ragged texts, float32", many, reference, texts, bar=1.8, tiny=tiny)
    compare("one 16-token text, float32", one, reference, short, bar=1.0, tiny=tiny)
    model.to(torch.bfloat16)
    name = "one 16-token text, bf16 weights / "
    compare(name + "float32", one, reference, short, bar=2.0, tiny=tiny)
    compare(name + "autocast", one, reference, short, bar=2.0, tiny=tiny, autocast=True)
    name = "64 ragged texts, bf16 weights / autocast"
    compare(name, many, reference, texts, bar=1.7, tiny=tiny, autocast=True)
    print(f"{'largest difference in float32':46} {agree:.1e}")
    if not tiny:
        imports()


def imports() -> None:
    """Each in a new process; the smallest of several."""

    def cost(code: str) -> float:
        timed = f"import time; s=time.perf_counter(); {code}; print(time.perf_counter()-s)"
        runs = [subprocess.check_output([sys.executable, "-c", timed], text=True) for _ in range(5)]
        return min(map(float, runs))

    torch_alone = cost("import torch")
    names = {"import glassformer": "import glassformer"}
    names["all of it"] = "import glassformer as gf; gf.load; gf.record; gf.build_task"
    names["transformers' BertModel"] = "from transformers import BertModel"
    print(f"{'import torch':46} {torch_alone:8.3f} s")
    for name, code in names.items():
        print(f"{name:46} {cost(code):8.3f} s")


@torch.no_grad()
def on_cuda() -> None:
    reference, model = pair("cuda")
    reference, model = reference.bfloat16(), model.to(torch.bfloat16)
    texts = lognormal(2048)
    tokens = sum(map(len, texts))
    print(f"BERT-base, {torch.cuda.get_device_name()}, bf16, 2,048 texts, {tokens} tokens")
    rows = {"glassformer, arrival order": lambda: model.task.vectors(texts)}
    ordered = sorted(texts, key=len)
    for size in (64, 128, 256, 512):
        rows[f"transformers, arrival order, {size} a batch"] = lambda n=size: padded(
            reference, texts, n, "cuda"
        )
        rows[f"transformers, length-sorted, {size} a batch"] = lambda n=size: padded(
            reference, ordered, n, "cuda"
        )
    rows["glassformer, compiled, arrival order"] = lambda: model.task.vectors(texts)
    for name, call in rows.items():  # the last row compiles the model, which cannot be undone
        if "compiled" in name:
            model.task.backbone.compile(dynamic=True, fullgraph=True)
        took = race({name: call}, "cuda", 7)[name]
        print(f"{name:44} {took * 1000:8.1f} ms {2048 / took:10,.0f} texts/s")
    agree = (model.task.vectors(texts) - padded(reference, texts, 64, "cuda")).float().norm()
    print(f"relative difference {agree / padded(reference, texts, 64, 'cuda').float().norm():.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuda", action="store_true", help="measure on a GPU")
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to see that it runs")
    arguments = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    on_cuda() if arguments.cuda else on_cpu(arguments.tiny)


if __name__ == "__main__":
    main()
