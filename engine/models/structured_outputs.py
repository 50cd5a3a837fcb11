"""The parameter ``structured_outputs`` for one model: compiled within limits, and as a logits processor."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from engine.errors import ParameterError
from engine.grammar.compile import LIMITS
from engine.grammar.processor import (
    GrammarLogitsProcessor,
    TokenTable,
    build_grammar_processor,
    read_token_bytes,
)
from engine.messages import Message
from engine.models.bounded_processes import compile_grammar
from engine.models.model_types import Tokenizer
from engine.settings import SETTINGS

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel

NAME = "structured_outputs"
_TABLES: WeakKeyDictionary[Any, dict[tuple[int, tuple[int, ...]], TokenTable]] = WeakKeyDictionary()
"""Tokenizer -> (logits, end tokens) -> its table."""


def compile_structured_outputs(spec: Mapping[str, Any]) -> str:
    """Return the grammar in llguidance's format, compiled first in a process with limits.

    Raises:
        ParameterError: one sentence with the reason.
    """
    return _compile(json.dumps(spec))


# Errors are not cached: compiling may have been too slow only because the machine was busy.
@lru_cache(maxsize=256)
def _compile(text: str) -> str:
    spec = json.loads(text)
    limit_s = SETTINGS.max_public_grammar_s if SETTINGS.public else SETTINGS.max_template_s
    try:
        answer = compile_grammar(spec, limit_s)
    except TimeoutError:
        why = Message("compiling it takes longer than {s} seconds", s=f"{limit_s:g}")
        raise ParameterError(NAME, spec, why) from None
    except MemoryError:
        raise ParameterError(NAME, spec, "compiling it takes too much memory") from None
    if "refused" in answer:
        raise ParameterError(NAME, spec, Message(answer["refused"], **answer["values"]))
    return answer["grammar"]


def make_grammar_processor(
    spec: Mapping[str, Any],
    loaded: LoadedModel,
    prompt_ids: Sequence[int],
    eos: Sequence[int],
    written: int = 0,
    compile_spec: Callable[[Mapping[str, Any]], str] = compile_structured_outputs,
) -> GrammarLogitsProcessor:
    """Return the processor of a grammar for one prompt.

    Args:
        spec: the parameter's normal form.
        loaded: the model.
        prompt_ids: ids that the texts continue; an encoder reads those of an encoder-decoder model.
        eos: ids that end a text.
        written: number of ids at the end of the prompt that belong to the text.
        compile_spec: compiles the grammar.

    Raises:
        ParameterError: the grammar cannot be used, or not with this model.
    """
    grammar = compile_spec(spec)
    tokenizer = loaded.tokenizer
    if tokenizer is None:
        raise ParameterError(NAME, dict(spec), "the model has no tokenizer")
    if not eos:
        raise ParameterError(NAME, dict(spec), "the model has no end token; set eos_token_id")
    table = _find_table(tokenizer, loaded.vocab_size, tuple(eos), spec)
    apart, first = loaded.is_encoder_decoder, len(prompt_ids) - written
    before, start = ((), 1) if apart else (tuple(prompt_ids[:first]), first)
    processor = build_grammar_processor(tokenizer, table, grammar, before, start, eos, dict(LIMITS))
    if written and processor.matcher(tuple(prompt_ids[first:])) is None:
        raise ParameterError(
            NAME, dict(spec), "no text that it allows begins like the one you continue"
        )
    return processor


def _find_table(
    tokenizer: Tokenizer, vocab_size: int, eos: tuple[int, ...], spec: Mapping[str, Any]
) -> TokenTable:
    tables = _TABLES.setdefault(tokenizer, {})
    if (vocab_size, eos) not in tables:
        token_bytes = read_token_bytes(tokenizer, vocab_size)
        if token_bytes is None:
            raise ParameterError(
                NAME, dict(spec), "the model's tokenizer does not say which text each token writes"
            )
        tables[vocab_size, eos] = TokenTable(token_bytes, eos)
    return tables[vocab_size, eos]
