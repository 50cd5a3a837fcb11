"""Leave-one-out: the token's exact log-probability without each position of its text."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from engine.errors import Cancelled
from engine.inspection.attribution import INPUT, OUTPUT, Attribution, PositionScores
from engine.inspection.influence_methods import LEAVE_ONE_OUT
from engine.inspection.positions import (
    FRAMES,
    PATCHES,
    Positions,
    encoder_positions,
    find_sound_input,
    placeholder_ids,
    text_positions,
)
from engine.inspection.target_token import TargetToken
from engine.loops.teacher_forced import teacher_forced_inputs
from engine.messages import Message
from engine.model_code import FORWARD_PASS, ModelCall
from engine.models.model_types import Outputs
from engine.settings import SETTINGS
from engine.timing_noise import work_time

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel

CAVEAT = "Without a token the text is one that nobody wrote, and what two tokens say together, neither shows alone."
MEDIA_CAVEAT = (
    "With a part painted over, the input is one that nobody gave, and what two parts show together, "
    "neither shows alone."
)
_FLOAT_BYTES = 4


@dataclass(frozen=True)
class _InputPart:
    """An input whose positions are left out one at a time.

    Attributes:
        kind: INPUT or OUTPUT.
        name: name among the keyword arguments of the pass.
        positions: all positions of the input.
        places: positions that can be left out, in the order in which they are tried.
        inputs: keyword arguments of a pass with one row.
    """

    kind: str
    name: str
    positions: Positions
    places: tuple[int, ...]
    inputs: Mapping[str, Any]

    def without_each(self, places: Sequence[int]) -> dict[str, Any]:
        """Return keyword arguments with one row per place, each without that place."""
        value, rows = self.inputs[self.name], len(places)
        changed: dict[str, Any] = {self.name: self._remove_positions(value, places)}
        if self.name == "input_ids":
            # The rows are shorter by one token, so the old mask does not fit.
            changed["attention_mask"] = torch.ones_like(changed[self.name])
        others = {n: _repeat_row(n, v, rows) for n, v in self.inputs.items() if n not in changed}
        return {**others, **changed}

    def _remove_positions(self, value: torch.Tensor, places: Sequence[int]) -> torch.Tensor:
        if self.positions.source == PATCHES:
            return torch.cat([_paint_patch(value, self.positions, place) for place in places])
        if self.positions.source == FRAMES:
            return torch.cat(
                [_silence_part(value, self.positions.count, place) for place in places]
            )
        # Deleted, not masked: a mask or unknown token would have its own effect.
        ids = value[0]
        kept = [torch.cat([ids[:place], ids[place + 1 :]]) for place in places]
        return torch.stack(kept)


def compute_leave_one_out(
    loaded: LoadedModel,
    decided: TargetToken,
    media_inputs: Mapping[str, torch.Tensor] | None = None,
    cancelled: threading.Event | None = None,
) -> Attribution:
    """Return how far a token's log-probability falls without each position of its text.

    A token is deleted and the others close up, in the encoder's text and in the decoder's. The
    decoder's start token and picture placeholders stay. A part of a picture becomes the picture's
    mean, a part of a sound its quietest value. Positions are tried from the end, as many per pass
    as the limits allow, until ``max_asking_s`` is over.

    Args:
        loaded: the LoadedModel; the caller must have its turn, see ``scheduler.wait_for_turn``.
        decided: the token and its text.
        media_inputs: see ``teacher_forced_inputs``.
        cancelled: stops the computation when set.

    Raises:
        Cancelled: ``cancelled`` was set.
    """
    started = work_time()
    new = [*decided.before, decided.token_id]
    inputs = teacher_forced_inputs(loaded, decided.prompt_ids, new, media_inputs)
    with torch.inference_mode():
        with ModelCall(FORWARD_PASS):
            out = loaded.model(**inputs, use_cache=False)
        whole = _last_logprobs(out.logits, decided.token_id)[0]
        parts = _input_parts(loaded, inputs, out)
        scored, done = [], 0
        for number, part in enumerate(parts, 1):
            # An equal share of the time, plus what earlier parts left over.
            until = started + SETTINGS.max_asking_s * number / len(parts)
            values = _score_without_each(loaded, part, decided.token_id, whole, until, cancelled)
            done += sum(value is not None for value in values)
            scored.append(PositionScores(part.kind, part.positions, values))
    total = sum(len(part.places) for part in parts)
    note = "" if done == total else _partial_note(done, total)
    caveat = MEDIA_CAVEAT if media_inputs else CAVEAT
    token = decided.token_id
    piece = loaded.pieces[token]
    return Attribution(LEAVE_ONE_OUT, token, piece, whole, tuple(scored), caveat, note)


def _partial_note(done: int, total: int) -> str:
    return Message(
        "Only {done} of {wanted} positions were left out, from the end: a question "
        "may take {seconds} seconds.",
        done=done,
        wanted=total,
        seconds=f"{SETTINGS.max_asking_s:g}",
    )


@ModelCall(FORWARD_PASS)
def _score_without_each(
    loaded: LoadedModel,
    part: _InputPart,
    token_id: int,
    whole: float,
    until: float,
    cancelled: threading.Event | None,
) -> tuple[float | None, ...]:
    """Return by position how far the log-probability falls, None if it was not tried."""
    values: list[float | None] = [None] * part.positions.count
    # Without this argument a pass returns logits for all positions, which limits the rows.
    few = "logits_to_keep" in inspect.signature(loaded.model.forward).parameters
    for places in _split_batches(part.places, _max_rows(loaded, part, few)):
        if cancelled is not None and cancelled.is_set():
            raise Cancelled
        if work_time() > until:
            break
        inputs = part.without_each(places)
        if few:
            inputs["logits_to_keep"] = 1
        out = loaded.model(**inputs, use_cache=False)
        for place, without in zip(places, _last_logprobs(out.logits, token_id), strict=True):
            values[place] = whole - without
    return tuple(values)


def _split_batches(places: Sequence[int], size: int) -> Iterable[Sequence[int]]:
    return (places[start : start + size] for start in range(0, len(places), size))


def _max_rows(loaded: LoadedModel, part: _InputPart, few: bool) -> int:
    """Return the number of texts per pass."""
    if part.positions.source in (PATCHES, FRAMES):
        return SETTINGS.max_asking_pictures
    # Each text is one position shorter.
    length = max(1, part.positions.count - 1)
    rows = SETTINGS.max_asking_positions // length
    if not few:
        logits = length * loaded.vocab_size * _FLOAT_BYTES
        rows = min(rows, SETTINGS.max_attention_bytes // logits)
    return max(1, rows)


def _last_logprobs(logits: torch.Tensor, token_id: int) -> list[float]:
    """Return the token's log-probability at the end of each row."""
    # Double precision: the differences of nearly equal numbers are what counts.
    return torch.log_softmax(logits[:, -1].double(), -1)[:, token_id].tolist()


def _input_parts(
    loaded: LoadedModel, inputs: Mapping[str, torch.Tensor], out: Outputs
) -> list[_InputPart]:
    text = inputs.get("decoder_input_ids")
    if text is None:
        own = _text_part(loaded, OUTPUT, "input_ids", inputs)
        pixels = inputs.get("pixel_values")
        if own.positions.picture is None or pixels is None or pixels.dim() != 4:
            return [own]
        return [_picture_part(own.positions.picture[1:], inputs), own]
    encoded = out.encoder_last_hidden_state
    if "input_ids" in inputs:
        first = _text_part(loaded, INPUT, "input_ids", inputs)
    else:
        first = _media_part(loaded, inputs, encoded.shape[1])
    given: Mapping[str, Any] = inputs
    if "input_ids" not in inputs:
        # Only the decoder's text changes here, so a picture or sound is encoded once.
        given = {"decoder_input_ids": text, "encoder_outputs": encoded}
    second = _text_part(loaded, OUTPUT, "decoder_input_ids", given)
    return [second] if first is None else [first, second]


def _text_part(loaded: LoadedModel, kind: str, name: str, inputs: Mapping[str, Any]) -> _InputPart:
    ids = inputs[name][0].tolist()
    positions = text_positions(loaded, ids, "encoder" if kind == INPUT else "text")
    # The decoder's start token stays, as the decoder never reads a text without it.
    first = 1 if name == "decoder_input_ids" else 0
    placeholders = placeholder_ids(loaded)
    # Placeholders stand for a picture, whose patches are a part of their own.
    places = [place for place in range(first, len(ids)) if ids[place] not in placeholders]
    if len(ids) < 2:
        places = []
    # From the end: if time runs out, the positions next to the token have been tried.
    return _InputPart(kind, name, positions, tuple(reversed(places)), inputs)


def _media_part(
    loaded: LoadedModel, inputs: Mapping[str, torch.Tensor], length: int
) -> _InputPart | None:
    """Return the parts of a picture or a sound, few enough to try each one."""
    whole = encoder_positions(loaded, inputs, length)
    name = find_sound_input(inputs)
    if name is not None:
        count = min(length, SETTINGS.max_left_out_parts)
        frame_s = None if whole.frame_s is None else whole.frame_s * length / count
        positions = Positions(FRAMES, count, frame_s=frame_s)
        return _InputPart(INPUT, name, positions, tuple(reversed(range(count))), inputs)
    return None if whole.grid is None else _picture_part(whole.grid, inputs)


def _picture_part(grid: tuple[int, int], inputs: Mapping[str, torch.Tensor]) -> _InputPart:
    rows, columns = _coarsen_grid(grid, SETTINGS.max_left_out_parts)
    positions = Positions(PATCHES, rows * columns, grid=(rows, columns))
    places = tuple(reversed(range(positions.count)))
    return _InputPart(INPUT, "pixel_values", positions, places, inputs)


def _coarsen_grid(grid: tuple[int, int], most: int) -> tuple[int, int]:
    """Return rows and columns of the grid, merged into at most ``most`` square blocks."""
    block = 1
    while -(-grid[0] // block) * -(-grid[1] // block) > most:
        block += 1
    return -(-grid[0] // block), -(-grid[1] // block)


def _paint_patch(values: torch.Tensor, positions: Positions, place: int) -> torch.Tensor:
    """Return (1, channels, height, width) picture with one part in its mean colour."""
    assert positions.grid is not None
    rows, columns = positions.grid
    row, column = divmod(place, columns)
    painted = values.clone()
    tall, wide = values.shape[-2], values.shape[-1]
    high = slice(row * tall // rows, (row + 1) * tall // rows)
    broad = slice(column * wide // columns, (column + 1) * wide // columns)
    painted[..., high, broad] = values.mean(dim=(-2, -1), keepdim=True)
    return painted


def _silence_part(values: torch.Tensor, count: int, place: int) -> torch.Tensor:
    """Return a sound, time last, with one of ``count`` parts as quiet as possible."""
    length = values.shape[-1]
    part = slice(place * length // count, (place + 1) * length // count)
    silenced = values.clone()
    # Log-mel features have a floor; samples of a wave are silent at 0.
    silenced[..., part] = values.min() if values.dim() > 2 else 0.0
    return silenced


def _repeat_row(name: str, value: torch.Tensor, rows: int) -> Any:
    """Repeat a one-row argument for several rows."""
    from transformers.modeling_outputs import BaseModelOutput

    many: Any = torch.cat([value] * rows)
    return BaseModelOutput(last_hidden_state=many) if name == "encoder_outputs" else many
