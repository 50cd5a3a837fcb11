"""A pytest plugin that makes any import of torch or transformers fail: ``make quick`` stays quick with it."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


class NoTorch(MetaPathFinder):
    """Refuses the two packages whose import takes seconds."""

    def find_spec(self, fullname, path=None, target=None):
        """Raise ImportError for them, and leave the others to the usual finders."""
        del path, target
        if fullname in ("torch", "transformers"):
            raise ImportError(
                f"A test of `make quick` imports {fullname}: leave its file out of QUICK."
            )


sys.meta_path.insert(0, NoTorch())
