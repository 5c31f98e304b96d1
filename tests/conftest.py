"""No test talks to a hub; none depends on the clock, or on what other tests have left behind."""

import os
import shutil
import signal
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"  # sums do not depend on the machine; each worker has one core
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # every process would compile the package again

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

# Training waits for the disk after every save: files in memory, where there is room, are faster.
MEMORY = "/dev/shm"
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)

# Properties draw fewer examples in `make test` than in `make test-all`.
settings.register_profile("all", deadline=None, derandomize=True, database=None)
settings.register_profile("some", settings.get_profile("all"), max_examples=20)
settings.load_profile("all")
sys.dont_write_bytecode = False
# A shell starts background jobs with Ctrl-C ignored, and what the tests start would inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == "not slow":
        settings.load_profile("some")


@pytest.hookimpl(trylast=True)  # after they were put in random order
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folder by folder, those with fixtures of their own first: one worker starts their servers and
    browsers, and the other one takes over what is left at the end of its list."""
    shared = {each.parent for each in Path(__file__).parent.glob("*/conftest.py")}
    items.sort(key=lambda item: (item.path.parent not in shared, item.path.parent))


def _state() -> dict[str, object]:
    """What belongs to the whole process. Torch changes some of it by itself: where a bfloat16
    product fails on ARM it switches oneDNN off, and float32 products have other last bits from then
    on."""
    import torch  # not in the process that only starts the workers

    return {
        "working directory": Path.cwd(),
        "default dtype": torch.get_default_dtype(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "float32 precision": torch.get_float32_matmul_precision(),
        "gradients": torch.is_grad_enabled(),
        "oneDNN": torch.backends.mkldnn.enabled,
        "threads": torch.get_num_threads(),
    }


def _seed() -> None:
    import torch

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> None:
    """What several tests share is the same whichever of them comes first."""
    if fixturedef.scope != "function":
        _seed()


@pytest.fixture(autouse=True)
def _apart() -> Iterator[None]:
    _seed()
    before = _state()
    yield
    assert _state() == before, "the next test would see it"


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    terminalreporter.write_line(f"this order again: --randomly-seed={config.option.randomly_seed}")
