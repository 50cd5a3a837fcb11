"""The answer of a server in one shape, whatever its format was."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.trace.value_types import JsonObject


@dataclass(frozen=True, slots=True)
class ReportedToken:
    """A token as a server reported it."""

    logprob: float | None
    """Log-probability in nats, -inf for an impossible token; None if the server gave none, as for
    the first token of an echoed prompt."""
    raw: bytes | None = None
    """UTF-8 bytes, possibly a part of a character; None if the server named it by its id only."""
    id: int | None = None
    """Token id; None if the server reported no id."""


@dataclass(frozen=True, slots=True)
class ReportedStep:
    """One decision: the chosen token, and the most probable ones."""

    chosen: ReportedToken
    top: tuple[ReportedToken, ...] = ()


@dataclass(slots=True)
class AnswerText:
    """One of the texts of an answer."""

    steps: list[ReportedStep] = field(default_factory=list)
    text: str = ""
    finish: str | None = None
    """One of FINISH_REASONS of the trace; None while the text is not finished."""
    ids: list[int] = field(default_factory=list)
    """Ids of its tokens, if the server lists them next to the text."""


@dataclass(slots=True)
class Answer:
    """What a server said about one request."""

    server: str = "unknown"
    """One of SERVERS of the trace."""
    model: str = ""
    choices: dict[int, AnswerText] = field(default_factory=dict)
    distribution: str = "unknown"
    """One of DISTRIBUTIONS of the trace."""
    lists_best: bool = False
    """True if the listed tokens are always the most probable ones. Other servers put a chosen token
    of low probability into the list and drop the last of it."""
    prompt: str | None = None
    prompt_ids: tuple[int, ...] = ()
    prompt_logprobs: bool = False
    """True if the server reported the probabilities of the prompt's tokens."""
    names: dict[int, bytes] = field(default_factory=dict)
    """Token id -> its bytes, where the answer gives both."""
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    total_s: float = 0.0
    first_token_s: float | None = None
    settings: JsonObject = field(default_factory=dict)
    """Settings that the answer itself contains."""

    def set_durations(self, prompt_s: float, new_tokens_s: float) -> None:
        """Set the times of the answer, if the server reported that of the new tokens."""
        if new_tokens_s:
            self.total_s, self.first_token_s = prompt_s + new_tokens_s, prompt_s

    def choice(self, index: int) -> AnswerText:
        """Return the choice with this index, which may be new."""
        return self.choices.setdefault(index, AnswerText())
