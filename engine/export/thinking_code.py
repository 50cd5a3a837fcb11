"""The thinking budget of a run as code: its processor, which reads the texts of tokens."""

from __future__ import annotations

import inspect

from engine.export.plan import Plan
from engine.processors.thinking_budget import ThinkingBudgetLogitsProcessor, limits_thinking

_HEAD = """\
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any"""


def thinking_sources(plan: Plan) -> list[str]:
    """Return the class of the processor; none without a budget."""
    if not limits_thinking(plan.config):
        return []
    return [_HEAD, inspect.getsource(ThinkingBudgetLogitsProcessor).rstrip()]


def thinking_calls(plan: Plan) -> list[str]:
    """Return the expression that builds the processor; none without a budget."""
    thinking = plan.trace.thinking
    if not limits_thinking(plan.config) or thinking is None:
        return []
    written = plan.trace.parent.written if plan.trace.parent else 0
    start = 1 if plan.model.info.is_encoder_decoder else len(plan.trace.prompt_ids) - written
    config = plan.config
    marks, least = (thinking.begin, thinking.close), config.min_thinking_tokens or 0
    values = (marks, start, thinking.forced, config.thinking_token_budget, least)
    return [f"ThinkingBudgetLogitsProcessor(tokenizer, {', '.join(map(repr, values))})"]
