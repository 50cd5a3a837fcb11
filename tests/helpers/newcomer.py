"""Follows a recipe in a process of its own, in the repository that is first on its path.

Importing torch and Gradio takes longer than all commands, so one process runs the commands, looks at
the page and runs the tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import sys
from typing import Any

import pytest

from engine.cli.main import main

# A command has imported anyio, whose plugin pytest would have liked to import first.
_LATE = "ignore::pytest.PytestAssertRewriteWarning"


def run_command(arguments: list[str]) -> tuple[int, str]:
    """Run a command of the engine; return its exit status and what it printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = main(arguments)
    return status, said.getvalue()


def page_of(name: str) -> dict[str, Any]:
    """Return what the page has for a strategy."""
    import gradio as gr

    from engine.strategies import STRATEGIES
    from playground.app import build_app
    from playground.forms.spec import page_spec

    async def build() -> Any:
        return build_app()

    blocks = asyncio.run(build())
    endpoints = blocks.get_api_info()["named_endpoints"]
    return {
        "strategies": list(STRATEGIES),
        "tabs": [b.label for b in blocks.blocks.values() if isinstance(b, gr.Tab)],
        "elements": [b.elem_id for b in blocks.blocks.values() if b.elem_id],
        "endpoint": [p["parameter_name"] for p in endpoints[f"/{name}"]["parameters"]],
        "form": next((s for s in page_spec()["strategies"] if s["name"] == name), None),
        "params": [control["name"] for control in page_spec()["params"]],
    }


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    facts: dict[str, Any] = {"commands": [run_command(one) for one in asked["commands"]]}
    if asked["strategy"]:
        facts["page"] = page_of(asked["strategy"])
    sys.stdout.write("\n" + json.dumps(facts) + "\n")
    sys.stdout.flush()
    os.chdir(asked["copy"])
    sys.exit(pytest.main(["-q", "-W", _LATE, "-p", "no:xdist", *asked["tests"]]))
