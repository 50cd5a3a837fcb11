"""The filters of a run that transformers does not have, as code: their classes and one argument."""

from __future__ import annotations

import inspect
from typing import Any

from engine.export.grammar_code import grammar_calls, grammar_sources
from engine.export.plan import Plan
from engine.export.thinking_code import thinking_calls, thinking_sources
from engine.processors.filter import Filter
from engine.run.generation import filter_class, own_filters


def _filters(plan: Plan) -> list[tuple[Filter, tuple[Any, ...]]]:
    select = plan.strategy.generate_kwargs(plan.config)
    return own_filters(plan.config, select, plan.trace.eos_token_ids)


def filter_sources(plan: Plan) -> str:
    """Return the classes of these filters, which need torch only; empty without any."""
    # Only the class is exported, so it may use no names of its module.
    own = [inspect.getsource(one.build).rstrip() for one, _ in _filters(plan) if one.build]
    return "\n\n\n".join([*grammar_sources(plan), *thinking_sources(plan), *own])


def filter_list(plan: Plan) -> str:
    """Return the list of these filters as code; empty without any."""
    made = [
        f"{filter_class(one).__name__}({', '.join(repr(value) for value in values)})"
        for one, values in _filters(plan)
    ]
    made = [*grammar_calls(plan), *thinking_calls(plan), *made]
    return f"[{', '.join(made)}]" if made else ""


def filter_imports(plan: Plan) -> list[str]:
    """Return the classes of transformers that this list names."""
    return [filter_class(one).__name__ for one, _ in _filters(plan) if one.build is None]


def filter_arguments(plan: Plan) -> list[str]:
    """Return the argument of generate() with these filters, as code; none without any."""
    made = filter_list(plan)
    return [f"logits_processor={made}"] if made else []
