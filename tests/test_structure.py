"""Which way imports go, in the project and among its tests, and that a page of code stays a page."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

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
FOLDERS = (*FORBIDDEN, "decoding_playground", "deploy", "playground", "tests")
EVERYTHING = [ROOT / "app.py"] + [
    path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))
]


def part_of(path: Path) -> str:
    """Return the folder of the project that a file is in, or the file's own name."""
    return path.relative_to(ROOT).parts[0]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported(path: Path) -> Iterator[str]:
    """Yield the name of everything a file imports, relative imports with their dots."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def within(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def violations(paths: Iterable[Path], rule: Callable[[Path], Iterable[str]]) -> list[str]:
    """Return ``file: what`` for everything that a rule finds in some files."""
    paths = list(paths)
    assert paths, "the rule has no file to check"
    return [f"{path.relative_to(ROOT)}: {what}" for path in paths for what in rule(path)]


def long_parts(path: Path) -> Iterator[str]:
    lines = len(path.read_text().splitlines())
    if lines > 400:
        yield f"has {lines} lines, at most 400 are allowed"
    for node in ast.walk(tree_of(path)) if path.suffix == ".py" else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = node.end_lineno - node.lineno + 1
            if lines > 60:
                yield f"{node.name} has {lines} lines, at most 60 are allowed"


def forbidden_imports(path: Path) -> Iterator[str]:
    forbidden = FORBIDDEN[part_of(path)]
    yield from (f"imports {name}" for name in imported(path) if within(name, forbidden))


def imports_of_other_tests(path: Path) -> Iterator[str]:
    for name in imported(path):
        if (within(name, ("tests",)) or name[0] == ".") and not within(name, SHARED):
            yield f"imports {name}"


def imports_of_other_pictures(path: Path) -> Iterator[str]:
    """A picture must be of use without the playground; only the stage knows all pictures."""
    pictures = ROOT / "visualizers"
    for name in IMPORTED.findall(path.read_text()):
        target = (path.parent / name).resolve()
        near = target.parent in {path.parent, pictures / "shared"}
        allowed = target.is_relative_to(pictures) and (near or path.parent == pictures / "stage")
        if not (target.exists() and allowed):
            yield f"imports {name}"


def test_every_folder_is_looked_at():
    assert {part_of(path) for path in EVERYTHING} == {"app.py", *FOLDERS}
    assert Path(__file__) in EVERYTHING
    assert {part_of(path) for path in SCRIPTS} == {"visualizers", "playground", "tests"}


def test_a_file_fits_in_400_lines_and_a_function_in_60():
    found = violations(EVERYTHING, long_parts)
    assert not found, "\n".join(found)


def test_a_class_has_a_name_of_its_own():
    homes = {}
    for path in EVERYTHING:
        # The page's own controls bear the names of Gradio's that they are.
        if part_of(path) == "tests" or path.name == "raw.py":
            continue
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert not {name: found for name, found in homes.items() if len(found) > 1}


def test_a_script_fits_in_400_lines():
    # The linter counts the lines of its functions.
    found = violations(SCRIPTS, long_parts)
    assert not found, "\n".join(found)


def test_a_picture_imports_from_its_own_folder_and_from_shared_only():
    pictures = [path for path in SCRIPTS if part_of(path) == "visualizers"]
    found = violations(pictures, imports_of_other_pictures)
    assert not found, "\n".join(found)


def test_imports_go_one_way():
    found = violations([p for p in EVERYTHING if part_of(p) in FORBIDDEN], forbidden_imports)
    assert not found, "\n".join(found)


def test_tests_share_through_helpers_only():
    found = violations([p for p in EVERYTHING if part_of(p) == "tests"], imports_of_other_tests)
    assert not found, "\n".join(found)


def test_a_violation_is_named_with_its_file(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    for folder in ("engine", "tests", "visualizers/tree"):
        (tmp_path / folder).mkdir(parents=True)
    engine, test = tmp_path / "engine" / "long.py", tmp_path / "tests" / "test_it.py"
    engine.write_text("import gradio\nfrom engine import gradio\ndef f():\n" + "    x = 1\n" * 400)
    test.write_text("from tests.test_other import x\nfrom . import y\nimport tests.helpers.runs\n")
    script = tmp_path / "visualizers" / "tree" / "tree.mjs"
    script.write_text('import { a } from "../other/other.mjs";\n')
    assert violations([engine], forbidden_imports) == ["engine/long.py: imports gradio"]
    assert violations([engine], long_parts) == [
        "engine/long.py: has 403 lines, at most 400 are allowed",
        "engine/long.py: f has 401 lines, at most 60 are allowed",
    ]
    assert violations([test], imports_of_other_tests) == [
        "tests/test_it.py: imports tests.test_other.x",
        "tests/test_it.py: imports ..y",
    ]
    assert violations([script], imports_of_other_pictures) == [
        "visualizers/tree/tree.mjs: imports ../other/other.mjs"
    ]


def test_reading_a_trace_needs_neither_torch_nor_gradio():
    code = (
        "import sys, engine.trace.json_io, engine.trace.events, engine.declare.params, visualizers;"
        " bad = {'torch', 'transformers', 'gradio'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
