"""No test talks to a hub; none depends on the clock, or on another's random numbers."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import pytest
import torch
from hypothesis import settings

settings.register_profile("calm", deadline=None, derandomize=True, database=None)
settings.load_profile("calm")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
