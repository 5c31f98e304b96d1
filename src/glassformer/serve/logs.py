"""The log of the server: one line of JSON for each record, without texts of requests."""

from __future__ import annotations

import json
import logging
import time
import traceback
from pathlib import Path
from typing import Any

LOG = logging.getLogger("glassformer.serve")


def log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    LOG.propagate = False


class JsonLines(logging.Formatter):
    """One line of JSON for each record."""

    def format(self, record: logging.LogRecord) -> str:
        row = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(), "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }  # fmt: skip
        if record.exc_info:
            row["error"] = self.formatException(record.exc_info)
        return json.dumps(row, ensure_ascii=False)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - its name in `logging`
        """The kind of the error and its place in the code; its message may quote a text."""
        kind, _, trace = ei
        frames = [
            f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(trace)
        ]
        return f"{getattr(kind, '__name__', kind)}: {' > '.join(frames)}"
