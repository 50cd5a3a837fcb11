"""Draws a text here from a server's distributions, with one request for each token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine.endpoints.answer import Answer, ReportedStep
from engine.endpoints.dialects import Completion
from engine.endpoints.probe import ServerReport, complete
from engine.endpoints.server_lookup import ModelServer
from engine.errors import DecodeError
from engine.live.end_tokens import EndTokens
from engine.live.own_draw import OwnDraw, OwnSampler
from engine.live.plan import LivePlan
from engine.live.written_text import WrittenText


@dataclass(frozen=True, slots=True)
class NextToken:
    """The distribution after some tokens, as a server reported it.

    Attributes:
        answer: the whole answer, to a request for one token.
        step: its only step.
    """

    answer: Answer
    step: ReportedStep


@dataclass(frozen=True, slots=True)
class DrawnToken:
    """A token that was drawn here.

    Attributes:
        next: the distribution that it was drawn from.
        drawn: the draw.
        text: what has been written so far, with this token.
        finish: why the text ends here, ``eos`` or ``stop``; None if it goes on.
    """

    next: NextToken
    drawn: OwnDraw
    text: str
    finish: str | None


def ask_next_token(server: ModelServer, able: ServerReport, ids: Sequence[int]) -> NextToken:
    """Return the distribution after some tokens.

    Raises:
        DecodeError: the server does not answer, or with another number of tokens.
    """
    answer = complete(server, Completion(server.model, tuple(ids), candidates=able.candidates))
    if answer.prompt_tokens is not None and answer.prompt_tokens != len(ids):
        raise DecodeError(
            "The server was sent {sent} token ids and counted {n}: it does not continue them.",
            sent=len(ids),
            n=answer.prompt_tokens,
        )
    steps = [step for choice in answer.choices.values() for step in choice.steps]
    if len(steps) != 1:
        raise DecodeError("The server was asked for one token and reported {n}.", n=len(steps))
    return NextToken(answer, steps[0])


def draw_tokens(
    ask: Callable[[tuple[int, ...]], NextToken],
    sampler: OwnSampler,
    plan: LivePlan,
    prompt_ids: Sequence[int],
    ends: EndTokens,
) -> Iterator[DrawnToken]:
    """Yield the tokens of one text, at most as many as the plan allows.

    Args:
        ask: returns the distribution after some ids.
        sampler: draws from it.
        plan: of the run.
        prompt_ids: ids of the prompt.
        ends: the tokens that end a text.

    Raises:
        DecodeError: the server's answer cannot be used.
    """
    ids, written = tuple(prompt_ids), WrittenText(ends.server)
    for _ in range(plan.new_tokens):
        found = ask(ids)
        drawn = sampler.draw(found.step)
        token = drawn.token
        assert token.id is not None
        ids += (token.id,)
        finish = "eos" if ends.has(token) else None
        if not finish:
            written.add(token)
            finish = "stop" if any(stop in written.text for stop in plan.stop) else None
        yield DrawnToken(found, drawn, written.text, finish)
        if finish:
            return
