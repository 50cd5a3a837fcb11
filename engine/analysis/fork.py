"""Continue a recorded run from any step with another token or with typed text.

A branch is an ordinary run whose prompt is given as ids: the parent's prompt, the kept tokens of
its text, and the added token or text. The parent's ids are not tokenized again, so a branch equals
a new run on these ids. A typed text is tokenized as a continuation of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.declare.params import defaults_of, params_of
from engine.declare.special_tokens import TEXT
from engine.declare.weights import ASSISTANT_PREFIX
from engine.errors import EngineError, ParameterError
from engine.messages import Message
from engine.models.model_types import Tokenizer
from engine.models.special_tokens import encode_continuation, find_special_tokens
from engine.models.text import decode_ids
from engine.run.media_request import load_media_fields
from engine.run.prompt_request import default_special_tokens
from engine.run.request import DecodeRequest
from engine.run.weights import drop_loaded_weights, weights_from_trace
from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from engine.strategies.base import Strategy
from engine.strategies.shared_params import NextTokenParams
from engine.trace.details import BeamDetail, BeamNode
from engine.trace.filling import FillDetail
from engine.trace.records import (
    Parent,
    Step,
    Trace,
    check_step_index,
    chosen_emit_index,
    replay_ids,
)
from engine.trace.served_checks import require_local_run

if TYPE_CHECKING:
    from engine.run.weights import RequestedModel


@dataclass(frozen=True)
class BranchPoint:
    """A position in a run from which a branch can continue.

    Attributes:
        prompt_ids: the run's prompt.
        kept_ids: its new tokens before the position.
        step: index of the step that decided the position.
        run_id: name of the run, "" if it has none.
        end_ids: end-of-sequence ids, after which nothing can follow.
        vocab_size: number of token ids of the model.
        earlier: number of tokens at the end of the prompt that earlier branches had added.
        special_tokens: how the run reads special tokens that a text spells.
    """

    prompt_ids: Sequence[int]
    kept_ids: Sequence[int]
    step: int
    run_id: str = ""
    end_ids: Sequence[int] = ()
    vocab_size: int | None = None
    earlier: int = 0
    special_tokens: str = TEXT


@dataclass(frozen=True)
class Branch:
    """The prompt ids of a branch and a reference to its parent."""

    input_ids: tuple[int, ...]
    parent: Parent
    special_tokens: str | None = None
    """How the special tokens were read that its typed text spells, None if it spells none."""


def branch_point(
    trace: Trace, step: object, *, node_id: int | None = None, run_id: str = ""
) -> BranchPoint:
    """Return the position that a step decided; it keeps all tokens before the step's last one.

    Args:
        trace: the run.
        step: index of the step, from 0.
        node_id: beam search only: a node of the step's pool whose path is kept. None is the best
            node of the pool.
        run_id: name of the run, which the branch records as its parent.

    Raises:
        ParameterError: the step or node does not exist, or the model is an encoder-decoder.
    """
    require_local_run(trace)
    if trace.model.is_encoder_decoder:
        raise ParameterError(
            "model", trace.model.id, "only decoder-only runs can be continued from a step"
        )
    index = check_step_index(trace.steps, step)
    found = trace.steps[index]
    if isinstance(found.detail, FillDetail):
        raise ParameterError("step", step, "a text that is filled in any order has no branches")
    if isinstance(found.detail, BeamDetail):
        kept = _path_before(trace, found, found.detail, node_id)
    elif node_id is not None:
        raise ParameterError("node_id", node_id, "only beam searches have nodes")
    else:
        before = tuple(s for s in trace.steps[:index] if s.sequence == found.sequence)
        kept = [*replay_ids(before)[: found.keep], *found.emit[: max(chosen_emit_index(found), 0)]]
    vocab = trace.model.vocab_size or None
    earlier = 0 if trace.parent is None else trace.parent.written
    usual = default_special_tokens(chat=trace.messages is not None)
    return BranchPoint(
        trace.prompt_ids,
        kept,
        index,
        run_id,
        trace.eos_token_ids,
        vocab,
        earlier,
        str(trace.config.get("special_tokens") or usual),
    )


def _path_before(trace: Trace, step: Step, detail: BeamDetail, node_id: int | None) -> list[int]:
    nodes: dict[int, BeamNode] = {
        node.node_id: node
        for earlier in trace.steps[: step.index + 1]
        if isinstance(earlier.detail, BeamDetail)
        for node in earlier.detail.pool
    }
    pool = {node.node_id: node for node in detail.pool}
    node = min(detail.pool, key=lambda n: n.rank) if node_id is None else pool.get(node_id)
    if node is None:
        raise ParameterError(
            "node_id",
            node_id,
            Message("step {index} has no such node in its pool", index=step.index),
        )
    path: list[int] = []
    while (node := nodes.get(node.parent_id)) is not None:
        path.append(node.token_id)
    return path[::-1]


def make_branch(
    place: BranchPoint,
    *,
    token_id: object = None,
    text: str | None = None,
    tokenizer: Tokenizer | None = None,
    special_tokens: object = None,
) -> Branch:
    """Append a token or a text at a branch point.

    Args:
        place: the branch point, see ``branch_point``.
        token_id: a token of the model's vocabulary; give either this or `text`.
        text: 1 to PLAYGROUND_MAX_PROMPT_CHARS characters, tokenized as a continuation; earlier ids
            stay the same.
        tokenizer: required for `text`.
        special_tokens: how special tokens are read that `text` spells; None is the run's way.

    Raises:
        ParameterError: the token is invalid or ends the text, or the text is empty or tokenless.
    """
    if (token_id is None) == (text is None):
        raise ParameterError("token_id", token_id, "give exactly one of token_id and text")
    before = (*place.prompt_ids, *place.kept_ids)
    reading = None
    if text is None:
        added = (_check_token(token_id, place),)
    else:
        checked = _check_typed_text(text, tokenizer)
        reading = place.special_tokens if special_tokens is None else special_tokens
        params_of(NextTokenParams)["special_tokens"].check("special_tokens", reading)
        added = _encode_typed_text(text, checked, before, str(reading))
        reading = str(reading) if find_special_tokens(checked, text) else None
    kept = len(place.kept_ids)
    parent = Parent(place.run_id, place.step, kept, added, text, place.earlier)
    return Branch((*before, *added), parent, reading)


def _check_token(token_id: object, place: BranchPoint) -> int:
    limit = place.vocab_size
    allowed = "a token id of the model"
    if limit:
        allowed = Message("a token id of the model, 0 to {last}", last=limit - 1)
    if not isinstance(token_id, int) or isinstance(token_id, bool) or token_id < 0:
        raise ParameterError("token_id", token_id, Message("it must be {range}", range=allowed))
    if limit and token_id >= limit:
        raise ParameterError("token_id", token_id, Message("it must be {range}", range=allowed))
    if token_id in place.end_ids:
        raise ParameterError("token_id", token_id, "it ends the text: nothing can follow it")
    return token_id


def _check_typed_text(text: object, tokenizer: Tokenizer | None) -> Tokenizer:
    """Return the tokenizer of a typed text, once both are known to be usable."""
    limit = SETTINGS.max_prompt_chars
    if not isinstance(text, str) or not 1 <= len(text) <= limit:
        raise ParameterError("text", text, Message("write 1 to {limit} characters", limit=limit))
    try:
        # JSON can hold half a surrogate pair, which no tokenizer takes.
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ParameterError("text", "", "it holds half a surrogate pair") from None
    if tokenizer is None:
        raise ParameterError("text", text, "the model has no tokenizer: give a token_id")
    return tokenizer


def _encode_typed_text(
    text: str, tokenizer: Tokenizer, before: Sequence[int], special_tokens: str
) -> tuple[int, ...]:
    ids = encode_continuation(tokenizer, text, decode_ids(tokenizer, before), special_tokens)
    if not ids:
        raise ParameterError("text", text, "it has no tokens; write something")
    return tuple(ids)


def shared_params(config: Mapping[str, object], strategy: Strategy) -> dict[str, object]:
    """Return a run's settings that a strategy also has and that differ from its defaults.

    Args:
        config: ``Trace.config``.
        strategy: the strategy of the branch; may differ from the run's.
    """
    kinds, defaults = params_of(strategy.config), defaults_of(strategy.config)
    shared: dict[str, object] = {}
    for name, value in config.items():
        if name not in kinds or value is None:
            continue
        try:
            # The other strategy may allow fewer values; then its own default holds.
            checked = kinds[name].check(name, value)
        except EngineError:
            continue
        if checked != defaults[name]:
            shared[name] = value
    return shared


def branch_request(
    trace: Trace,
    made: Branch,
    strategy: str | None = None,
    *,
    model: RequestedModel = None,
    params: Mapping[str, object] | None = None,
    seed: int | None = None,
    assistant: RequestedModel = None,
    weights: Mapping[str, object] | None = None,
) -> DecodeRequest:
    """Return the request of a branch; arguments that are None are copied from the parent.

    Args:
        trace: the parent.
        made: the branch, see ``make_branch``.
        strategy: a name of STRATEGIES; a different one inherits the settings that both have.
        model: a different model must have the same vocabulary.
        params: parameters of the strategy.
        seed: the seed.
        assistant: draft model; copied only if the strategy is the same.
        weights: weight format, see ``DecodeRequest``.

    Raises:
        ParameterError: the strategy does not exist.
    """
    name = trace.strategy if strategy is None else strategy
    if name not in STRATEGIES:
        raise ParameterError(
            "strategy", name, Message("it must be one of {choices}", choices=", ".join(STRATEGIES))
        )
    if assistant is None and name == trace.strategy and trace.assistant is not None:
        assistant = trace.assistant.id
    drafted = STRATEGIES[name].assistant != "none"
    given = shared_params(trace.config, STRATEGIES[name]) if params is None else dict(params)
    if made.special_tokens is not None:
        given["special_tokens"] = made.special_tokens
    held = weights_from_trace(trace) if weights is None else weights
    if weights is None:
        # A strategy without a draft model refuses settings for its weights.
        held = {n: v for n, v in held.items() if drafted or not n.startswith(ASSISTANT_PREFIX)}
    return DecodeRequest(
        name,
        trace.model.id if model is None else model,
        weights=drop_loaded_weights(held, model, assistant),
        input_ids=list(made.input_ids),
        params=given,
        seed=trace.seed if seed is None else seed,
        assistant=assistant,
        parent=made.parent,
        **load_media_fields(trace),
    )
