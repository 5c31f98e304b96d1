"""One watched server, with good folders to damage, for each worker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gate.harness import Harness


@pytest.fixture(scope="package")
def harness() -> Iterator[Harness]:
    found = Harness()
    yield found
    found.close()


@pytest.fixture(scope="package")
def whole(harness: Harness) -> dict[str, Path]:
    return harness.whole
