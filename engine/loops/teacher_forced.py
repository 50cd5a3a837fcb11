"""One teacher-forced pass over a given text: the model's logits at every position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch

from engine.errors import ModelError
from engine.model_code import FORWARD_PASS, ModelCall
from engine.models.capabilities import computes_exactly
from engine.models.readers.token_type_padding import pad_token_types

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel


NOT_CAUSAL = (
    "A later token changes what {name} says of an earlier place, so one pass over a text cannot score its "
    "tokens."
)
_PROBE_LENGTH = 8
_TOLERANCE, _ROUGH_TOLERANCE = 1e-3, 0.1
"""Shares of the largest logit by which passes over equal beginnings may differ."""
_CAUSAL: WeakKeyDictionary[LoadedModel, bool] = WeakKeyDictionary()


@dataclass(frozen=True)
class TeacherForcedPass:
    """The outputs of a teacher-forced pass.

    Attributes:
        logits: (new, vocab) in the model's precision; row i predicts new token i.
        states: (new, hidden) of the embedding output and every layer, if requested.
        before: decoder ids before the text: the prompt, or the decoder start token.
    """

    logits: torch.Tensor
    states: tuple[torch.Tensor, ...]
    before: tuple[int, ...]


@ModelCall(FORWARD_PASS)
def run_teacher_forced(
    loaded: LoadedModel,
    prompt_ids: Sequence[int],
    new_ids: Sequence[int],
    *,
    states: bool = False,
    media_inputs: Mapping[str, torch.Tensor] | None = None,
) -> TeacherForcedPass:
    """Run one forward pass over a text without a cache.

    Args:
        loaded: the LoadedModel; an encoder-decoder model encodes the prompt.
        prompt_ids: at least one id.
        new_ids: at least one id.
        states: also return the hidden states of a decoder-only model.
        media_inputs: see ``teacher_forced_inputs``.

    Raises:
        ModelError: the model is not causal.
    """
    if len(new_ids) > 1 and not is_causal(loaded):
        raise ModelError(NOT_CAUSAL, name=loaded.name)
    inputs = teacher_forced_inputs(loaded, prompt_ids, new_ids, media_inputs)
    out = loaded.model(**inputs, use_cache=False, output_hidden_states=states)
    before = decoder_prefix_ids(loaded, prompt_ids, media_inputs)
    # The logits at a position predict the next one.
    first = len(before) - 1
    layers = tuple(state[0, first:] for state in out.hidden_states) if states else ()
    return TeacherForcedPass(out.logits[0, first:], layers, tuple(before))


def is_causal(loaded: LoadedModel) -> bool:
    """Return False if a later token changes an earlier logit, as in a model that fills masks.

    Every step may also read a token that generate() adds and the next step replaces, such as a mask.
    One pass over a text then says nothing of the steps that wrote it. Measured on first use, with two
    short passes; the caller must have its turn.

    Args:
        loaded: the LoadedModel; one that needs a picture or a sound counts as causal.
    """
    if loaded not in _CAUSAL:
        _CAUSAL[loaded] = loaded.capabilities.needs is not None or _measure_causality(loaded)
    return _CAUSAL[loaded]


def _measure_causality(loaded: LoadedModel) -> bool:
    count = min(_PROBE_LENGTH, loaded.context_length or _PROBE_LENGTH)
    size = loaded.vocab_size
    ids = [(1 + i % max(1, size - 1)) % size for i in range(count)]
    passes: list[torch.Tensor] = []
    try:
        if not loaded.is_encoder_decoder and _reads_more_than(loaded, ids):
            return False
        with torch.no_grad():
            for last in (ids[0], ids[1]):
                # The last new id is no input, so the one before it differs.
                inputs = teacher_forced_inputs(loaded, ids[:1], [*ids[1:-1], last, last])
                passes.append(loaded.model(**inputs, use_cache=False).logits[0, :-1].float())
    except Exception:
        # What such a model cannot do shows in the run itself, with a better sentence.
        return True
    one, other = passes
    tolerance = _TOLERANCE if computes_exactly(loaded.model) else _ROUGH_TOLERANCE
    return not bool((one - other).abs().max() > tolerance * one.abs().max())


def _reads_more_than(loaded: LoadedModel, ids: list[int]) -> bool:
    """Return whether generate() adds tokens of its own to a step's input."""
    given = torch.tensor([ids], device=loaded.device)
    inputs = loaded.model.prepare_inputs_for_generation(
        given, attention_mask=torch.ones_like(given), use_cache=False, is_first_iteration=True
    )
    read = inputs.get("input_ids")
    return read is not None and read.shape[1] > given.shape[1]


def teacher_forced_inputs(
    loaded: LoadedModel,
    prompt_ids: Sequence[int],
    new_ids: Sequence[int],
    media_inputs: Mapping[str, torch.Tensor] | None = None,
) -> dict[str, Any]:
    """Return the model inputs of the pass that predicts every new id, batch size 1.

    The last new id is predicted but not an input.

    Args:
        loaded: the LoadedModel.
        prompt_ids: at least one id; with an image or audio encoder, the decoder's first ids.
        new_ids: at least one id.
        media_inputs: further inputs by transformers' names, such as pixel_values.
    """
    device = loaded.device
    before = decoder_prefix_ids(loaded, prompt_ids, media_inputs)
    ids = torch.tensor([[*before, *new_ids[:-1]]], device=device)
    found = {name: value.to(device) for name, value in (media_inputs or {}).items()}
    media = pad_token_types(found, ids.shape[1])
    if not loaded.model.config.is_encoder_decoder:
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **media}
    if not _has_text_encoder(loaded, media):
        return {"decoder_input_ids": ids, **media}
    read = torch.tensor([list(prompt_ids)], device=device)
    mask = torch.ones_like(read)
    return {"input_ids": read, "attention_mask": mask, "decoder_input_ids": ids, **media}


def decoder_prefix_ids(
    loaded: LoadedModel,
    prompt_ids: Sequence[int],
    media_inputs: Mapping[str, torch.Tensor] | None = None,
) -> list[int]:
    """Return the decoder ids before an output: the prompt, or the decoder start token."""
    if not _has_text_encoder(loaded, media_inputs):
        return list(prompt_ids)
    own = (loaded.model.generation_config, loaded.model.config)
    # In the order of generate().
    names = ("decoder_start_token_id", "bos_token_id")
    found = (getattr(config, name, None) for name in names for config in own)
    return [next(start for start in found if start is not None)]


def _has_text_encoder(loaded: LoadedModel, media_inputs: Mapping[str, torch.Tensor] | None) -> bool:
    """Return whether an encoder reads the prompt ids, not an image or sound."""
    main = getattr(loaded.model, "main_input_name", "input_ids")
    return loaded.is_encoder_decoder and main not in (media_inputs or {})
