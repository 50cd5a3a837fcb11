"""The real model of the tests, SmolLM2 135M Instruct: found where it was brought, else brought once."""

from __future__ import annotations

from functools import cache

import pytest

from engine.errors import EngineError
from engine.models.bringing import bring
from engine.models.files import local_folder
from engine.models.loading import LoadedModel, load

NAME = "smollm2"


def real_model() -> LoadedModel:
    """Return it as float32 on the processor; a test is skipped, with the reason, where it cannot be had."""
    real_folder()
    return load(NAME, "cpu", "float32")


def real_folder() -> str:
    """Return its folder, by which any server names it; a test is skipped where it cannot be had."""
    reason = _missing()
    if reason is not None:
        pytest.skip(reason)
    folder = local_folder(NAME)
    assert folder is not None
    return folder


@cache
def _missing() -> str | None:
    """Return why it cannot be had, None once it is there; it is tried once in a process."""
    try:
        bring(NAME, lambda what, done, total: None)
    except EngineError as error:
        return str(error)
    return None
