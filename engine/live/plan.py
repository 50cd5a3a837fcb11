"""Checks what a run asks of a server, and refuses with the reason what no server can do."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from engine.declare.params import defaults_of
from engine.endpoints.dialects import LARGEST_SEED, Dialect, SamplerValues
from engine.endpoints.probe import IDS, ServerReport
from engine.errors import DecodeError, ModelError, ParameterError
from engine.messages import Message
from engine.run.request import DecodeRequest, check_request

SERVER, OWN = "server", "own"
SAMPLER = "sampler"
"""Parameter that says who draws: the ``server``, or this program by its ``own`` filters."""
_HANDLED = frozenset(
    ("max_new_tokens", "stop_strings", "eos_token_id", "temperature", "top_k", "top_p", "min_p")
)
STRATEGIES_OF_SERVERS = ("greedy", "sampling")
"""Strategies that servers have."""
NEED_WHOLE_VOCABULARY = ("beam_search", "beam_sampling", "diverse_beam_search", "watermark")
"""Strategies that need the probability of every token, and nothing else of the model."""
_REASONS = {
    **dict.fromkeys((*STRATEGIES_OF_SERVERS, *NEED_WHOLE_VOCABULARY), ""),
    "contrastive_search": Message("it needs the hidden states of the model"),
    "dola": Message("it needs the layers of the model"),
    "early_exit": Message("it needs the layers of the model"),
    "speculative": Message("its draft is verified by the whole distribution of the main model"),
    "custom": Message("a custom method calls the model itself"),
}
_OTHER_REASON = Message("it needs the model on this machine")


@dataclass(frozen=True, slots=True)
class LivePlan:
    """What a run asks of a server.

    Attributes:
        sampler: values of the sampler.
        new_tokens: most new tokens.
        stop: texts that end it.
        own: True if this program draws the tokens.
        end_ids: ids that end the text, if the request names them.
        settings: the parameters of the run, for its record.
        notes: sentences on ignored values.
    """

    sampler: SamplerValues
    new_tokens: int
    stop: tuple[str, ...]
    own: bool
    end_ids: tuple[int, ...]
    settings: dict[str, Any]
    notes: tuple[str, ...]


def make_plan(request: DecodeRequest) -> LivePlan:
    """Return what a request asks of a server.

    Raises:
        ParameterError: a value is out of range, or no server has the setting.
        ModelError: the strategy cannot work with a server; the message gives the reason.
    """
    params = dict(request.params)
    sampler = check_sampler(params.pop(SAMPLER, SERVER))
    checked = check_request(dataclasses.replace(request, params=params, model=None))
    name = checked.strategy.name
    _check_strategy(name)
    check_inputs(request)
    config = checked.config
    _check_params(config, sampler)
    if request.seed > LARGEST_SEED:
        raise ParameterError("seed", request.seed, Message("servers take 0 to {n}", n=LARGEST_SEED))
    values = SamplerValues(
        temperature=0.0 if name == "greedy" else config.temperature,
        top_k=0 if name == "greedy" else config.top_k,
        top_p=1.0 if name == "greedy" else config.top_p,
        min_p=0.0 if name == "greedy" else config.min_p or 0.0,
        repetition_penalty=config.repetition_penalty,
        seed=request.seed,
    )
    kept = {n: getattr(values, n) for n in SamplerValues.__slots__}
    ends = config.eos_token_id or ()
    return LivePlan(
        values,
        config.max_new_tokens,
        tuple(config.stop_strings or ()),
        sampler == OWN and name == "sampling",
        (ends,) if isinstance(ends, int) else tuple(ends),
        kept | {"max_new_tokens": config.max_new_tokens, "stop": list(config.stop_strings or ())},
        checked.notes,
    )


def check_sampler(value: object) -> str:
    """Return who draws the tokens.

    Raises:
        ParameterError: it is neither ``server`` nor ``own``.
    """
    if value not in (SERVER, OWN):
        raise ParameterError(SAMPLER, value, "it must be server or own")
    return str(value)


def check_able(plan: LivePlan, able: ServerReport, dialect: Dialect) -> None:
    """Check that a server can do what a run asks of it.

    Raises:
        ParameterError: it has no such setting.
        ModelError: our own filters need more than it reports.
    """
    off = SamplerValues(temperature=plan.sampler.temperature)
    for name in SamplerValues.__slots__:
        given = getattr(plan.sampler, name)
        if not plan.own and name not in dialect.sends and given != getattr(off, name):
            raise ParameterError(name, given, "this server's interface has no such setting")
    if not plan.own:
        return
    reasons = (
        (
            able.prefix != IDS,
            Message("it continues texts only, and a text can be cut into other tokens"),
        ),
        (not able.names_ids, Message("it reports candidates without ids")),
        (not able.names_texts, Message("it reports candidates without texts")),
        (
            able.distribution != "model",
            Message("its probabilities are not known to be the model's own"),
        ),
        (not able.candidates, Message("it lists no candidates")),
    )
    for applies, reason in reasons:
        if applies:
            raise ModelError(
                "Our own filters cannot draw from this server: {reason}. Use sampler = server.",
                reason=reason,
            )


def refusal_on_server(name: str) -> str:
    """Return why a strategy does not work with a model that a server computes; empty if it does."""
    return _REASONS.get(name, _OTHER_REASON)


def _check_strategy(name: str) -> None:
    reason = refusal_on_server(name)
    if reason:
        raise ModelError(
            "{strategy} does not work with a model behind an address: {reason}. Use greedy, "
            "sampling, a beam search or watermark.",
            strategy=name,
            reason=reason,
        )


def check_inputs(request: DecodeRequest) -> None:
    """Check that a request gives nothing that only a model on this machine can use.

    Raises:
        DecodeError: it does; the message names it.
    """
    given = {
        "assistant": request.assistant,
        "image": request.image,
        "audio": request.audio,
        "weights": request.weights,
        "template": request.template,
        "logits_processor": request.logits_processor,
        "stopping_criteria": request.stopping_criteria,
        "streamer": request.streamer,
    }
    for name, value in given.items():
        if value:
            raise DecodeError(
                "{name} does not work with a model behind an address: leave it out.", name=name
            )


def _check_params(config: object, sampler: str) -> None:
    handled = _HANDLED | ({"repetition_penalty"} if sampler == SERVER else set())
    for name, default in defaults_of(type(config)).items():
        value = getattr(config, name)
        if name not in handled and value != default:
            allowed = (
                "our own filters need the whole vocabulary for it, so it must be off"
                if sampler == OWN
                else "no server is sent it, so it must be off"
            )
            raise ParameterError(name, value, allowed)
