"""What a method needs that this machine does not have; it is named and never installed."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import shlex
import sys

from packaging.requirements import InvalidRequirement, Requirement


def missing_packages(trees: dict[str, ast.Module], requirements: str) -> str | None:
    """Return one sentence about what is missing, None where nothing is.

    Args:
        trees: path -> parsed source of every file.
        requirements: the text of requirements.txt.
    """
    unmet: list[Requirement] = []
    for number, line in enumerate(requirements.splitlines(), 1):
        stated = line.partition("#")[0].strip()
        if not stated:
            continue
        try:
            wanted = Requirement(stated)
        except InvalidRequirement:
            return f"custom_generate/requirements.txt, line {number}: {stated!r} is no requirement."
        if (wanted.marker is None or wanted.marker.evaluate()) and not _met(wanted):
            unmet.append(wanted)
    if unmet:
        needs = ", ".join(f"{wanted} ({_installed(wanted.name)})" for wanted in unmet)
        line = shlex.join(["pip", "install", *(str(wanted) for wanted in unmet)])
        return f"The method needs {needs}. Nothing is installed for it; {line} would bring it."
    return _missing_import(trees)


def _missing_import(trees: dict[str, ast.Module]) -> str | None:
    for path, tree in trees.items():
        guarded = {id(n) for t in ast.walk(tree) if isinstance(t, ast.Try) for n in ast.walk(t)}
        for node in ast.walk(tree):
            if id(node) in guarded:
                continue
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names = [node.module]
            elif isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                beside = f"{path.rpartition('/')[0]}/{node.module.replace('.', '/')}"
                if f"{beside}.py" in trees or f"{beside}/__init__.py" in trees:
                    continue
                return f"{path}, line {node.lineno}: there is no {node.module}.py beside it."
            else:
                continue
            for name in names:
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names and importlib.util.find_spec(top) is None:
                    return (
                        f"{path}, line {node.lineno}: there is no package {top} here."
                        f" Nothing is installed for a method; pip install {top} may bring it."
                    )
    return None


def _met(wanted: Requirement) -> bool:
    try:
        version = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return wanted.specifier.contains(version, prereleases=True)


def _installed(name: str) -> str:
    try:
        return f"installed: {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return "installed: none"
