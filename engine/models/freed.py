"""Memory of models that have left goes back to the system, and does not only stand ready for the next one."""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Have glibc return what is free: it keeps what layers of a few megabytes leave, and takes more beside it."""
    if sys.platform != "linux":
        return
    # Another C library may lack it.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
