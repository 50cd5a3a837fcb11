"""Return the heap memory of evicted models to the operating system."""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Make glibc return free heap memory to the system (``malloc_trim``).

    Layers of 1 to 3 MB stay in the heap after they are freed, and the next model is laid next to
    them. ``gc.collect`` does not help, since no reference cycle holds a model.
    """
    if sys.platform != "linux":
        return
    # Other C libraries, such as musl, lack it.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
