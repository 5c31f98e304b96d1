"""Cost of recording: a recorded forward pass beside a plain one, on a CPU.

    python benchmarks/record.py            BERT, GPT and translation sizes, 512 tokens
    python benchmarks/record.py --tiny     small sizes, to check that it runs

"all" keeps every tensor, "weights" the attention weights only. Each number is the median of runs in
turns; the limit is 2.5 times a plain forward pass.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

import glassformer as gf
from glassformer.glass import Recorder

BAR = 2.5
FAMILIES = {"encoder": "masked_lm", "decoder": "causal_lm", "seq2seq": "translation"}
BASE = {"vocab_size": 30_522, "width": 768, "depth": 12, "heads": 12, "mlp_width": 3_072}
SMALL = {"vocab_size": 101, "width": 24, "depth": 2, "heads": 3, "mlp_width": 48}


def ways(family: str, length: int, sizes: dict[str, int]) -> dict[str, Callable[[], object]]:
    """One forward pass in different ways; in a translation half of the tokens are the source."""
    config = gf.ModelConfig(family=family, max_length=length, **sizes)
    task = gf.build_task(config, gf.TaskConfig(kind=FAMILIES[family])).eval()
    ids = torch.randint(config.vocab_size, (length,)).tolist()
    half = length // 2
    if family == "seq2seq":
        (batch,) = task.batches([ids[:half]], targets=[ids[half:]])
    else:
        (batch,) = task.batches([ids])
    return {
        "plain": lambda: task(batch),
        "all": lambda: task(batch, visitor=Recorder(task)),
        "weights": lambda: task(batch, visitor=Recorder(task, "*.weights")),
    }


def median_times(functions: dict[str, Callable[[], object]], runs: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(runs + 1):  # the first one warms up
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if turn:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    torch.manual_seed(0)
    length, sizes, runs = (16, SMALL, 2) if asked.tiny else (512, BASE, asked.runs)
    print(f"{length} tokens, {torch.get_num_threads()} threads, median of {runs}")
    print("family    plain ms   all        weights")
    good = True
    for family in FAMILIES:
        with torch.no_grad():
            seconds = median_times(ways(family, length, sizes), runs)
        ratios = {name: seconds[name] / seconds["plain"] for name in ("all", "weights")}
        columns = "   ".join(f"×{ratio:<7.2f}" for ratio in ratios.values())
        print(f"{family:<9} {1000 * seconds['plain']:>8.1f}   {columns}", flush=True)
        good = good and (asked.tiny or max(ratios.values()) <= BAR)
    print(f"limit: at most ×{BAR}: {'met' if good else 'missed'}")
    raise SystemExit(not good)


if __name__ == "__main__":
    main()
