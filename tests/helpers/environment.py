"""Finds the environment variables that the product reads."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = sorted(
    path
    for part in ("app.py", "engine", "playground", "visualizers")
    for path in ((ROOT / part).rglob("*") if (ROOT / part).is_dir() else [ROOT / part])
    if path.suffix in (".py", ".mjs", ".js") and "vendor" not in path.parts
)
_MAPPINGS, _FUNCTIONS = ("environ", "environb"), ("getenv", "getenvb")
_READS = ("get", "setdefault", "pop")


def find_reads(source: str) -> tuple[set[str], list[str]]:
    """Return the names that Python code reads, and the source of each read whose name is unclear."""
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    # A local variable may be called environ, so a bare name counts only if it comes from os.
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "os"
        for alias in node.names
    }
    names, unclear = set[str](), list[str]()
    for node in ast.walk(tree):
        if _last_name(node) not in (*_MAPPINGS, *_FUNCTIONS):
            continue
        if isinstance(node, ast.Name) and node.id not in imported:
            continue
        parent = parents[node]
        use = parents[parent] if isinstance(parent, ast.Attribute) else parent
        if _is_write(node, use):
            continue
        key = _key_of(node, use, parent)
        if isinstance(key, ast.Constant):
            names.add(str(key.value))
        else:
            unclear.append(ast.unparse(use))
    return names, unclear


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_write(node: ast.AST, use: ast.AST) -> bool:
    if isinstance(use, ast.Subscript):
        return use.value is node and not isinstance(use.ctx, ast.Load)
    return (isinstance(use, ast.AugAssign) and use.target is node) or (
        isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )


def _key_of(node: ast.AST, use: ast.AST, parent: ast.AST) -> ast.AST | None:
    """Return the expression that names the variable; None if there is none."""
    if isinstance(use, ast.Subscript) and use.value is node:
        return use.slice
    if isinstance(use, ast.Compare) and isinstance(use.ops[0], ast.In | ast.NotIn):
        return use.left
    if isinstance(use, ast.Call):
        named = use.func is node and _last_name(node) in _FUNCTIONS
        if named or (isinstance(parent, ast.Attribute) and parent.attr in _READS):
            return use.args[0] if use.args else None
    return None
