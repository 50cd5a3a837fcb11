"""What holds for all tests: nothing is kept for a later server or a later test unless a test says where."""

from __future__ import annotations

import os
import shutil
import tempfile

os.environ["PLAYGROUND_JOURNAL"] = ""
# Exported code must end, however busy the machine is.
os.environ["PLAYGROUND_MAX_CHECK_S"] = "600"
os.environ["PLAYGROUND_METHODS"] = tempfile.mkdtemp(prefix="methods.")


def pytest_sessionfinish() -> None:
    """Remove it; a worker of several is ended as soon as its session is."""
    shutil.rmtree(os.environ["PLAYGROUND_METHODS"], ignore_errors=True)
