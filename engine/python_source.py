"""Python source as a syntax tree, from any thread."""

from __future__ import annotations

import ast
import threading

# CPython before 3.13 counts the depth of a tree once for all threads (python/cpython#106905): one of two that
# parse at the same time may end in SystemError.
_LOCK = threading.Lock()


def parse_module(source: str | bytes, path: str = "<unknown>") -> ast.Module:
    """Return the syntax tree of a module, as ``ast.parse`` does.

    Args:
        source: the text, or its bytes in the encoding that it names.
        path: of the file, for errors.

    Raises:
        SyntaxError: the source is no Python.
        ValueError, RecursionError, MemoryError: it has null bytes, or is nested too deeply.
    """
    with _LOCK:
        return ast.parse(source, path)


def parse_expression(source: str) -> ast.Expression:
    """Return the syntax tree of one expression; raises what ``parse_module`` raises."""
    with _LOCK:
        return ast.parse(source, mode="eval")
