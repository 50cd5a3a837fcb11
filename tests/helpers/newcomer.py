"""Looks at a strategy from outside, in a process of its own: ``python -m tests.helpers.newcomer``.

The repository it imports is the one it is started in, which may be a copy with one strategy more.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import sys
from typing import Any

from engine.cli.main import main


def told(arguments: list[str]) -> tuple[int, str]:
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
        "endpoint": len(endpoints.get(f"/{name}", {}).get("parameters", [])),
        "form": next((s for s in page_spec()["strategies"] if s["name"] == name), None),
        "params": [control["name"] for control in page_spec()["params"]],
    }


if __name__ == "__main__":
    strategy, *lines = json.loads(sys.argv[1])
    answers = [told(arguments) for arguments in lines]
    sys.stdout.write("\n" + json.dumps({"commands": answers, "page": page_of(strategy)}))
