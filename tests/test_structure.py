"""Which way imports go, in the project and among its tests, and that a page of code stays a page."""

from __future__ import annotations

import ast
import re
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
SHARED = ("tests.helpers", "tests.browser_setup", "tests.npm", "tests.planted")
SCRIPTS = [
    path
    for folder in ("visualizers", "playground/client", "tests/js")
    for path in sorted((ROOT / folder).rglob("*.mjs"))
]
IMPORTED = re.compile(r'(?:\bfrom|\bimport) ?\(?"([^"]+)"')
FOLDERS = (*FORBIDDEN, "playground", "tests")
EVERYTHING = [ROOT / "app.py"] + [
    path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))
]


def parametrized(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda p: str(p.relative_to(ROOT)))


def imported(path):
    """Yield the name of everything a file imports, relative imports with their dots."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def within(name, packages):
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def test_every_folder_is_looked_at():
    assert {path.relative_to(ROOT).parts[0] for path in EVERYTHING} == {"app.py", *FOLDERS}
    assert Path(__file__) in EVERYTHING


@parametrized(EVERYTHING)
def test_a_file_fits_in_400_lines_and_a_function_in_60(path):
    source = path.read_text()
    assert len(source.splitlines()) <= 400
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno - node.lineno < 60, node.name


def test_a_class_has_a_name_of_its_own():
    homes = {}
    for path in EVERYTHING:
        # The page's own controls bear the names of Gradio's that they are.
        if path.relative_to(ROOT).parts[0] == "tests" or path.name == "raw.py":
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert not {name: found for name, found in homes.items() if len(found) > 1}


@parametrized(SCRIPTS)
def test_a_script_fits_in_400_lines(path):
    # The linter counts the lines of its functions.
    assert len(path.read_text().splitlines()) <= 400


@parametrized([p for p in SCRIPTS if p.is_relative_to(ROOT / "visualizers")])
def test_a_picture_imports_from_its_own_folder_and_from_shared_only(path):
    """A picture must be of use where there is no playground; the stage alone knows all of them."""
    pictures = ROOT / "visualizers"
    for name in IMPORTED.findall(path.read_text()):
        target = (path.parent / name).resolve()
        assert target.exists(), name
        assert target.is_relative_to(pictures), name
        near = target.parent in {path.parent, pictures / "shared"}
        assert near or path.parent == pictures / "stage", name


@parametrized([p for p in EVERYTHING if p.relative_to(ROOT).parts[0] in FORBIDDEN])
def test_imports_go_one_way(path):
    forbidden = FORBIDDEN[path.relative_to(ROOT).parts[0]]
    assert not [name for name in imported(path) if within(name, forbidden)]


@parametrized([p for p in EVERYTHING if p.is_relative_to(ROOT / "tests")])
def test_tests_share_through_helpers_only(path):
    others = [name for name in imported(path) if within(name, ("tests",)) or name[0] == "."]
    assert not [name for name in others if not within(name, SHARED)]


def test_reading_a_trace_needs_neither_torch_nor_gradio():
    code = (
        "import sys, engine.trace.json_io, engine.trace.events, engine.declare.params, visualizers;"
        " bad = {'torch', 'transformers', 'gradio'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
