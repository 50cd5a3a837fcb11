"""Render messages with a model's chat template, and locate each message's content in the text.

A template is a program that came with the model. transformers runs it in a sandbox, here in a
separate process with limits on time, memory and text length. Users' words are marked with
private-use characters while rendering, to find them in the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import ModelError, ParameterError
from engine.messages import Message
from engine.model_code import TOKENIZER, ModelCall
from engine.models.bounded_processes import render_template
from engine.models.model_types import Tokenizer
from engine.models.text import common_prefix_length
from engine.settings import SETTINGS

ChatMessage = Mapping[str, Any]
_FIRST_MARK, _LAST_MARK = 0x100000, 0x10FFFD
"""Range of private-use characters, which have no meaning for tokenizers and templates."""
_MAX_SHOWN = 240


@dataclass(frozen=True)
class Rendered:
    """A rendered conversation.

    Attributes:
        text: the rendered text.
        contents: (message index, start, end) of each message's content in the text, in characters,
            in order of position.
        literal: (start, end) of users' words that would be read as control tokens.
    """

    text: str
    contents: tuple[tuple[int, int, int], ...]
    literal: tuple[tuple[int, int], ...]


def get_template(tokenizer: Tokenizer | None, name: str, tools: Any = None) -> str:
    """Return the source of a model's chat template.

    Args:
        tokenizer: a transformers tokenizer, or None.
        name: the model's name.
        tools: as for apply_chat_template: some models have a separate template for tools.

    Raises:
        ModelError: the model has no chat template, or several without a default.
    """
    if tokenizer is None or not getattr(tokenizer, "chat_template", None):
        raise ModelError(
            "{name} has no chat template, so it takes a prompt and no messages.", name=name
        )
    try:
        source = tokenizer.get_chat_template(tools=tools)
    except ValueError:
        raise ModelError(
            "{name} has several chat templates and none that is the usual.", name=name
        ) from None
    if not isinstance(source, str):
        raise ModelError("{name} has a chat template that is no text.", name=name)
    return source


def render_chat(
    tokenizer: Tokenizer | None,
    name: str,
    messages: Sequence[ChatMessage],
    template: Mapping[str, object],
) -> Rendered:
    """Render messages with the model's chat template.

    Args:
        tokenizer: a transformers tokenizer.
        name: the model's name.
        messages: each with role and content.
        template: the other arguments of apply_chat_template.

    Raises:
        ModelError: the model has no chat template.
        ParameterError: the template refuses the messages, takes too long or writes too much.
    """
    source = get_template(tokenizer, name, template.get("tools"))
    assert tokenizer is not None  # it has a template
    plain = [dict(message) for message in messages]

    def write(messages: Sequence[ChatMessage], arguments: Mapping[str, object]) -> str:
        return apply_template(tokenizer, source, messages, arguments)

    text = write(plain, template)
    marks = _UserMarks(tokenizer, source, text, plain, template)
    wholly = write(
        marks.mark_contents(marks.mark_control_tokens(plain)), marks.mark_control_tokens(template)
    )
    if marks.remove_marks(wholly) != text:
        # The template inspects contents (e.g. their length) and counts our marks as text.
        wholly = write(marks.mark_control_tokens(plain), marks.mark_control_tokens(template))
    literal = marks.literal_spans(wholly)
    contents = marks.content_spans(wholly, [str(m.get("content") or "") for m in plain])
    if not literal and marks.remove_marks(wholly) != text:
        return Rendered(text, (), ())
    return Rendered(marks.remove_marks(wholly), tuple(contents), tuple(literal))


def apply_template(
    tokenizer: Tokenizer,
    source: str,
    messages: Sequence[ChatMessage],
    template: Mapping[str, object],
) -> str:
    """Return the text that a template makes of messages.

    Args:
        tokenizer: gives the special tokens.
        source: the template.
        messages: each with role and content.
        template: the other arguments of apply_chat_template.

    Raises:
        ParameterError: the template refuses the messages, takes too long or writes too much.
    """
    count = "1 message" if len(messages) == 1 else Message("{n} messages", n=len(messages))
    most, limit_s = SETTINGS.max_template_chars, SETTINGS.max_template_s
    try:
        answer = run_template(tokenizer, source, messages, template)
    except TimeoutError:
        limit = Message("the model's chat template takes longer than {s} seconds", s=f"{limit_s:g}")
        raise ParameterError("messages", count, limit) from None
    except MemoryError:
        raise ParameterError("messages", count, _refusal_message("MemoryError")) from None
    if "broken" in answer:
        raise ModelError(
            "The model's chat template has a mistake in line {line} and cannot be used: {why}. Write a "
            "prompt instead of messages.",
            line=answer["line"],
            why=_to_line(answer["broken"]),
        )
    if "refused" in answer:
        raise ParameterError("messages", count, _refusal_message(answer["refused"]))
    if "length" in answer:
        limit = Message(
            "the model's chat template makes {n} characters of them, at most {most}",
            n=answer["length"],
            most=most,
        )
        raise ParameterError("messages", count, limit)
    return answer["text"]


def run_template(
    tokenizer: Tokenizer,
    source: str,
    messages: Sequence[ChatMessage],
    template: Mapping[str, object],
) -> dict[str, Any]:
    """Render messages as apply_chat_template does; answer and errors as of ``render_template``.

    Args:
        tokenizer: gives the special tokens.
        source: the template.
        messages: each with role and content.
        template: the other arguments of apply_chat_template.
    """
    # As apply_chat_template does: fields without a value count as missing.
    known = [{k: v for k, v in message.items() if v is not None} for message in messages]
    special = {name: str(token) for name, token in tokenizer.special_tokens_map.items()}
    arguments = {"chat_template": source, **special, **template}
    return render_template(known, arguments, SETTINGS.max_template_s, SETTINGS.max_template_chars)


def _refusal_message(words: str | None) -> str:
    """Return the template's error message, cleaned and shortened, as part of a sentence."""
    return Message("the model's chat template refuses them: {line}", line=_to_line(words))


def _to_line(words: str | None) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in words or "").split())
    line = line.rstrip(".") or "it gives no reason"
    return line if len(line) <= _MAX_SHOWN else line[: _MAX_SHOWN - 1] + "…"


class _UserMarks:
    """Unused characters that mark users' words while a template renders them.

    Args:
        tokenizer: its control tokens are looked for in users' words.
        source: the template.
        used: values whose characters must not be used as marks.
    """

    def __init__(self, tokenizer: Tokenizer, source: str, *used: Any) -> None:
        used_characters = set(source) | {c for text in _yield_strings(used) for c in text}
        free = (chr(n) for n in range(_FIRST_MARK, _LAST_MARK) if chr(n) not in used_characters)
        self._free = free
        self.open, self.close = next(free), next(free)
        self.starts: list[str] = []
        self.ends: list[str] = []
        self._special, self._control = _control_token_patterns(tokenizer, source)

    def mark_contents(self, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the messages with a mark at both ends of each content, inside its outer white space."""
        self.starts = [next(self._free) for _ in messages]
        self.ends = [next(self._free) for _ in messages]
        return [
            {**message, "content": self._mark_content(number, message["content"])}
            if str(message.get("content") or "").strip()
            else message
            for number, message in enumerate(messages)
        ]

    def _mark_content(self, number: int, content: str) -> str:
        start = len(content) - len(content.lstrip())
        end = len(content.rstrip())
        # Inside the white space: templates trim contents, and could not behind a mark.
        inside = self.starts[number] + content[start:end] + self.ends[number]
        return content[:start] + inside + content[end:]

    def mark_control_tokens(self, value: object) -> Any:
        """Return a JSON value with marks around every control token spelled in its texts.

        In an assistant's message only special tokens count, so that ``<think>`` can be prefilled.
        """
        if isinstance(value, str):
            return self._mark_tokens(value, self._control)
        if isinstance(value, Mapping) and value.get("role") == "assistant":
            return {
                key: self._mark_tokens(item, self._special)
                if isinstance(item, str)
                else self.mark_control_tokens(item)
                for key, item in value.items()
            }
        if isinstance(value, Mapping):
            return {key: self.mark_control_tokens(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.mark_control_tokens(item) for item in value]
        return value

    def _mark_tokens(self, text: str, tokens: re.Pattern[str]) -> str:
        return tokens.sub(lambda found: f"{self.open}{found[0]}{self.close}", text)

    def remove_marks(self, text: str) -> str:
        """Return the text without marks."""
        return self._mark_pattern.sub("", text)

    @property
    def _mark_pattern(self) -> re.Pattern[str]:
        return re.compile(f"[{''.join((self.open, self.close, *self.starts, *self.ends))}]")

    def literal_spans(self, marked: str) -> list[tuple[int, int]]:
        """Return the spans of marked control tokens, in the text without marks."""
        found, start = [], None
        for mark, at in self._mark_positions(marked):
            if mark == self.open:
                start = at
            elif mark == self.close and start is not None:
                found.append((start, at))
                start = None
        return [(start, end) for start, end in found if end > start]

    def content_spans(self, marked: str, contents: Sequence[str]) -> list[tuple[int, int, int]]:
        """Return (message index, start, end) of the contents, in the text without marks.

        If the template dropped one end of a content, the span covers the part that still matches.
        """
        text, places = self.remove_marks(marked), dict(self._mark_positions(marked))
        found = []
        for number, marks in enumerate(zip(self.starts, self.ends, strict=True)):
            first, last = (places.get(mark) for mark in marks)
            span = _content_span(text, contents[number], first, last)
            if span is not None and span[0] < span[1]:
                found.append((number, *span))
        found = found or _search_contents(text, contents)
        found.sort(key=lambda span: span[1:])
        return [s for n, s in enumerate(found) if n == 0 or s[1] >= found[n - 1][2]]

    def _mark_positions(self, marked: str) -> Iterator[tuple[str, int]]:
        """Yield each mark with its position in the text without marks."""
        for number, found in enumerate(self._mark_pattern.finditer(marked)):
            yield found[0], found.start() - number


def _content_span(
    text: str, content: str, first: int | None, last: int | None
) -> tuple[int, int] | None:
    """Return the span of a content, given the positions of its start and end marks, if found.

    Outer white space belongs to the content as far as the template kept it.
    """
    if first is None and last is None:
        return None
    if first is None:
        assert last is not None
        part = text[:last][
            last - common_prefix_length(text[:last][::-1], content.rstrip()[::-1]) :
        ].lstrip()
        return last - len(part), last
    if last is None:
        part = text[first : first + common_prefix_length(text[first:], content.lstrip())].rstrip()
        return first, first + len(part)
    before = content[: len(content) - len(content.lstrip())]
    after = content[len(content.rstrip()) :]
    return (
        first - common_prefix_length(text[:first][::-1], before[::-1]),
        last + common_prefix_length(text[last:], after),
    )


def _search_contents(text: str, contents: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return the spans of contents found in the text by search, each after the previous one."""
    found, at = [], 0
    for number, content in enumerate(contents):
        content_text = content.strip()
        start = text.find(content_text, at) if content_text else -1
        if start >= 0:
            at = start + len(content_text)
            found.append((number, start, at))
    return found


def _yield_strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _yield_strings(key)
            yield from _yield_strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _yield_strings(item)


@ModelCall(TOKENIZER)
def _control_token_patterns(
    tokenizer: Tokenizer, source: str
) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return two patterns: special tokens, and special tokens plus added tokens that the template writes."""
    added = list(tokenizer.added_tokens_decoder.values())
    special = {token.content for token in added if token.special} | set(
        tokenizer.all_special_tokens
    )
    written = {
        token.content for token in added if token.content in source and not token.content.isspace()
    }
    return token_pattern(special), token_pattern(special | written)


def token_pattern(tokens: set[str]) -> re.Pattern[str]:
    """Return a pattern that matches any of the tokens, the longest first."""
    # The first alternative that fits wins, and a token may begin another one. (?!) fits nowhere.
    longest = sorted(filter(None, tokens), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest)) or "(?!)")
