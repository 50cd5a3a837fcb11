"""A hub to upload to, and somebody who answers."""

from __future__ import annotations

import io
import json
import sys

import pytest
from huggingface_hub import constants

from tests.helpers.hub import serving
from tests.helpers.method_processes import shared_processes
from tests.helpers.pushing import FILE, THERE, TO, TOKEN, point


@pytest.fixture(scope="module", autouse=True)
def _processes():
    """Let all runs and checks of methods in a file share their processes."""
    with shared_processes():
        yield


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Serve a repository with a generation_config.json of its own."""
    folder = tmp_path / "hub"
    (folder / TO).mkdir(parents=True)
    (folder / TO / FILE).write_text(json.dumps(THERE))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with serving(folder) as served:
        point(monkeypatch, served.url)
        yield served


@pytest.fixture
def answers(monkeypatch):
    """Return a function that types an answer."""
    return lambda text: monkeypatch.setattr(sys, "stdin", io.StringIO(text))
