"""Patch that keeps Gradio from generating type stubs when it is imported.

Gradio reads the source of every component class and renders a stub for editors, which is half of
its import time. Classes without a source file get no stub, so the patch hides the files of all
components during the import.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_COMPONENT_METACLASS = "ComponentMeta"
"""Name of the metaclass of Gradio's components."""


@contextmanager
def skip_stub_generation() -> Iterator[None]:
    """Disable stub generation in this block, in which Gradio is imported for the first time."""
    real = inspect.getfile

    def getfile(thing: Any) -> str:
        # Compared by name: importing the class would import Gradio.
        if type(thing).__name__ == _COMPONENT_METACLASS:
            raise OSError("No stub is wanted.")
        return real(thing)

    inspect.getfile = getfile
    try:
        yield
    finally:
        inspect.getfile = real
