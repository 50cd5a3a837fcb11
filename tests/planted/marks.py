"""Says of a test whether it runs by day or only at night, by its marks in the source."""

from __future__ import annotations

import ast
from functools import cache

from tests.planted.defect import ROOT, is_script


def is_nightly(test: str) -> bool:
    """Return whether a test, ``file::name``, is left out by day with all its parameters.

    A test of which only some parameters are nightly runs by day, and so does every script.
    """
    file, name = test.split("::")
    return not is_script(test) and name in _nightly_tests(file)


@cache
def _nightly_tests(file: str) -> frozenset[str]:
    """Return the names of the functions of a file that are marked nightly."""
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    whole = any(
        _names_nightly(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    )
    return frozenset(
        node.name for node in functions if whole or any(map(_names_nightly, node.decorator_list))
    )


def _names_nightly(mark: ast.expr) -> bool:
    """Return whether a decorator, or the value of ``pytestmark``, is or holds the mark itself."""
    marks = mark.elts if isinstance(mark, (ast.List, ast.Tuple)) else [mark]
    return any(ast.unparse(one) == "pytest.mark.nightly" for one in marks)
