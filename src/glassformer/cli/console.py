"""Where commands print."""

from __future__ import annotations

import os
from typing import Any

import rich.console

PIPED = 10_000  # columns where there is no terminal


class Console(rich.console.Console):
    """Wraps lines on a terminal only: a file or a pipe gets them whole, unless COLUMNS is set."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if not self.is_terminal and "COLUMNS" not in os.environ:
            self.width = PIPED
