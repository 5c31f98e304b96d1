"""Render a chat template that the user has handed over: run by `chat_sandbox.py`, in a process of
its own, with limits.

stdin has a JSON object with the template and what it may read; stdout gets {"text": …} or
{"error": …}. Only the standard library and jinja2 are imported.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any, NoReturn

SECONDS, MEMORY, OUTPUT = 5, 512 << 20, 1 << 20  # of processor time; bytes; characters


def limit() -> None:
    """What the operating system enforces; Windows has no such limits."""
    try:
        import resource
    except ImportError:
        return
    for name, most in (
        ("RLIMIT_CPU", SECONDS), ("RLIMIT_AS", MEMORY), ("RLIMIT_FSIZE", OUTPUT * 8),
        ("RLIMIT_CORE", 0),
    ):  # fmt: skip
        kind = getattr(resource, name, None)
        if kind is not None:
            resource.setrlimit(kind, (most, most))


def raise_exception(message: str) -> NoReturn:
    """What templates call to refuse a chat."""
    from jinja2.exceptions import TemplateError

    raise TemplateError(message)


def render(request: dict[str, Any]) -> str:
    """The text, or a ValueError if it is too long."""
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(
        value, ensure_ascii=False, indent=indent
    )
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    pieces, length = [], 0
    for piece in environment.from_string(request.pop("template")).generate(**request):
        pieces.append(piece)
        length += len(piece)
        if length > OUTPUT:
            raise ValueError(f"it writes more than {OUTPUT:,} characters")
    return "".join(pieces)


def main() -> None:
    request = json.load(sys.stdin)
    import jinja2.sandbox  # noqa: F401 - before there is a limit on memory

    limit()
    try:
        result = {"text": render(request)}
    except MemoryError:
        result = {"error": f"it needs more than {MEMORY >> 20} MB of memory"}
    except RecursionError:
        result = {"error": "it calls itself too often"}
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"[:400]}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
