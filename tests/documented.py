"""What the README and the measurements say, the commands in them, and the scripts of docs/."""

import functools
import importlib.util
import re
from pathlib import Path
from types import ModuleType

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


@functools.cache
def script(name: str) -> ModuleType:
    """A Python file of docs/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
