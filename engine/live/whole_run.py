"""A run of a strategy that needs the whole vocabulary at every step, with a model on a server."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from engine.declare.params import defaults_of
from engine.endpoints.server_lookup import ModelServer
from engine.errors import Cancelled, ParameterError
from engine.live.open_server import connect
from engine.live.plan import check_inputs
from engine.live.server_model import open_server_model
from engine.messages import Message
from engine.model_code import ModelWork
from engine.models.chat import ChatPrompt
from engine.run.preparation import prepare
from engine.run.request import CheckedRequest, DecodeRequest, check_request
from engine.run.run import Run
from engine.trace.events import Finished

_NEEDS_MODEL = frozenset(
    (
        *("guidance_scale", "negative_prompt", "negative_prompt_ids"),
        *("structured_outputs", "thinking_token_budget", "reasoning_budget_message"),
        "min_thinking_tokens",
    )
)
_READS_LOGITS = frozenset(
    ("repetition_penalty", "encoder_repetition_penalty", "exponential_decay_length_penalty")
)
"""They change a score by a share of itself. A beam search gives them log-probabilities anyway."""


def check_whole_request(request: DecodeRequest) -> CheckedRequest:
    """Check the values of a request, and that none needs more than the distribution of each step.

    Raises:
        EngineError: a value is not valid, or needs the model on this machine.
    """
    checked = check_request(dataclasses.replace(request, model=None))
    check_inputs(request)
    config, beams = checked.config, hasattr(checked.config, "num_beams")
    for name, default in defaults_of(type(config)).items():
        value = getattr(config, name)
        if value == default:
            continue
        if name in _NEEDS_MODEL:
            why = Message("it needs the model on this machine, so it must be off")
            raise ParameterError(name, value, why)
        if name in _READS_LOGITS and not beams:
            why = Message("it reads logits, and a server reports none, so it must be off")
            raise ParameterError(name, value, why)
    return checked


@dataclass(frozen=True, slots=True)
class _NoQueue:
    """The ticket of a run that computes nothing here, so that it has nobody to wait for."""

    waited_s: float = 0.0

    def give_way(self) -> None:
        """Wait for nobody."""


class WholeRun(Run):
    """A run whose model is a server's: steps and trace are those of a local run.

    It waits for no turn, because it computes nothing here. The request names its model as
    ``endpoint:ADDRESS#MODEL``.
    """

    def execute(self) -> None:
        """Run it.

        Raises:
            EngineError: the server cannot do it, or its answer cannot be used.
            Cancelled: the run was stopped before it decoded.
        """
        checked = check_whole_request(self.request)
        with connect(self.request, self.cancelled) as server:
            loaded = open_server_model(server)
            checked = _with_chat(dataclasses.replace(checked, models=(loaded,)), server)
            note = Message(
                "Every step asks {host} for the probabilities of all {n} tokens, once for each beam "
                "or text.",
                host=loaded.host,
                n=loaded.vocab_size,
            )
            checked = dataclasses.replace(checked, notes=(*checked.notes, note))
            try:
                with ModelWork(loaded.name, checked.strategy.title):
                    self._decode(prepare(checked), _NoQueue(), 0.0, self.send)
            except Cancelled:
                # A stop ends a request in the middle of a pass, so this pass has no step.
                trace = self.recording and self.recording.partial_trace("cancelled")
                if trace is None:
                    raise
                self.send(Finished(trace))


def _with_chat(checked: CheckedRequest, server: ModelServer) -> CheckedRequest:
    """Return a request whose conversation the server has put into the model's template."""
    messages = checked.request.messages
    if messages is None:
        return checked
    tokens = server.encode_messages(messages)
    text = b"".join(tokens.names[i] for i in tokens.ids).decode(errors="replace")
    return dataclasses.replace(checked, chat=ChatPrompt(text, tokens.ids, ()))
