"""The same code as a Jupyter notebook (nbformat 4)."""

from __future__ import annotations

import json
from typing import Any

from engine.export.plan import Plan
from engine.export.script import cells, summary


def notebook(plan: Plan) -> str:
    """Return the notebook as JSON text: one Markdown and one code cell a section."""
    listed = [_cell(0, "markdown", f"# {plan.strategy.title}\n\n{_plain_markdown(summary(plan))}")]
    for title, code in cells(plan):
        listed.append(_cell(len(listed), "markdown", f"## {title}"))
        listed.append(_cell(len(listed), "code", code))
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    book = {"cells": listed, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "cell_type": kind,
        "id": f"cell-{number}",
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _plain_markdown(text: str) -> str:
    """Keep text from being read as markup."""
    return text.replace("<", "&lt;").replace("`", "'")
