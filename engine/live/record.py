"""Records an answer while it comes: events for the reader, and the trace at the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from engine.endpoints.answer import Answer
from engine.endpoints.request import Request
from engine.endpoints.server_lookup import PromptTokens
from engine.endpoints.steps import StepFacts, build_step
from engine.endpoints.to_trace import MEASURED_SERVERS, find_choice, trace_from_answer
from engine.endpoints.token_names import TokenNames
from engine.live.own_draw import OwnDraw
from engine.live.plan import LivePlan
from engine.models.text import common_prefix_length
from engine.run.request import DecodeRequest
from engine.trace.checks import check_trace
from engine.trace.events import StepRecorded, TextDelta
from engine.trace.records import ModelInfo, Step, Trace
from engine.trace.served import SERVED_STRATEGY, ServedInfo

Send = Callable[[Any], None]


class LiveRecord:
    """The record of one run on a server.

    Args:
        request: the run.
        plan: what it asks of the server.
        host: host of the server.
        tokens: the prompt's tokens; None if the server takes texts only.
        vocab_size: None if the server does not say it.
        send: receives events.

    Attributes:
        answer: what the server said so far.
        draws: our own draws, one a step; empty if the server chose the tokens.
        notes: sentences on the run for its record.
    """

    def __init__(
        self,
        request: DecodeRequest,
        plan: LivePlan,
        host: str,
        tokens: PromptTokens | None,
        vocab_size: int | None,
        send: Send,
    ) -> None:
        self.request, self.plan, self.host = request, plan, host
        self.tokens, self.vocab_size, self.send = tokens, vocab_size, send
        self.answer, self.draws = Answer(), list[OwnDraw]()
        self.notes = list(plan.notes)
        self._names, self._known = TokenNames({}), set[int]()
        self._sent_steps, self._sent_text = 0, ""

    def header(self, model: str, server: str) -> Trace:
        """Return the trace without steps and outputs.

        Args:
            model: the model's name on the server.
            server: one of SERVERS of a trace.
        """
        ids = () if self.tokens is None else self.tokens.ids
        names = TokenNames({} if self.tokens is None else self.tokens.names)
        for token_id in ids:
            names.add_id(token_id)
        chat = self.request.messages is not None
        return Trace(
            SERVED_STRATEGY,
            self.plan.settings,
            ModelInfo(model, dtype="", device="", vocab_size=self.vocab_size or 0),
            {},
            self.request.seed,
            None if chat else self.request.prompt,
            () if chat else ids,
            names.pieces,
            (),
            (),
            parent=self.request.parent,
            messages=tuple(dict(m) for m in self.request.messages or ()) or None,
            template={} if chat else None,
            served=ServedInfo(
                server,
                server in MEASURED_SERVERS,
                self._choice(find_choice(self.plan.settings)),
                host=self.host,
            ),
        )

    def publish(self) -> None:
        """Send what is new: steps and text.

        Raises:
            TraceError: a step's numbers cannot be.
        """
        if not self.answer.choices:
            return
        choice = self.answer.choice(0)
        facts = StepFacts(
            self._names, self.answer.distribution, self.answer.lists_best, self.vocab_size
        )
        for at in range(self._sent_steps, len(choice.steps)):
            step = build_step(choice.steps[at], at, at, 0, facts)
            if at < len(self.draws):
                step = self.draws[at].add_to(step)
            new = {i: p for i, p in self._names.pieces.items() if i not in self._known}
            self._known |= new.keys()
            self.send(StepRecorded(step, new))
        self._sent_steps = len(choice.steps)
        self._send_text(choice.text)

    def _send_text(self, text: str) -> None:
        if text != self._sent_text:
            same = common_prefix_length(text, self._sent_text)
            self.send(TextDelta(0, same, text[same:]))
            self._sent_text = text

    def trace(self) -> Trace:
        """Return the trace of what the server said so far.

        Raises:
            TraceError: it is nothing, or cannot be.
        """
        answer, request = self.answer, self.request
        answer.settings = {}
        if self.tokens is not None:
            answer.prompt_ids, answer.names = self.tokens.ids, self.tokens.names | answer.names
        messages = None if request.messages is None else tuple(dict(m) for m in request.messages)
        asked = Request(request.prompt, messages, self.plan.settings)
        found = trace_from_answer(answer, asked, self.vocab_size)
        assert found.served is not None
        served = dataclasses.replace(
            found.served, host=self.host, choice=self._choice(found.served.choice)
        )
        trace = dataclasses.replace(
            found,
            steps=tuple(self._with_draw(step) for step in found.steps),
            seed=request.seed,
            parent=request.parent,
            prompt=None if messages is not None else request.prompt,
            notes=(*self.notes, *found.notes),
            served=served,
        )
        check_trace(trace)
        return trace

    def _with_draw(self, step: Step) -> Step:
        return self.draws[step.index].add_to(step) if step.index < len(self.draws) else step

    def _choice(self, found: str) -> str:
        return "own" if self.plan.own else found
