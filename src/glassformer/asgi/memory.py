"""Memory that was freed goes back to the system."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable


def release_memory() -> None:
    """glibc keeps freed memory in pieces, and ever more of them: give it back."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    """None on systems without glibc."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    return getattr(libc, "malloc_trim", None)
