"""Asks a model server for one token, twice, and says what it reports."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from engine.endpoints.answer import Answer, ReportedStep
from engine.endpoints.dialects import Completion, SamplerValues
from engine.endpoints.events import list_events
from engine.endpoints.http_client import EndpointClient, ServerError
from engine.endpoints.read_answer import read_answer
from engine.endpoints.server_lookup import ModelServer, PromptTokens
from engine.endpoints.to_trace import SERVER_TITLES
from engine.errors import DecodeError, TraceError
from engine.messages import Message, join_messages
from engine.number_text import format_value

PROBE_PROMPT = "Once upon a time"
_HOT = 2.0
"""Temperature of the second request: it changes probabilities after the filters by far more than rounding."""
_ROUNDING = 0.05
"""Most nats by which a server's own log-probabilities differ between two requests."""
IDS, TEXT = "ids", "text"


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What a model server reports.

    Attributes:
        server: one of SERVERS of a trace.
        names_ids: whether candidates have token ids.
        names_texts: whether they have texts, apart from parts of characters.
        candidates: most candidates that it listed for a token.
        distribution: one of DISTRIBUTIONS of a trace.
        prefix: ``ids`` if it continues token ids, ``text`` if it only continues texts.
        prompt_logprobs: whether it reports the probabilities of the prompt's tokens.
        noise: largest difference in nats between the two requests' log-probabilities; None if they
            are not of the same distribution.
        vocab_size: None if it does not say it.
        end_ids: ids of the token that ends a text; empty if it does not say them.
    """

    server: str
    names_ids: bool
    names_texts: bool
    candidates: int
    distribution: str
    prefix: str
    prompt_logprobs: bool
    noise: float | None
    vocab_size: int | None = None
    end_ids: tuple[int, ...] = ()

    def describe(self) -> str:
        """Return them as one line."""
        return join_messages(
            (
                Message("{server}:", server=SERVER_TITLES[self.server]),
                self._describe_candidates(),
                _DISTRIBUTIONS[self.distribution],
                Message("continues token ids;")
                if self.prefix == IDS
                else Message("continues texts only;"),
                Message("reports the prompt's probabilities;")
                if self.prompt_logprobs
                else Message("reports no probabilities of the prompt;"),
                self._describe_noise(),
            )
        )

    def _describe_candidates(self) -> str:
        if not self.candidates:
            return Message("lists no candidates;")
        names = (
            Message("ids and texts")
            if self.names_ids and self.names_texts
            else Message("ids only")
            if self.names_ids
            else Message("texts only")
        )
        return Message("{n} candidates as {names};", n=self.candidates, names=names)

    def _describe_noise(self) -> str:
        if self.noise is None:
            return Message("exactness unknown.")
        return Message("two requests differ by {n} nats.", n=format_value(round(self.noise, 6)))


_DISTRIBUTIONS = {
    "model": Message("the model's own probabilities;"),
    "sampled": Message("probabilities after the server's filters;"),
    "unknown": Message("probabilities of an unknown kind;"),
}


def probe(server: ModelServer) -> ServerReport:
    """Return what a server reports, from one token at temperature 0 and one at temperature 2.

    Raises:
        DecodeError: the server does not answer, or with something else than a completion.
    """
    tokens = server.encode(PROBE_PROMPT) if server.dialect.takes_ids else None
    first, asked = _complete_most(server, tokens)
    hotter = dataclasses.replace(asked, sampler=SamplerValues(temperature=_HOT))
    second = complete(server, hotter)
    cold, hot = _only_step(server.client, first), _only_step(server.client, second)
    noise = _largest_difference(cold, hot)
    listed = [*cold.top, cold.chosen]
    same = noise is not None and noise <= _ROUNDING
    read_ids = tokens is not None and first.prompt_tokens in (None, len(tokens.ids))
    return ServerReport(
        first.server if server.dialect.server == "unknown" else server.dialect.server,
        all(token.id is not None for token in listed),
        any(token.raw is not None for token in listed),
        len(cold.top),
        "unknown" if noise is None else "model" if same else "sampled",
        IDS if read_ids else TEXT,
        bool(first.prompt_logprobs),
        noise if same else None,
        server.vocab_size,
        server.end_ids(),
    )


def complete(server: ModelServer, asked: Completion) -> Answer:
    """Return the answer of a server to one request, which is not streamed.

    Raises:
        DecodeError: the server does not answer, or with something else than a completion.
    """
    path, body = server.dialect.request(asked, stream=False)
    value = server.client.post(path, body)
    try:
        answer = read_answer(list_events(value))
    except TraceError as error:
        raise unusable_answer(server.client, error) from None
    server.name_answer(answer)
    return answer


def unusable_answer(client: EndpointClient, error: TraceError) -> DecodeError:
    """Return the error about an answer that no known server would give."""
    return DecodeError(
        "The answer of {host} cannot be used: {why}", host=client.address.netloc, why=str(error)
    )


def _complete_most(server: ModelServer, tokens: PromptTokens | None) -> tuple[Answer, Completion]:
    """Return the answer with the most candidates that the server gives, and its request."""
    ids, prompt = ((), PROBE_PROMPT) if tokens is None else (tokens.ids, None)
    *more, least = server.dialect.candidates
    for k in more:
        asked = Completion(server.model, ids, prompt, prompt_logprobs=True, candidates=k)
        try:
            return complete(server, asked), asked
        except ServerError:  # servers refuse a number above theirs
            continue
    asked = Completion(server.model, ids, prompt, prompt_logprobs=True, candidates=least)
    return complete(server, asked), asked


def _only_step(client: EndpointClient, answer: Answer) -> ReportedStep:
    steps = [step for choice in answer.choices.values() for step in choice.steps]
    if not steps:
        raise DecodeError(
            "The server at {host} reports no log-probabilities, so there is nothing to show.",
            host=client.address.netloc,
        )
    return steps[0]


def _largest_difference(one: ReportedStep, other: ReportedStep) -> float | None:
    """Return the largest difference of the log-probabilities that both list, None if they list none."""
    known = {(t.id, t.raw): t.logprob for t in one.top}
    pairs = [(known.get((t.id, t.raw)), t.logprob) for t in other.top]
    found = [abs(a - b) for a, b in pairs if a is not None and b is not None and max(a, b) > -20]
    return max(found, default=None)
