"""Time from the name of a shipped model to its first answer.

    python benchmarks/first_answer.py          each in its own process, the best of five
    python benchmarks/first_answer.py --tiny   once

The clock starts after `import torch`: `import glassformer`, weights, tokenizer and answer count.
At the end the whole command `glassformer translate` beside `import torch`, from the start of the
process to its end, in turns: the medians of the seconds and of the processor time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

from glassformer.pretrained import shipped

ASKED = {
    "gf-encoder": "fill('The cat sat on the [MASK].')",
    "gf-decoder": "generate('The old house stood', max_new_tokens=1)",
    "gf-en-ru": "translate('The cat sat on the mat.')",
}
SCRIPT = """
import time, torch
begin = time.perf_counter()
import glassformer as gf
gf.load({name!r}).{asked}
print(time.perf_counter() - begin)
"""


def seconds(name: str) -> float:
    words = [sys.executable, "-c", SCRIPT.format(name=name, asked=ASKED[name])]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


PROCESSES = {
    "import torch": ["-c", "import torch"],
    "glassformer translate": ["-m", "glassformer", "translate", "gf-en-ru", "The cat sat."],
}


def processes(rounds: int) -> dict[str, tuple[float, float]]:
    """The seconds and the processor time of each process."""
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in PROCESSES}
    for _ in range(rounds):
        for name, words in PROCESSES.items():
            before, begin = os.times(), time.perf_counter()
            subprocess.run([sys.executable, *words], capture_output=True, check=True)
            after, seconds = os.times(), time.perf_counter() - begin
            used = after.children_user + after.children_system
            runs[name].append((seconds, used - before.children_user - before.children_system))
    return {
        name: (statistics.median(a for a, _ in each), statistics.median(b for _, b in each))
        for name, each in runs.items()
    }


def main() -> None:
    about = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=about)
    parser.add_argument("--tiny", action="store_true")
    rounds = 1 if parser.parse_args().tiny else 5
    for name in shipped():
        print(f"{name:12s}{min(seconds(name) for _ in range(rounds)):6.2f} s", flush=True)
    medians = processes(rounds)
    wall, used = medians["import torch"]
    for name, (a, b) in medians.items():
        print(
            f"{name:24s}{a:6.2f} s ({a / wall:.2f} ×){b:8.2f} s of the processor ({b / used:.2f} ×)"
        )


if __name__ == "__main__":
    main()
