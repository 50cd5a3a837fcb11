"""Decoding of untrusted sound files and arrays to mono float32.

Only WAV, FLAC, Ogg and MP3 are tried, detected from the content. Channels are averaged. A sound
with a peak above 1 is scaled down as a whole: clipping would distort it, and speech models ignore
loudness.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from engine.errors import ParameterError
from engine.media.bounded_files import Timed, size_of
from engine.media.sound import MAX_RATE, MIN_RATE
from engine.settings import SETTINGS

if TYPE_CHECKING:
    import numpy as np

_FORMATS = ("WAV", "WAVEX", "FLAC", "OGG", "MP3", "MPEG")
_CODINGS = ("PCM_", "FLOAT", "DOUBLE", "ULAW", "ALAW", "VORBIS", "OPUS", "MPEG_LAYER_")
_MAX_CHANNELS = 8
_LEAST_S = 0.01
_BLOCK = 65_536
"""Samples per channel in one decoded block."""
_UNKNOWN = 2**40
"""libsndfile reports more samples than this for a FLAC without a length."""
_RECORDING = "it must be a recording as WAV, FLAC, Ogg or MP3"
_DAMAGED = "it must be a recording as WAV, FLAC, Ogg or MP3 that is whole"
_ARRAY = "it must be (samples, rate), the samples floats of shape (n,) or (n, channels)"


def decoded(data: bytes) -> tuple[np.ndarray, int]:
    """Decode a sound file.

    A WAV shorter than its header says is accepted: programs that stream a WAV leave the length
    open.

    Args:
        data: content of the file, not empty.

    Returns:
        (samples, rate): float32 in [-1, 1] of shape (n,), and the sample rate in Hz.

    Raises:
        ParameterError: the file is no recording, is damaged, too long or too short, or has an
            unsupported rate, channel count or sample format.
    """
    import soundfile

    got = size_of(data)
    if not _sounds(data):
        raise ParameterError("audio", got, _RECORDING)
    file = Timed(data, SETTINGS.max_open_s)
    try:
        with soundfile.SoundFile(file) as recording:
            _check_coding(recording.format, recording.subtype)
            _check(recording.samplerate, recording.channels)
            return _read(recording, file), recording.samplerate
    except ParameterError:
        raise
    except Exception:  # damaged files make decoders raise any exception
        if file.late():
            raise _too_slow(got) from None
        raise ParameterError("audio", got, _DAMAGED) from None


def tidied(samples: Any, rate: Any) -> tuple[np.ndarray, int]:
    """Convert an array to the result of ``decoded``.

    Args:
        samples: shape (n,) or (n, channels); floats, or uint8, int16 or int32 over their full
            range.
        rate: sample rate in Hz.

    Raises:
        ParameterError: as for ``decoded``.
    """
    import numpy as np

    try:
        values, rate = np.asarray(samples), operator.index(rate)
    except Exception:  # an object may raise anything when it is converted to an array
        raise ParameterError("audio", type(samples).__name__, _ARRAY) from None
    known = values.dtype.kind == "f" or values.dtype.name in ("uint8", "int16", "int32")
    if values.ndim not in (1, 2) or not known:
        shape = "x".join(map(str, values.shape))
        raise ParameterError("audio", f"array of {shape} {values.dtype.name}", _ARRAY)
    _check(rate, values.shape[1] if values.ndim == 2 else 1)
    _check_length(len(values), rate)
    if values.dtype.kind != "f":
        info = np.iinfo(values.dtype)
        # Unsigned samples are centred on the middle of their range.
        middle = (info.max + info.min + 1) / 2
        values = (values - middle) / (info.max + 1 - middle)
    mono = values if values.ndim == 1 else values.mean(axis=1)
    return _within_one(mono), rate


def _sounds(data: bytes) -> bool:
    """Return True if the file begins with the signature of a supported format."""
    if data.startswith(b"RIFF"):
        return data[8:12] == b"WAVE"
    # An MPEG audio frame begins with eleven set bits.
    mpeg = len(data) > 1 and data[0] == 0xFF and data[1] & 0xE0 == 0xE0
    return mpeg or data.startswith((b"fLaC", b"OggS", b"ID3"))


def _check_coding(kind: str, coding: str) -> None:
    if kind not in _FORMATS:
        raise ParameterError("audio", kind, _RECORDING)
    if not coding.startswith(_CODINGS):
        allowed = "its samples must be PCM, floats, A-law or µ-law, or coded as FLAC, Ogg or MP3"
        raise ParameterError("audio", coding, allowed)


def _check(rate: int, channels: int) -> None:
    if not MIN_RATE <= rate <= MAX_RATE:
        allowed = f"{MIN_RATE} to {MAX_RATE} Hz"
        raise ParameterError("audio", f"{rate} Hz", allowed)
    if not 1 <= channels <= _MAX_CHANNELS:
        allowed = f"1 to {_MAX_CHANNELS} channels"
        raise ParameterError("audio", f"{channels} channels", allowed)


def _check_length(samples: int, rate: int) -> None:
    seconds = samples / rate
    if not _LEAST_S <= seconds <= SETTINGS.max_sound_s:
        allowed = f"{_LEAST_S:g} to {SETTINGS.max_sound_s:g} seconds"
        raise ParameterError("audio", f"{seconds:.3g} seconds", allowed)


def _read(recording: Any, file: Timed) -> np.ndarray:
    """Decode to mono, block by block, and stop after the allowed duration."""
    import numpy as np

    rate, said = recording.samplerate, recording.frames
    if said > _UNKNOWN:
        raise ParameterError("audio", size_of(file.getvalue()), "it must say how long it is")
    _check_length(said, rate)
    most, length, blocks = SETTINGS.max_sound_s * rate, 0, []
    while length <= most:
        block = recording.read(_BLOCK, dtype="float32", always_2d=True)
        if not len(block):
            break
        blocks.append(block.mean(axis=1))
        length += len(block)
    # After the time limit the file seemed to end; it may be whole.
    if file.late():
        raise _too_slow(size_of(file.getvalue()))
    if length < said:  # the recording breaks off
        raise ParameterError("audio", size_of(file.getvalue()), _DAMAGED)
    _check_length(length, rate)
    return _within_one(np.concatenate(blocks))


def _too_slow(got: str) -> ParameterError:
    return ParameterError(
        "audio", got, f"opening it may take at most {SETTINGS.max_open_s:g} seconds"
    )


def _within_one(samples: np.ndarray) -> np.ndarray:
    """Return a new float32 array of shape (n,), scaled into [-1, 1] if its peak is above 1."""
    import numpy as np

    peak = float(np.abs(samples).max())
    if not np.isfinite(peak):
        raise ParameterError("audio", f"{peak}", "every sample must be a finite number")
    return np.array(samples / peak if peak > 1 else samples, dtype=np.float32)
