"""One batch of texts with 32 adapters, one for each text, against the same batch without adapters.

    python benchmarks/adapters.py           a BERT-base of random weights, LoRA of rank 8 everywhere
    python benchmarks/adapters.py --tiny    small sizes, to check that it runs

Both read the same tokens in one row; the best of several rounds counts, taken in turn. The second
share is of processor time, which other programs on the machine disturb less.
"""

from __future__ import annotations

import argparse
import math
import time

import torch

import glassformer as gf
from glassformer.adapters import Adapter, new_adapter, routed
from glassformer.adapters.lora import Lora
from glassformer.fields import AdapterConfig
from glassformer.tasks import Task


def random_adapter(task: Task, rank: int) -> Adapter:
    adapter = new_adapter(task, None, AdapterConfig(rank=rank))
    for lora in adapter.modules():
        if isinstance(lora, Lora):
            torch.nn.init.normal_(lora.b, std=0.02)
    return adapter.requires_grad_(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--adapters", type=int, default=32)
    parser.add_argument("--length", type=int, default=64, help="tokens of a text")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tiny", action="store_true")
    asked = parser.parse_args()
    config = gf.PRESETS["bert-tiny" if asked.tiny else "bert-base-uncased"].model
    count, rounds = (4, 1) if asked.tiny else (asked.adapters, asked.rounds)
    task = gf.build_task(config, gf.TaskConfig(kind="masked_lm")).eval().requires_grad_(False)
    ids = torch.randint(config.vocab_size, (count, asked.length)).tolist()
    batch = gf.Batch.of(ids)
    adapters = [random_adapter(task, asked.rank) for _ in range(count)]
    names = ("without adapters", f"{count} adapters")
    best, used = dict.fromkeys(names, math.inf), dict.fromkeys(names, math.inf)
    for _ in range(rounds):
        for name in best:
            start, processor = time.perf_counter(), time.process_time()
            # A routed task is for one call: making it is part of the time.
            model = task if name == names[0] else routed(task, adapters, range(count))
            for each in model.batches(ids, batch_size=count):
                model.backbone(each)
            best[name] = min(best[name], time.perf_counter() - start)
            used[name] = min(used[name], time.process_time() - processor)
    tokens = len(batch.tokens)
    print(f"{count} texts of {asked.length} tokens, rank {asked.rank}, "
          f"{torch.get_num_threads()} threads")  # fmt: skip
    for name, seconds in best.items():
        print(f"{name:>18}  {tokens / seconds:10,.0f} tokens/s")
    for label, times in (("share", best), ("of processor time", used)):
        print(f"{label:>18}  {times[names[0]] / times[names[1]]:10.0%}")


if __name__ == "__main__":
    main()
