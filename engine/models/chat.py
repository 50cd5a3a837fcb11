"""Tokenize a rendered conversation and attribute each token to its message or to the template.

The template's own control tokens become control tokens, as with apply_chat_template. A control
token that a user spelled stays plain text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.declare.special_tokens import PARSE, TEXT
from engine.errors import ParameterError
from engine.models.model_types import Tokenizer
from engine.models.templates import Rendered, token_pattern
from engine.models.text import tokenize_text
from engine.trace.records import TEMPLATE_ROLE, PromptTurn

_ANCHOR = "\n"
"""Put before a piece when it is tokenized alone, since tokenizers treat the start of a text differently."""


@dataclass(frozen=True)
class ChatPrompt:
    """A conversation as the model reads it.

    Attributes:
        text: the rendered text.
        ids: its token ids.
        turns: consecutive token spans, each of a role or of the template.
        literal_tokens: number of control tokens that users spelled and that stayed text.
        parsed_tokens: number of those that became control tokens.
    """

    text: str
    ids: tuple[int, ...]
    turns: tuple[PromptTurn, ...]
    literal_tokens: int = 0
    parsed_tokens: int = 0


@dataclass(frozen=True)
class _Token:
    """A token and the position of its last character; None if the tokenizer has no offsets."""

    id: int
    at: int | None


def encode_chat(
    tokenizer: Tokenizer, rendered: Rendered, roles: Sequence[str], special_tokens: str = TEXT
) -> ChatPrompt:
    """Tokenize a rendered conversation.

    Args:
        tokenizer: a transformers tokenizer.
        rendered: result of ``templates.render``.
        roles: the role of each message.
        special_tokens: how control tokens are read that users spelled.

    Raises:
        ParameterError: a user spelled a control token that the tokenizer cannot write as text.
    """
    spelled = len(rendered.literal)
    if special_tokens == PARSE:
        rendered = dataclasses.replace(rendered, literal=())
    tokens = _tokenize_with_literals(tokenizer, rendered)
    return ChatPrompt(
        rendered.text,
        tuple(token.id for token in tokens),
        tuple(_yield_turns(tokens, rendered, roles)),
        len(rendered.literal),
        spelled - len(rendered.literal),
    )


def chat_from_ids(tokenizer: Tokenizer | None, ids: Sequence[int]) -> ChatPrompt:
    """Build a ChatPrompt from token ids alone, without turns.

    Args:
        tokenizer: a transformers tokenizer, or None: then the text is empty.
        ids: token ids of the conversation.
    """
    text = "" if tokenizer is None else tokenizer.decode(list(ids), skip_special_tokens=False)
    return ChatPrompt(text, tuple(ids), ())


def _tokenize_alone(tokenizer: Tokenizer, text: str, start: int, *, literal: bool) -> list[_Token]:
    """Tokenize a text without context.

    Args:
        tokenizer: a transformers tokenizer.
        text: the text.
        start: its position in the whole text, in characters.
        literal: whether special tokens that it spells stay text.
    """
    options = {"add_special_tokens": False, "split_special_tokens": literal}
    if not tokenizer.is_fast:
        return [_Token(i, None) for i in tokenize_text(tokenizer, text, **options)["input_ids"]]
    found = tokenize_text(tokenizer, text, return_offsets_mapping=True, **options)
    spans = zip(found["input_ids"], found["offset_mapping"], strict=True)
    # A token that spans two texts belongs to the second: its last character decides.
    return [_Token(i, start + max(first, last - 1)) for i, (first, last) in spans]


def _tokenize_with_literals(tokenizer: Tokenizer, rendered: Rendered) -> list[_Token]:
    """Tokenize a text in which users may have spelled control tokens.

    The text is split at the template's special tokens, as every tokenizer does first. Only spans in
    which a user spelled a control token are tokenized as plain text. So all other spans have exactly
    the ids of apply_chat_template.
    """
    tokens: list[_Token] = []
    for start, end, literal in _split_spans(tokenizer, rendered):
        text = rendered.text[start:end]
        if literal:
            tokens += _tokenize_as_text(tokenizer, text, start, rendered)
        else:
            tokens += _tokenize_alone(tokenizer, text, start, literal=False)
    return tokens


def _split_spans(tokenizer: Tokenizer, rendered: Rendered) -> Iterator[tuple[int, int, bool]]:
    """Yield non-empty spans (start, end, whether a user spelled a control token in it)."""
    text, at = rendered.text, 0
    real = list(_special_token_spans(tokenizer, rendered))
    for first, last in sorted(rendered.literal):
        start = max((end for _, end in real if end <= first), default=0)
        end = min((begin for begin, _ in real if begin >= last), default=len(text))
        # The span of an earlier spelling covers this one, too.
        if start < at:
            continue
        if start > at:
            yield at, start, False
        yield start, end, True
        at = end
    if at < len(text):
        yield at, len(text), False


def _special_token_spans(tokenizer: Tokenizer, rendered: Rendered) -> Iterator[tuple[int, int]]:
    """Yield the spans of the template's special tokens, including the white space they strip."""
    added = {t.content: t for t in tokenizer.added_tokens_decoder.values() if t.special}
    pattern, text, at = token_pattern(set(added)), rendered.text, 0
    for start, end in (*sorted(rendered.literal), (len(text), len(text))):
        for found in pattern.finditer(text, at, start):
            first, last, token = found.start(), found.end(), added[found[0]]
            while token.lstrip and first > at and text[first - 1].isspace():
                first -= 1
            while token.rstrip and last < start and text[last].isspace():
                last += 1
            yield first, last
        at = end


def _tokenize_as_text(
    tokenizer: Tokenizer, text: str, start: int, rendered: Rendered
) -> list[_Token]:
    """Tokenize a span that holds none of the template's special tokens, as plain text."""
    special = {t.content for t in tokenizer.added_tokens_decoder.values() if t.special}
    whole = {first: last for first, last in rendered.literal if start <= first < start + len(text)}
    # split_special_tokens splits the special tokens only: other added ones would match whole.
    others = {a: b for a, b in whole.items() if rendered.text[a:b] not in special}
    tokens: list[_Token] = []
    at = start
    for first, last in (*sorted(others.items()), (start + len(text), start + len(text))):
        if first > at:
            tokens += _tokenize_inside(tokenizer, rendered.text[at:first], at)
        if last > first:
            tokens += _tokenize_added_token(tokenizer, rendered.text[first:last], last - 1)
        at = last
    special_ids = set(tokenizer.all_special_ids)
    for token in tokens:
        if token.id in special_ids and tokenizer.convert_ids_to_tokens(token.id) in special:
            _reject_control_token(tokenizer.convert_ids_to_tokens(token.id))
    return tokens


def _tokenize_added_token(tokenizer: Tokenizer, word: str, at: int) -> list[_Token]:
    """Tokenize the name of a non-special added token as text, in two parts so that it is not matched."""
    own = tokenizer.convert_tokens_to_ids(word)
    ids = [i for half in (word[:1], word[1:]) for i in _token_ids(tokenizer, half)]
    if own in ids:
        _reject_control_token(word)
    return [_Token(i, at) for i in ids]


def _token_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return [token.id for token in _tokenize_inside(tokenizer, text, len(_ANCHOR))]


def _tokenize_inside(tokenizer: Tokenizer, text: str, start: int) -> list[_Token]:
    """Tokenize a text as if it followed other text."""
    if not text:
        return []
    line = [token.id for token in _tokenize_alone(tokenizer, _ANCHOR, 0, literal=True)]
    whole = _tokenize_alone(tokenizer, _ANCHOR + text, start - len(_ANCHOR), literal=True)
    # The line end may have joined the text in one token; then its ids cannot be cut off.
    if start > 0 and [token.id for token in whole[: len(line)]] == line:
        return whole[len(line) :]
    return _tokenize_alone(tokenizer, text, start, literal=True)


def _reject_control_token(token: str) -> None:
    raise ParameterError(
        "messages", token, "the model's tokenizer cannot write this control token as text"
    )


def _yield_turns(
    tokens: Sequence[_Token], rendered: Rendered, roles: Sequence[str]
) -> Iterator[PromptTurn]:
    """Yield token spans by owner: a message's role or the template."""
    if not tokens:
        return
    owners = [_message_index(token, rendered) for token in tokens]
    start = 0
    for end in range(1, len(owners) + 1):
        if end == len(owners) or owners[end] != owners[start]:
            owner = owners[start]
            yield PromptTurn(TEMPLATE_ROLE if owner is None else roles[owner], start, end)
            start = end


def _message_index(token: _Token, rendered: Rendered) -> int | None:
    """Return the index of the message that a token belongs to; None for the template."""
    if token.at is None:
        return None
    spans = (n for n, start, end in rendered.contents if start <= token.at < end)
    return next(spans, None)
