"""transformers' outputs made the plain way, and what two of them have in common."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from engine import DecodeRequest
from engine.analysis.generate_outputs_files import output_metadata, output_to_bytes
from engine.analysis.generate_outputs_flags import parse_flags
from engine.analysis.generate_outputs_sizes import output_file_size
from engine.models.loading import LoadedModel
from engine.trace.records import Trace
from tests.helpers.runs import finished

PROMPT = (5, 9, 11, 4, 5, 9, 11)
LENGTH = {"max_new_tokens": 9}
SCORES = {"output_scores": True, "output_logits": True}
EVERYTHING = {
    "output_scores": True,
    "output_logits": True,
    "output_hidden_states": True,
    "output_attentions": True,
}


def run_of(
    name: str,
    model: LoadedModel,
    ids: Sequence[int] = PROMPT,
    seed: int = 3,
    assistant: LoadedModel | None = None,
    **params: Any,
) -> Trace:
    """Return a run of a strategy, whose name may be followed by a comma and more."""
    strategy, ids = name.partition(",")[0], list(ids)
    return finished(
        DecodeRequest(strategy, model, input_ids=ids, params=params, seed=seed, assistant=assistant)
    )


def check_sized(
    trace: Trace, model: LoadedModel | None, flags: dict[str, bool], output: Any
) -> None:
    """Check that the size that is told is that of the file, within 1 %."""
    told = output_file_size(trace, model, flags)
    size = len(output_to_bytes(output, output_metadata(trace, parse_flags(flags))))
    assert told == pytest.approx(size, rel=0.01)


def native_output(
    loaded: LoadedModel,
    trace: Trace,
    flags: dict[str, bool],
    drafts: dict[str, Any] | None = None,
    assistant: Any = None,
    **kwargs: Any,
) -> Any:
    """Return what ``model.generate(..., return_dict_in_generate=True, **flags)`` returns of a run.

    Args:
        loaded: its model, of which a whole copy generates.
        trace: says the prompt and the seed.
        flags: of generate().
        drafts: what transformers reads from the drafting model's own generation configuration.
        assistant: the drafting model.
        kwargs: how generate() is called besides.
    """
    model = copy.deepcopy(loaded.model)
    if flags.get("output_attentions"):
        model.set_attn_implementation("eager")
    owner = copy.deepcopy(assistant) if assistant is not None else model
    for name, value in (drafts or {}).items():
        setattr(owner.generation_config, name, value)
    extra = {} if assistant is None else {"assistant_model": owner}
    prompt = torch.tensor([list(trace.prompt_ids)])
    with torch.random.fork_rng():
        torch.manual_seed(trace.seed)
        return model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            return_dict_in_generate=True,
            **flags,
            **extra,
            **kwargs,
        )


def differs(ours: Any, theirs: Any) -> list[str]:
    """Return the names of the fields in which two output objects are not the same, the cache apart."""
    if type(ours) is not type(theirs):
        return [f"{type(ours).__name__} and {type(theirs).__name__}"]
    names = set(ours.keys()) | set(theirs.keys())
    return sorted(
        name
        for name in names - {"past_key_values"}
        if not equal(getattr(ours, name), getattr(theirs, name))
    )


def equal(one: Any, other: Any) -> bool:
    """Return whether tensors, or nested tuples of them, are equal in shape, kind and every number."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return one is None and other is None
