"""What holds for all tests: nothing is kept for a later server unless a test says where."""

from __future__ import annotations

import os

os.environ["PLAYGROUND_JOURNAL"] = ""
