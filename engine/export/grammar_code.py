"""The grammar of a run as code: its processor, which needs the package llguidance."""

from __future__ import annotations

import inspect

from engine.export.plan import Plan
from engine.grammar import processor
from engine.grammar.compile import LIMITS
from engine.models.structured_outputs import compile_structured_outputs

_HEAD = """\
# The grammar needs one more package: pip install llguidance
import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import llguidance
import numpy as np


class DecodeError(ValueError):
    \"\"\"A text cannot go on.\"\"\"

    def __init__(self, template, **values):
        super().__init__(template.format(**values))"""
_PARTS = (
    processor.read_token_bytes,
    processor.TokenTable,
    processor.GrammarLogitsProcessor,
    processor.build_grammar_processor,
)


def grammar_sources(plan: Plan) -> list[str]:
    """Return the classes and functions of a grammar's processor; none without a grammar."""
    if plan.config.structured_outputs is None:
        return []
    return [_HEAD, *(inspect.getsource(part).rstrip() for part in _PARTS), _constants(plan)]


def _constants(plan: Plan) -> str:
    grammar = compile_structured_outputs(plan.config.structured_outputs)
    return f"GRAMMAR = {grammar!r}\nGRAMMAR_LIMITS = {dict(LIMITS)!r}"


def grammar_calls(plan: Plan) -> list[str]:
    """Return the expression that builds the processor; none without a grammar."""
    if plan.config.structured_outputs is None:
        return []
    apart = plan.model.info.is_encoder_decoder
    first = len(plan.trace.prompt_ids) - (plan.trace.parent.written if plan.trace.parent else 0)
    before, start = ("[]", "1") if apart else (f"PROMPT_IDS[:{first}]", f"{first}")
    table = f"TokenTable(read_token_bytes(tokenizer, {plan.model.info.vocab_size}), END)"
    arguments = f"tokenizer, {table}, GRAMMAR, {before}, {start}, END, GRAMMAR_LIMITS"
    return [f"build_grammar_processor({arguments})"]
