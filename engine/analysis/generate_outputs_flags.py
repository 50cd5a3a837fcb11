"""Flags for transformers' outputs of a run, and checks that the run has such outputs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from engine.declare.params import build_config
from engine.errors import EngineError, ModelError, ParameterError
from engine.messages import Message
from engine.models.loading import LoadedModel
from engine.strategies import STRATEGIES
from engine.strategies.bundled_loops import find_capabilities, find_run_loop
from engine.trace.records import Trace
from engine.trace.served_checks import require_local_run
from engine.type_guards import is_mapping

_EARLY_FINISH_REASONS = ("cancelled", "error")


@dataclass(frozen=True, kw_only=True)
class OutputFlags:
    """Output flags with their names in generate(); at least one is set.

    Raises:
        ParameterError: a value is not a bool, or no flag is set.
    """

    output_scores: bool = True
    """For each step the logits after all logits processors, (rows, vocab) float32."""
    output_logits: bool = False
    """For each step the model's logits, (rows, vocab) float32."""
    output_hidden_states: bool = False
    """For each step and layer (rows, positions read, hidden)."""
    output_attentions: bool = False
    """For each step and layer (rows, heads, positions read, positions attended to)."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not isinstance(value, bool):
                raise ParameterError(name, value, "it must be true or false")
        if not any(asdict(self).values()):
            raise ParameterError(
                "output_scores",
                False,
                Message("at least one of {names} must be true", names=", ".join(asdict(self))),
            )

    def enabled_names(self) -> list[str]:
        """Return the names of the flags that are set."""
        return [name for name, value in asdict(self).items() if value]


def parse_flags(values: object) -> OutputFlags:
    """Return flags from a mapping of names to bools; missing names are False.

    Raises:
        ParameterError: a name is unknown, or see ``OutputFlags``.
    """
    known = [field.name for field in fields(OutputFlags)]
    if not is_mapping(values):
        raise ParameterError("flags", values, "it must be an object of names and true or false")
    for name in values:
        if name not in known:
            raise ParameterError(
                "flags", name, Message("it must be one of {choices}", choices=", ".join(known))
            )
    flags: dict[str, Any] = {name: values.get(name, False) for name in known}
    return OutputFlags(**flags)


def check_has_outputs(trace: Trace) -> None:
    """Check that transformers' generate() can produce outputs of a run.

    Raises:
        EngineError: it cannot; the message gives the reason.
    """
    require_local_run(trace)
    strategy = STRATEGIES.get(trace.strategy)
    if strategy is None:
        raise EngineError(
            "Nothing is known here of the strategy {strategy}.", strategy=repr(trace.strategy[:40])
        )
    if strategy.loop is None or trace.method is not None:
        raise EngineError(
            "A custom method decides in its own code, so transformers' generate() has no "
            "scores, hidden states or attentions for this run."
        )
    # A trace records a Python function as the text "<callable …>".
    if any(isinstance(v, str) and v.startswith("<callable") for v in trace.config.values()):
        raise EngineError(
            "A Python function decided what this run may write, and the recording does not "
            "contain it."
        )
    values = {name: value for name, value in trace.config.items() if value is not None}
    config = build_config(strategy.config, values, strategy.name)
    own = find_run_loop(strategy, config, trace, find_capabilities(trace.model.id))
    if own is not None:
        raise EngineError(
            "transformers' generate() cannot make this run, so it has no outputs: {why}.",
            why=own.why,
        )
    if not any(output.token_ids for output in trace.outputs):
        raise EngineError("The run wrote nothing, so it has no outputs.")


def check_model_matches(trace: Trace, loaded: LoadedModel) -> None:
    """Check that a model can be the one of a run.

    Raises:
        ModelError: its vocabulary size, layers or architecture differ, or generate() cannot draft
            for it.
    """
    own, strategy = trace.model, STRATEGIES[trace.strategy]
    if own.vocab_size and own.vocab_size != loaded.vocab_size:
        raise ModelError(
            "{name} has a vocabulary of {size} tokens and the run's model {own} one of "
            "{other}: it did not make this run.",
            name=loaded.name,
            size=loaded.vocab_size,
            own=own.id,
            other=own.vocab_size,
        )
    built = (own.layers or loaded.layers, own.is_encoder_decoder)
    if built != (loaded.layers, loaded.is_encoder_decoder):
        raise ModelError(
            "{name} is built otherwise than the run's model {own}: it did not make this run.",
            name=loaded.name,
            own=own.id,
        )
    can = loaded.capabilities
    if "rewind" in strategy.needs and not (can.has_cache and can.can_crop):
        raise ModelError(
            "{name} cannot take tokens back as generate() does it, so transformers does "
            "not draft for it and has no outputs of this run.",
            name=loaded.name,
        )


def is_ended_early(trace: Trace) -> bool:
    """Return whether a user or the time limit stopped a run before its texts had ended."""
    if any(output.finish_reason in _EARLY_FINISH_REASONS for output in trace.outputs):
        return True
    # "stop" stands for stop strings and for the limit of seconds alike.
    stopped = any(output.finish_reason == "stop" for output in trace.outputs)
    return stopped and not trace.config.get("stop_strings")


def count_passes(trace: Trace) -> int:
    """Return the number of decisions of generate(): one per token of the longest row or beam step.

    For a beam search whose steps are not in the trace, the metrics give the number of passes.
    """
    longest = max(len(output.token_ids) for output in trace.outputs)
    if trace.config.get("num_beams", 1) in (None, 1):
        return longest
    return max(longest, len(trace.steps) or int(trace.metrics.get("forward_passes", 0)))


def count_rows(trace: Trace) -> int:
    """Return the batch size of every pass of a run: the number of beams or of sequences."""
    beams = trace.config.get("num_beams") or 1
    return max(beams, trace.config.get("num_return_sequences") or 1)
