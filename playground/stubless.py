"""Gradio without the type stubs that it makes of itself when it is imported.

For every class of a component it reads the source and renders a stub for editors, which takes as long as half of its
import. A class that comes from no file gets none: that is what it is told of all of them meanwhile.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_KIND = "ComponentMeta"
"""What the class of Gradio's component classes is called."""


@contextmanager
def stubless() -> Iterator[None]:
    """Import Gradio in this block for the first time."""
    real = inspect.getfile

    def getfile(thing: Any) -> str:
        if type(thing).__name__ == _KIND:
            raise OSError("No stub is wanted.")
        return real(thing)

    inspect.getfile = getfile
    try:
        yield
    finally:
        inspect.getfile = real
