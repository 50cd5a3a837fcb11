"""What the page computes itself has a twin in Python that is there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

LIST = Path(__file__).parents[1] / "docs" / "computed.md"


def test_every_twin_is_a_function_of_the_engine():
    twins = re.findall(r"^\| `\w+` \| \S+\.mjs \| `([\w.]+)`", LIST.read_text(), re.MULTILINE)
    assert twins
    for twin in twins:
        module, _, name = twin.rpartition(".")
        assert callable(getattr(import_module(module), name)), twin
