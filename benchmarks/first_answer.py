"""Time from the name of a shipped model to its first answer.

    python benchmarks/first_answer.py          each in its own process, the best of five
    python benchmarks/first_answer.py --tiny   once

The clock starts after `import torch`: `import glassformer`, weights, tokenizer and answer count.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

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


def main() -> None:
    about = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=about)
    parser.add_argument("--tiny", action="store_true")
    rounds = 1 if parser.parse_args().tiny else 5
    for name in shipped():
        print(f"{name:12s}{min(seconds(name) for _ in range(rounds)):6.2f} s", flush=True)


if __name__ == "__main__":
    main()
