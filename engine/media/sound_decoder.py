"""Decoding of untrusted sound files and arrays to mono float32.

Only WAV, FLAC, Ogg and MP3 are tried, detected from the content. Channels are averaged. A sound
with a peak above 1 is scaled down as a whole: clipping would distort it, and speech models ignore
loudness.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from engine.errors import ParameterError
from engine.media.bounded_files import TimedFile, size_label
from engine.media.sound import MAX_RATE, MIN_RATE
from engine.messages import Message
from engine.settings import SETTINGS

if TYPE_CHECKING:
    import numpy as np

_FORMATS = ("WAV", "WAVEX", "FLAC", "OGG", "MP3", "MPEG")
_CODINGS = ("PCM_", "FLOAT", "DOUBLE", "ULAW", "ALAW", "VORBIS", "OPUS", "MPEG_LAYER_")
_MAX_CHANNELS = 8
_MIN_SECONDS = 0.01
_BLOCK_SAMPLES = 65_536
"""Samples per channel in one decoded block."""
_UNKNOWN_LENGTH = 2**40
"""libsndfile reports more samples than this for a FLAC without a length."""
_FORMAT_MESSAGE = "it must be a recording as WAV, FLAC, Ogg or MP3"
_DAMAGED_MESSAGE = "it must be a recording as WAV, FLAC, Ogg or MP3 that is whole"
_ARRAY_MESSAGE = "it must be (samples, rate), the samples floats of shape (n,) or (n, channels)"


def decode_sound(data: bytes) -> tuple[np.ndarray, int]:
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

    got = size_label(data)
    if not _has_sound_signature(data):
        raise ParameterError("audio", got, _FORMAT_MESSAGE)
    file = TimedFile(data, SETTINGS.max_open_s)
    try:
        with soundfile.SoundFile(file) as recording:
            _check_coding(recording.format, recording.subtype)
            _check_rate_and_channels(recording.samplerate, recording.channels)
            return _read_mono(recording, file), recording.samplerate
    except ParameterError:
        raise
    except Exception:  # damaged files make decoders raise any exception
        if file.is_late():
            raise _timeout_error(got) from None
        raise ParameterError("audio", got, _DAMAGED_MESSAGE) from None


def normalize_samples(samples: object, rate: Any) -> tuple[np.ndarray, int]:
    """Convert an array to the result of ``decode_sound``.

    Args:
        samples: shape (n,) or (n, channels); floats, or uint8, int16 or int32 over their full
            range.
        rate: sample rate in Hz.

    Raises:
        ParameterError: as for ``decode_sound``.
    """
    import numpy as np

    try:
        values, rate = np.asarray(samples), operator.index(rate)
    except Exception:  # an object may raise anything when it is converted to an array
        raise ParameterError("audio", type(samples).__name__, _ARRAY_MESSAGE) from None
    known = values.dtype.kind == "f" or values.dtype.name in ("uint8", "int16", "int32")
    if values.ndim not in (1, 2) or not known:
        shape = "x".join(map(str, values.shape))
        raise ParameterError(
            "audio",
            Message("array of {shape}", shape=f"{shape} {values.dtype.name}"),
            _ARRAY_MESSAGE,
        )
    _check_rate_and_channels(rate, values.shape[1] if values.ndim == 2 else 1)
    _check_length(len(values), rate)
    if values.dtype.kind != "f":
        info = np.iinfo(values.dtype)
        # Unsigned samples are centred on the middle of their range.
        middle = (info.max + info.min + 1) / 2
        values = (values - middle) / (info.max + 1 - middle)
    mono = values if values.ndim == 1 else values.mean(axis=1)
    return _scale_to_unit_peak(mono), rate


def _has_sound_signature(data: bytes) -> bool:
    """Return True if the file begins with the signature of a supported format."""
    if data.startswith(b"RIFF"):
        return data[8:12] == b"WAVE"
    # An MPEG audio frame begins with eleven set bits.
    mpeg = len(data) > 1 and data[0] == 0xFF and data[1] & 0xE0 == 0xE0
    return mpeg or data.startswith((b"fLaC", b"OggS", b"ID3"))


def _check_coding(kind: str, coding: str) -> None:
    if kind not in _FORMATS:
        raise ParameterError("audio", kind, _FORMAT_MESSAGE)
    if not coding.startswith(_CODINGS):
        allowed = "its samples must be PCM, floats, A-law or µ-law, or coded as FLAC, Ogg or MP3"
        raise ParameterError("audio", coding, allowed)


def _check_rate_and_channels(rate: int, channels: int) -> None:
    if not MIN_RATE <= rate <= MAX_RATE:
        allowed = Message("{low} to {high} Hz", low=MIN_RATE, high=MAX_RATE)
        raise ParameterError("audio", Message("{n} Hz", n=rate), allowed)
    if not 1 <= channels <= _MAX_CHANNELS:
        allowed = Message("1 to {n} channels", n=_MAX_CHANNELS)
        raise ParameterError("audio", Message("{n} channels", n=channels), allowed)


def _check_length(samples: int, rate: int) -> None:
    seconds = samples / rate
    if not _MIN_SECONDS <= seconds <= SETTINGS.max_sound_s:
        allowed = Message(
            "{low} to {high} seconds", low=f"{_MIN_SECONDS:g}", high=f"{SETTINGS.max_sound_s:g}"
        )
        raise ParameterError(
            "audio", Message("{max_check_s} seconds", max_check_s=f"{seconds:.3g}"), allowed
        )


def _read_mono(recording: Any, file: TimedFile) -> np.ndarray:
    """Decode to mono, block by block, and stop after the allowed duration."""
    import numpy as np

    rate, said = recording.samplerate, recording.frames
    if said > _UNKNOWN_LENGTH:
        raise ParameterError("audio", size_label(file.getvalue()), "it must say how long it is")
    _check_length(said, rate)
    most, length, blocks = SETTINGS.max_sound_s * rate, 0, []
    while length <= most:
        block = recording.read(_BLOCK_SAMPLES, dtype="float32", always_2d=True)
        if not len(block):
            break
        blocks.append(block.mean(axis=1))
        length += len(block)
    # After the time limit the file seemed to end; it may be whole.
    if file.is_late():
        raise _timeout_error(size_label(file.getvalue()))
    if length < said:  # the recording breaks off
        raise ParameterError("audio", size_label(file.getvalue()), _DAMAGED_MESSAGE)
    _check_length(length, rate)
    return _scale_to_unit_peak(np.concatenate(blocks))


def _timeout_error(got: str) -> ParameterError:
    return ParameterError(
        "audio",
        got,
        Message("opening it may take at most {n} seconds", n=f"{SETTINGS.max_open_s:g}"),
    )


def _scale_to_unit_peak(samples: np.ndarray) -> np.ndarray:
    """Return a new float32 array of shape (n,), scaled into [-1, 1] if its peak is above 1."""
    import numpy as np

    peak = float(np.abs(samples).max())
    if not np.isfinite(peak):
        raise ParameterError("audio", str(peak), "every sample must be a finite number")
    return np.array(samples / peak if peak > 1 else samples, dtype=np.float32)
