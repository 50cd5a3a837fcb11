"""What every message that a user may see has in common."""

from __future__ import annotations

from typing import Any


def clean(text: Any, most: int = 800) -> str:
    """Return a message that may be shown: one sentence, no traceback, nothing unforeseen."""
    assert isinstance(text, str), text
    assert "\n" not in text
    assert "Traceback" not in text
    assert "reference" not in text, "an unforeseen error"
    assert len(text) < most
    return text
