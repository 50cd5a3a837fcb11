"""Which way imports go, and that the page of a module stays a page."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FORBIDDEN = {
    "engine": ("gradio", "plotly", "playground", "visualizers", "training", "benchmarks"),
    "visualizers": ("gradio", "playground", "torch", "transformers"),
    "training": ("gradio", "plotly", "playground", "visualizers"),
    "benchmarks": ("gradio", "plotly", "playground", "visualizers"),
}
SOURCES = [
    p for folder in (*FORBIDDEN, "playground") for p in sorted((ROOT / folder).rglob("*.py"))
]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_and_length(path):
    source = path.read_text()
    assert len(source.splitlines()) <= 420
    package = path.relative_to(ROOT).parts[0]
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            assert name.split(".")[0] not in FORBIDDEN.get(package, ()), name


def test_reading_a_trace_needs_neither_torch_nor_gradio():
    code = (
        "import sys, engine.trace, engine.params, engine.errors, engine.events, engine.trace_json,"
        " visualizers; bad = {'torch', 'transformers', 'gradio'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
