"""The thinking section of a model: the marks that begin and end it, and the processor of its budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engine.declare.special_tokens import PARSE, TEXT
from engine.errors import ParameterError
from engine.messages import Message
from engine.models.special_tokens import encode_continuation, encode_word
from engine.processors.thinking_budget import MARKS, SWITCHES, ThinkingBudgetLogitsProcessor

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel
    from engine.models.model_types import Tokenizer


def find_thinking_marks(tokenizer: Tokenizer, prompt_ids: Sequence[int]) -> tuple[str, str] | None:
    """Return the marks of a model's thinking section; None if it has none.

    Those of the prompt come first, as anyone may open a section there; then the model's own tokens, then
    the texts of its chat template.
    """
    prompt = "".join(piece or "" for piece in tokenizer.convert_ids_to_tokens(list(prompt_ids)))
    added = tokenizer.get_added_vocab()
    template: Any = getattr(tokenizer, "chat_template", None) or ""
    # Several templates are a dictionary, and their texts are part of its own.
    templates = str(template)

    def is_in_prompt(begin: str, end: str) -> bool:
        del end
        return begin in prompt

    def are_tokens(begin: str, end: str) -> bool:
        return begin in added and end in added

    def are_in_template(begin: str, end: str) -> bool:
        return begin in templates and end in templates

    tests = (is_in_prompt, are_tokens, are_in_template)
    return next((marks for test in tests for marks in MARKS if test(*marks)), None)


def make_thinking_processor(
    config: Any,
    loaded: LoadedModel,
    prompt_ids: Sequence[int],
    written: int = 0,
) -> ThinkingBudgetLogitsProcessor | None:
    """Return the processor of a config's thinking budget; None if it sets none.

    Args:
        config: a strategy's config.
        loaded: the model.
        prompt_ids: ids that the texts continue; an encoder reads those of an encoder-decoder model.
        written: number of ids at the end of the prompt that belong to the text.

    Raises:
        ParameterError: the model has no thinking section, or the message contains one of its marks.
    """
    asked = next((n for n in SWITCHES if getattr(config, n, None) is not None), None)
    if asked is None:
        return None
    value, tokenizer = getattr(config, asked), loaded.tokenizer
    if tokenizer is None:
        raise ParameterError(asked, value, "the model has no tokenizer")
    marks = find_thinking_marks(tokenizer, () if loaded.is_encoder_decoder else prompt_ids)
    if marks is None:
        why = Message(
            "{name} has no thinking section, and the prompt begins none with {mark}",
            name=loaded.name,
            mark=MARKS[0][0],
        )
        raise ParameterError(asked, value, why)
    message = config.reasoning_budget_message or ""
    inside = next((mark for mark in marks if mark in message), None)
    if inside is not None:
        why = Message("it may not contain {mark}", mark=inside)
        raise ParameterError("reasoning_budget_message", message, why)
    # A control token that the message spells stays text: it would end the turn.
    forced = encode_continuation(tokenizer, message, marks[0], TEXT) if message else []
    forced += encode_word(tokenizer, marks[1], message or marks[0], PARSE)
    start = 1 if loaded.is_encoder_decoder else len(prompt_ids) - written
    budget, least = config.thinking_token_budget, config.min_thinking_tokens
    return ThinkingBudgetLogitsProcessor(tokenizer, marks, start, tuple(forced), budget, least or 0)
