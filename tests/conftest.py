"""What holds for all tests: nothing is kept for a later server or a later test unless a test says where."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

os.environ["PLAYGROUND_JOURNAL"] = ""
os.environ["PLAYGROUND_METHODS"] = tempfile.mkdtemp(prefix="methods.")
atexit.register(shutil.rmtree, os.environ["PLAYGROUND_METHODS"], ignore_errors=True)
