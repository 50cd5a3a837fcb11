"""Positions of a model's input: tokens, patches of a picture, or frames of a sound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel

TEXT, ENCODER, PATCHES, FRAMES = "text", "encoder", "patches", "frames"
"""The decoder's tokens; the encoder's tokens; parts of a picture; parts of a sound."""
_SOUND_INPUTS = ("input_features", "input_values")
_PLACEHOLDER_NAMES = ("image_token_id", "image_token_index", "audio_token_id", "audio_token_index")
_MAX_MERGE = 64
_SAMPLE_RATE = 16_000


@dataclass(frozen=True)
class Positions:
    """The positions that a row of numbers belongs to, in order.

    Attributes:
        source: TEXT, ENCODER, PATCHES or FRAMES.
        count: number of positions.
        ids: token ids, one per position; empty for patches and frames.
        pieces: texts of the tokens.
        grid: (rows, columns) of patches, in row-major order.
        leading: positions before the first patch that represent no part of the picture.
        frame_s: seconds of sound per position, None if unknown.
        picture: TEXT: (first, rows, columns) of the prompt tokens that represent a picture's parts.
    """

    source: str
    count: int
    ids: tuple[int, ...] = ()
    pieces: tuple[str, ...] = ()
    grid: tuple[int, int] | None = None
    leading: int = 0
    frame_s: float | None = None
    picture: tuple[int, int, int] | None = None

    @property
    def starts(self) -> tuple[float, ...]:
        """(count,) start of each part of a sound, seconds; empty if unknown."""
        if self.frame_s is None:
            return ()
        return tuple(round(place * self.frame_s, 3) for place in range(self.count))


def text_positions(loaded: LoadedModel, ids: Sequence[int], source: str = TEXT) -> Positions:
    """Return the positions of token ids."""
    found = tuple(int(i) for i in ids)
    pieces = tuple(loaded.pieces[i] for i in found)
    picture = _find_picture(loaded, found) if source == TEXT else None
    return Positions(source, len(found), found, pieces, picture=picture)


def encoder_positions(
    loaded: LoadedModel, inputs: Mapping[str, torch.Tensor], length: int
) -> Positions:
    """Return the positions of an encoder's output.

    Args:
        loaded: the LoadedModel.
        inputs: keyword arguments of the pass.
        length: length of the encoder's output.
    """
    if "input_ids" in inputs and inputs["input_ids"].shape[1] == length:
        return text_positions(loaded, inputs["input_ids"][0].tolist(), ENCODER)
    if "pixel_values" in inputs:
        grid = _patch_grid(loaded.model.config, inputs["pixel_values"].shape, length)
        leading = 0 if grid is None else length - grid[0] * grid[1]
        return Positions(PATCHES, length, grid=grid, leading=leading)
    return Positions(FRAMES, length, frame_s=_frame_seconds(loaded))


def find_sound_input(inputs: Mapping[str, torch.Tensor]) -> str | None:
    """Return the name of the input that holds a sound, None for none."""
    return next((name for name in _SOUND_INPUTS if name in inputs), None)


def placeholder_ids(loaded: LoadedModel) -> frozenset[int]:
    """Return the prompt's token ids that are placeholders for a picture or a sound."""
    config = loaded.model.config
    found = (getattr(config, name, None) for name in _PLACEHOLDER_NAMES)
    return frozenset(i for i in found if isinstance(i, int))


def _patch_grid(config: Any, shape: Sequence[int], length: int) -> tuple[int, int] | None:
    """Return rows and columns of an encoder's patches; encoders that merge patches have fewer."""
    own = [getattr(config, name, None) for name in ("encoder", "vision_config")]
    size = next((s for c in (*own, config) if (s := getattr(c, "patch_size", None))), None)
    if size is None:
        return None
    high, wide = size if isinstance(size, (list, tuple)) else (size, size)
    # Encoders that merge patches take squares of 2 x 2, 4 x 4 and so on.
    merged = 1
    while merged <= _MAX_MERGE:
        rows, columns = shape[-2] // (high * merged), shape[-1] // (wide * merged)
        if 0 < rows * columns <= length:
            return rows, columns
        merged *= 2
    return None


def _frame_seconds(loaded: LoadedModel) -> float | None:
    """Return the seconds of sound that one encoder position covers."""
    config = loaded.model.config
    if config.model_type == "whisper":
        # Whisper's second convolution halves the frames of the log-mel spectrogram.
        assert loaded.reader is not None  # a run of Whisper has a sound
        sounds = loaded.reader.processors.sounds
        return 2 * sounds.hop_length / sounds.sampling_rate
    own = getattr(config, "encoder", config)
    samples = getattr(own, "inputs_to_logits_ratio", None)
    return None if samples is None else samples / _SAMPLE_RATE


def _find_picture(loaded: LoadedModel, ids: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return the position and size of a picture's tokens, if they form one square."""
    placeholders = placeholder_ids(loaded)
    places = [place for place, i in enumerate(ids) if i in placeholders]
    side = math.isqrt(len(places))
    if not places or side * side != len(places) or places[-1] - places[0] + 1 != len(places):
        return None
    return places[0], side, side
