"""Signals that ask a run to stop."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

# Windows has a third one, for processes in the background.
NAMES = ("SIGTERM", "SIGINT", "SIGBREAK")
REPEATED = 5.0  # seconds in which further signals belong to the first one
EXIT = 75


class StopSignals:
    """The first signal asks a run to save and stop, and a later one ends the process at once.

    One request may arrive several times: from the terminal or the job scheduler, and once more from
    torchrun, which passes it on to its processes.
    """

    def __init__(self, folder: Path, *, training: bool = False) -> None:
        self.folder, self.training = folder, training
        self._first: float | None = None
        for name in NAMES:
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._receive)

    @property
    def stop_requested(self) -> bool:
        return self._first is not None

    def _receive(self, *signal_and_frame: object) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = now
            if not self.training:  # there is nothing to save
                raise KeyboardInterrupt
        elif now - self._first > REPEATED:
            line = (
                f"glassformer: {self.folder}: ended by a second signal, without saving: run the "
                "same command to resume after the last checkpoint\n"
            )
            os.write(2, line.encode())
            os._exit(EXIT)
