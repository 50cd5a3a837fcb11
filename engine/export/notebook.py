"""The exported code as a Jupyter notebook (nbformat 4)."""

from __future__ import annotations

import json
from typing import Any

from engine.export.pipeline import TITLE, pipeline_call, unsupported_reason
from engine.export.plan import Plan
from engine.export.script import code_sections, code_summary
from engine.export.short_script import short_code

_FOLDED_METADATA = {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]}
"""Metadata of a cell whose code is collapsed."""


def notebook_json(plan: Plan) -> str:
    """Return the notebook as JSON text.

    It has the short script, one collapsed cell per section of the script, and the pipeline.
    """
    listed = [
        _make_cell(
            0, "markdown", f"# {plan.strategy.title}\n\n{_escape_markdown(code_summary(plan))}"
        )
    ]
    lines = short_code(plan)
    if lines is not None:
        listed.append(_make_cell(len(listed), "markdown", "## The run in short"))
        listed.append(_make_cell(len(listed), "code", lines))
    exact = _make_cell(len(listed), "markdown", "## The same run exactly as it was recorded")
    listed.append({**exact, "metadata": {"jp-MarkdownHeadingCollapsed": True}})
    for title, code in code_sections(plan):
        listed.append(_make_cell(len(listed), "markdown", f"### {title}"))
        listed.append({**_make_cell(len(listed), "code", code), "metadata": _FOLDED_METADATA})
    reason = unsupported_reason(plan)
    about = f"### {TITLE}" + (f"\n\n{_escape_markdown(reason)}" if reason else "")
    listed.append(_make_cell(len(listed), "markdown", about))
    if reason is None:
        code = _make_cell(len(listed), "code", pipeline_call(plan))
        listed.append({**code, "metadata": _FOLDED_METADATA})
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    book = {"cells": listed, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _make_cell(number: int, kind: str, text: str) -> dict[str, Any]:
    # Numbered ids instead of random ones: the same run gives the same notebook.
    cell: dict[str, Any] = {
        "cell_type": kind,
        "id": f"cell-{number}",
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _escape_markdown(text: str) -> str:
    """Escape text so that Markdown shows it unchanged."""
    return text.replace("<", "&lt;").replace("`", "'")
