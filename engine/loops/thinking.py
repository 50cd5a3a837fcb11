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
    # Several templates are a dictionary, whose text contains theirs.
    templates = str(template)
    found = (
        [marks for marks in MARKS if marks[0] in prompt]
        or [marks for marks in MARKS if added.keys() >= {*marks}]
        or [marks for marks in MARKS if all(mark in templates for mark in marks)]
    )
    return found[0] if found else None


def make_thinking_reader(
    loaded: LoadedModel, prompt_ids: Sequence[int], written: int = 0
) -> ThinkingBudgetLogitsProcessor | None:
    """Return what finds the thinking sections of a text, without a budget; None if a model has none.

    Args:
        loaded: the model.
        prompt_ids: ids that the texts continue; an encoder reads those of an encoder-decoder model.
        written: number of ids at the end of the prompt that belong to the text.
    """
    if loaded.tokenizer is None:
        return None
    apart = loaded.is_encoder_decoder
    marks = find_thinking_marks(loaded.tokenizer, () if apart else prompt_ids)
    start = 1 if apart else len(prompt_ids) - written
    return None if marks is None else ThinkingBudgetLogitsProcessor(loaded.tokenizer, marks, start)


def make_thinking_processor(
    config: Any,
    loaded: LoadedModel,
    prompt_ids: Sequence[int],
    written: int = 0,
) -> ThinkingBudgetLogitsProcessor | None:
    """Return the processor of a config's thinking budget; None if it sets none.

    Args:
        config: a strategy's config.
        loaded: as for ``make_thinking_reader``, like the other arguments.
        prompt_ids: see there.
        written: see there.

    Raises:
        ParameterError: the model has no thinking section, or the message contains one of its marks.
    """
    asked = next((n for n in SWITCHES if getattr(config, n, None) is not None), None)
    if asked is None:
        return None
    tokenizer = loaded.tokenizer
    if tokenizer is None:
        raise ParameterError(asked, getattr(config, asked), "the model has no tokenizer")
    reader = make_thinking_reader(loaded, prompt_ids, written)
    if reader is None:
        why = Message("{name} has no thinking section", name=loaded.name)
        if not loaded.is_encoder_decoder:  # Its text does not continue the prompt.
            why = Message(
                "{name} has no thinking section, and the prompt begins none with {mark}",
                name=loaded.name,
                mark=MARKS[0][0],
            )
        raise ParameterError(asked, getattr(config, asked), why)
    begin, end = reader.marks
    message = config.reasoning_budget_message or ""
    inside = next((mark for mark in reader.marks if mark in message), None)
    if inside is not None:
        why = Message("it may not contain {mark}", mark=inside)
        raise ParameterError("reasoning_budget_message", message, why)
    # A control token that the message spells stays text: it would end the turn.
    forced = encode_continuation(tokenizer, message, begin, TEXT) if message else []
    reader.forced = (*forced, *encode_word(tokenizer, end, message or begin, PARSE))
    reader.budget, reader.minimum = config.thinking_token_budget, config.min_thinking_tokens or 0
    return reader
