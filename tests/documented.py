"""What the README and the measurements say, and the commands in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
FIGURES = (ROOT / "docs" / "figures.md").read_text()
NOT_RUN = {  # QUARANTINES.md says why
    "make docs", "make test", "python benchmarks/forward.py --cuda",
    "python benchmarks/decode.py --cuda", "python benchmarks/causes.py --cuda",
    "pip install glassformer",
    "make run",  # test_readme.py has a test of its own
}  # fmt: skip


def inline_commands(text: str) -> list[str]:
    """Commands within sentences and tables."""
    return list(dict.fromkeys(re.findall(r"`((?:python|glassformer|make) [^`]+)`", text)))
