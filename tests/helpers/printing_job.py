"""A job whose libraries print, from Python and from C: ``python -m tests.helpers.printing_job``."""

from __future__ import annotations

import os
from typing import Any

from engine.models.subprocess_job import handle_job


def _answer(order: dict[str, Any]) -> dict[str, Any]:
    os.write(1, b"from C, and no end of a line")
    print("from Python")  # noqa: T201 - what a library does
    return order


if __name__ == "__main__":
    handle_job(_answer)
