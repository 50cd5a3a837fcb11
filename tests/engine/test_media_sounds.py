"""Sounds of every kind that is taken, and of those that are not: right samples, or one sentence."""

from __future__ import annotations

import os
import pickle
import struct
import zlib

import numpy as np
import pytest

from engine.errors import EngineError, ParameterError
from engine.media import Sound, bounded_files, inputs, sound_decoder, to_media_info, to_sound
from engine.settings import Settings
from playground.i18n.translate import translator_for
from tests.helpers.media import memory_of, noise, recorded, saved, tone, wav
from tests.helpers.sentences import clean

RATE = 16_000
TONE = tone()
NO_SOUND = "it must be a recording as WAV, FLAC, Ogg or MP3."
DAMAGED = "it must be a recording as WAV, FLAC, Ogg or MP3 that is whole."
CODING = "its samples must be PCM, floats, A-law or µ-law, or coded as FLAC, Ogg or MP3."
SAYS_NOTHING = "it must say how long it is."
LONG = "0.01 to 30 seconds."
FINITE = "every sample must be a finite number."
CHANNELS = "1 to 8 channels."
RATES = "4000 to 192000 Hz."
ARRAY = "it must be (samples, rate), the samples floats of shape (n,) or (n, channels)."


def refusal(value):
    """Return the sentence that a value is refused with."""
    with pytest.raises(ParameterError) as caught:
        to_sound(value)
    sentence = clean(str(caught.value))
    assert caught.value.parameter == "audio"
    assert sentence.startswith("audio = ")
    assert sentence.endswith(".")
    assert sentence.count(". ") == 0
    assert str(pickle.loads(pickle.dumps(caught.value))) == sentence
    assert "is not allowed" not in translator_for("de").translate(sentence)
    return sentence


def pcm(bits, samples=TONE, channels=1):
    """Return samples as integers of so many bits, little end first."""
    top = 2 ** (bits - 1) - 1
    values = np.round(samples * top).astype(np.int64) + (128 if bits == 8 else 0)
    data = b"".join(int(v).to_bytes(bits // 8, "little", signed=bits > 8) for v in values)
    return wav(RATE, channels, bits, data)


# What it is, the file, how far a sample may be off.
RIGHT = [
    ("8 bits", lambda: pcm(8), 1 / 100),
    ("16 bits", lambda: pcm(16), 1e-4),
    ("24 bits", lambda: pcm(24), 1e-6),
    ("32 bits", lambda: pcm(32), 1e-7),
    ("floats", lambda: recorded(TONE, coding="FLOAT"), 0),
    ("doubles", lambda: recorded(TONE, coding="DOUBLE"), 0),
    ("a-law", lambda: recorded(TONE, coding="ALAW"), 0.03),
    ("µ-law", lambda: recorded(TONE, coding="ULAW"), 0.03),
    ("wavex", lambda: recorded(TONE, kind="WAVEX", coding="PCM_24"), 1e-6),
    ("flac", lambda: recorded(TONE, kind="FLAC"), 1e-4),
    ("flac of 24 bits", lambda: recorded(TONE, kind="FLAC", coding="PCM_24"), 1e-6),
    ("vorbis", lambda: recorded(TONE, kind="OGG", coding="VORBIS"), 0.05),
    ("two channels", lambda: recorded(np.stack([TONE * 2, TONE * 0], axis=1)), 1e-4),
    ("eight channels", lambda: recorded(np.stack([TONE] * 8, axis=1)), 1e-4),
    ("bytes behind it", lambda: pcm(16) + b"PK\x03\x04" + bytes(300), 1e-4),
]  # fmt: skip


@pytest.mark.parametrize(("make", "off"), [r[1:] for r in RIGHT], ids=[r[0] for r in RIGHT])
def test_samples_are_right(make, off):
    found = to_sound(make())
    assert found.rate == RATE
    assert found.samples.shape == TONE.shape
    assert found.samples.dtype == np.float32
    assert np.abs(found.samples - TONE).max() <= off + 1e-7


@pytest.mark.parametrize(
    ("kind", "coding", "rate"),
    [("MP3", "MPEG_LAYER_III", RATE), ("OGG", "OPUS", 48_000), ("OGG", "VORBIS", 22_050)],
)
def test_what_is_coded_with_loss_is_nearly_right(kind, coding, rate):
    wanted = tone(1.0, rate)
    found = to_sound(recorded(wanted, rate, kind, coding))
    assert found.rate == rate
    assert abs(found.seconds - 1) < 0.15
    spectrum = np.abs(np.fft.rfft(found.samples[:rate]))
    assert abs(int(spectrum.argmax()) * rate / len(found.samples[:rate]) - 440) < 3
    assert 0.4 < np.abs(found.samples).max() < 0.7


@pytest.mark.parametrize("rate", [4000, 8000, 11_025, 44_100, 48_000, 192_000])
def test_another_rate_is_the_same_sound(rate):
    found = to_sound((tone(0.5, rate), rate))
    assert (found.rate, len(found.samples)) == (rate, rate // 2)
    heard = found.resample(RATE)
    assert heard.dtype == np.float32
    assert abs(len(heard) - RATE // 2) <= 1
    middle = slice(800, len(TONE) - 800)
    assert np.abs(heard[middle] - TONE[middle]).max() < 0.01


def test_samples_at_their_own_rate_are_a_copy():
    found = to_sound((TONE, RATE))
    heard = found.resample(RATE)
    assert np.array_equal(heard, TONE)
    heard[:] = 0
    assert np.array_equal(found.samples, TONE)
    with pytest.raises(ValueError, match="read-only"):
        found.samples[0] = 1


def test_an_array_that_is_given_stays_as_it_is():
    mine = TONE.copy()
    found = to_sound((mine, RATE))
    mine[:] = 0
    assert np.array_equal(found.samples, TONE)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (np.array([0, 16384, -32768] * 100, np.int16), [0, 0.5, -1]),
        (np.array([128, 192, 0] * 100, np.uint8), [0, 0.5, -1]),
        (np.array([0, 2**30, -(2**31)] * 100, np.int32), [0, 0.5, -1]),
        (np.array([0, 0.5, -1] * 100, np.float64), [0, 0.5, -1]),
        (np.array([0, 0.5, -1] * 100, np.float16), [0, 0.5, -1]),
        (np.array([0, 2.0, -4.0] * 100, np.float32), [0, 0.5, -1]),
        (np.array([[0, 0], [1, 0], [-1, -1]] * 100, np.float32), [0, 0.5, -1]),
        (np.array([[0, 0], [32766, 2], [-32768, -32768]] * 100, np.int16), [0, 0.5, -1]),
    ],
    ids=["int16", "uint8", "int32", "float64", "float16", "loud", "stereo", "int16 stereo"],
)
def test_arrays_of_every_kind(values, wanted):
    found = to_sound((values, RATE))
    assert np.allclose(found.samples[:3], wanted, atol=1e-4)
    assert found.samples.flags.c_contiguous


def test_what_is_too_loud_keeps_its_shape():
    found = to_sound(recorded(TONE * 6, coding="FLOAT"))
    assert np.abs(found.samples).max() == 1
    assert np.allclose(found.samples, TONE * 2, atol=1e-3)


def test_silence_is_a_sound():
    found = to_sound((np.zeros(RATE, np.float32), RATE))
    assert not found.samples.any()
    assert to_media_info(found).peaks == (0.0,) * 100


def test_the_same_sound_has_one_name_however_it_comes(tmp_path):
    data = recorded(TONE)
    path = tmp_path / "no sound by its name.png"
    path.write_bytes(data)
    first = to_sound(path)
    ways = [str(path), data, bytearray(data), recorded(first.samples, kind="FLAC")]
    ways += [(first.samples, RATE), [first.samples, RATE], (first.samples[:, None], np.int32(RATE))]
    assert {to_sound(way).sha256 for way in ways} == {first.sha256}
    assert to_sound(first) is first
    assert isinstance(first, Sound)
    assert to_sound((first.samples, RATE + 1)).sha256 != first.sha256
    assert to_sound((first.samples[:-1], RATE)).sha256 != first.sha256


def test_what_is_said_of_a_sound():
    loud = np.concatenate([np.zeros(RATE, np.float32), np.full(RATE, -0.25, np.float32)])
    info = to_media_info(to_sound((loud, RATE)))
    assert (info.kind, info.seconds, info.rate, info.example) == ("audio", 2.0, RATE, None)
    assert (info.width, info.height, info.preview) == (None, None, "")
    assert info.peaks == (0.0,) * 50 + (0.25,) * 50
    short = to_media_info(to_sound((TONE[:40], 4000)))
    assert len(short.peaks) == 40


def with_info(data):
    """Return a WAV with what programs write about who made it."""
    words = b"INFOIART" + struct.pack("<I", 8) + b"a person"
    return data + b"LIST" + struct.pack("<I", len(words)) + words


def test_a_file_next_to_samples_changes_nothing():
    data = recorded(TONE)
    assert to_sound(with_info(data)).sha256 == to_sound(data).sha256


def cut(data, share=0.5):
    return data[: int(len(data) * share)]


def floats(value):
    samples = TONE.copy()
    samples[100] = value
    return recorded(samples, coding="FLOAT")


def lying_flac(samples):
    """Return half a second whose header says another number of samples."""
    data = bytearray(recorded(TONE, kind="FLAC"))
    at = 8 + 13
    data[at] = data[at] & 0xF0 | samples >> 32
    data[at + 1 : at + 5] = struct.pack(">I", samples & 0xFFFFFFFF)
    return bytes(data)


REFUSED = [
    ("words", lambda: b"This is no sound at all.", NO_SOUND),
    ("zeros", lambda: bytes(5000), NO_SOUND),
    ("a picture", lambda: saved(noise(9, 9)), NO_SOUND),
    ("a webp", lambda: saved(noise(9, 9), "WEBP"), NO_SOUND),
    ("a video", lambda: b"RIFF\x10\0\0\0AVI LIST" + bytes(60), NO_SOUND),
    ("mp4", lambda: b"\0\0\0\x18ftypM4A " + bytes(60), NO_SOUND),
    ("midi", lambda: b"MThd\0\0\0\x06\0\0\0\1\0\x60MTrk" + bytes(20), NO_SOUND),
    ("aiff", lambda: recorded(TONE, kind="AIFF"), NO_SOUND),
    ("au", lambda: recorded(TONE, kind="AU"), NO_SOUND),
    ("caf", lambda: recorded(TONE, kind="CAF"), NO_SOUND),
    ("w64", lambda: recorded(TONE, kind="W64"), NO_SOUND),
    ("half a head", lambda: recorded(TONE)[:20], DAMAGED),
    ("a head", lambda: recorded(TONE)[:44], None),
    ("marks alone", lambda: b"fLaC", DAMAGED),
    ("ogg of nothing", lambda: b"OggS" + bytes(200), DAMAGED),
    ("an ID3 of nothing", lambda: b"ID3\x03\0\0\0\0\0\0" + bytes(300), DAMAGED),
    ("an mp3 of nothing", lambda: b"\xff\xfb\x90\0" + bytes(40), None),
    ("text of 16 bits", lambda: "words".encode("utf-16"), DAMAGED),
    ("half a flac", lambda: cut(recorded(TONE, kind="FLAC")), DAMAGED),
    ("half a head of flac", lambda: recorded(TONE, kind="FLAC")[:30], None),
    ("ms adpcm", lambda: recorded(TONE, coding="MS_ADPCM"), CODING),
    ("gsm", lambda: recorded(tone(0.5, 8000), 8000, coding="GSM610"), CODING),
    ("no samples", lambda: wav(RATE, 1, 16, b""), None),
    ("one sample", lambda: wav(RATE, 1, 16, b"ab"), LONG),
    ("31 seconds", lambda: wav(8000, 1, 8, bytes([128]) * 8000 * 31), LONG),
    ("31 seconds of flac", lambda: recorded(np.zeros(31 * 8000), 8000, "FLAC"), LONG),
    ("31 seconds of mp3", lambda: recorded(np.zeros(31 * 8000), 8000, "MP3"), LONG),
    ("a flac that does not say how long it is", lambda: lying_flac(0), SAYS_NOTHING),
    ("a day, says its head", lambda: lying_flac(RATE * 86_400), LONG),
    ("a second too much, says its head", lambda: lying_flac(RATE * 2), DAMAGED),
    ("not a number", lambda: floats(np.nan), FINITE),
    ("without end", lambda: floats(np.inf), FINITE),
    ("the other way", lambda: floats(-np.inf), FINITE),
    ("100 channels", lambda: wav(RATE, 100, 16, bytes(200 * 1000)), CHANNELS),
    ("nine channels", lambda: wav(RATE, 9, 16, bytes(18 * 1000)), CHANNELS),
    ("no channels", lambda: wav(RATE, 0, 16, bytes(2000)), None),
    ("3999 Hz", lambda: wav(3999, 1, 16, bytes(8000)), RATES),
    ("1 Hz", lambda: wav(1, 1, 16, bytes(8)), RATES),
    ("0 Hz", lambda: wav(0, 1, 16, bytes(8000)), None),
    ("192001 Hz", lambda: wav(192_001, 1, 16, bytes(80_000)), RATES),
    ("4 GHz", lambda: wav(2**32 - 1, 1, 16, bytes(80_000)), None),
    ("gzip of one", lambda: zlib.compress(recorded(TONE)), NO_SOUND),
]  # fmt: skip


@pytest.mark.parametrize(("make", "says"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_is_no_sound_is_refused(make, says, capfd):
    data = make()
    with memory_of() as told:
        sentence = refusal(data)
    assert says is None or sentence.endswith(says)
    assert told["most"] < 60
    # A library of libsndfile's writes warnings of its own.
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("said", [2**32 - 1, 0x7FFFFFFF, 10**6])
def test_a_wav_that_says_it_is_longer_is_what_is_there(said):
    """Programs that write one as it comes cannot know how long it gets."""
    data = (TONE * 32767).astype("<i2").tobytes()
    found = to_sound(wav(RATE, 1, 16, data, said=said))
    assert np.abs(found.samples - TONE).max() < 1e-4


def test_no_longer_than_the_settings_say(monkeypatch):
    monkeypatch.setattr(sound_decoder, "SETTINGS", Settings(max_sound_s=0.25))
    for value in (recorded(TONE), recorded(TONE, kind="FLAC"), (TONE, RATE)):
        assert refusal(value).endswith("'0.5 seconds' is not allowed: 0.01 to 0.25 seconds.")
    assert to_sound((TONE[: RATE // 4], RATE)).seconds == 0.25


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3"])
def test_what_takes_longer_than_it_may_is_ended(kind, monkeypatch, capfd):
    monkeypatch.setattr(sound_decoder, "SETTINGS", Settings(max_open_s=0.0))
    assert refusal(recorded(TONE, kind=kind)).endswith("opening it may take at most 0 seconds.")
    assert "Traceback" not in capfd.readouterr().err


def test_no_more_bytes_than_the_settings_say(monkeypatch, tmp_path):
    data = recorded(TONE)
    path = tmp_path / "a.wav"
    path.write_bytes(data)
    monkeypatch.setattr(inputs, "SETTINGS", Settings(max_sound_bytes=len(data) - 1))
    for value in (data, path):
        assert refusal(value).endswith(f"at most {(len(data) - 1) / 1e6:g} MB.")


@pytest.mark.parametrize(
    "value",
    [None, 7, True, [], {}, (1, 2, 3), object(), TONE, "example", print],
    ids=lambda value: type(value).__name__,
)
def test_what_is_neither_file_nor_samples(value):
    wanted = "it must be a path, the bytes of a file, (samples, rate), or example:NAME."
    if isinstance(value, str):
        wanted = "the file cannot be read (No such file or directory)."
    assert refusal(value).endswith(wanted)


class _Odd:
    def __array__(self, *args, **kwargs):
        raise RuntimeError("no array")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ((TONE, None), ARRAY),
        ((TONE, "16000"), ARRAY),
        ((TONE, 16_000.5), ARRAY),
        ((RATE, TONE), ARRAY),
        ((["a"], RATE), ARRAY),
        ((_Odd(), RATE), ARRAY),
        (([[1.0], [1.0, 2.0]], RATE), ARRAY),
        ((TONE.astype(np.int64), RATE), ARRAY),
        ((TONE.astype(complex), RATE), ARRAY),
        ((TONE > 0, RATE), ARRAY),
        ((TONE.reshape(2, 2, -1), RATE), ARRAY),
        ((np.float32(1), RATE), ARRAY),
        ((np.zeros(0, np.float32), RATE), LONG),
        ((np.zeros((0, 2), np.float32), RATE), LONG),
        ((np.zeros((2, 8000), np.float32), RATE), CHANNELS),
        ((np.zeros((8000, 0), np.float32), RATE), CHANNELS),
        ((np.zeros(31 * RATE, np.float32), RATE), LONG),
        ((TONE, 0), RATES),
        ((TONE, -RATE), RATES),
        ((TONE, 10**9), RATES),
        ((np.full(8000, np.nan, np.float32), RATE), FINITE),
        ((np.full(8000, np.inf), RATE), FINITE),
        ((np.full((8000, 2), np.finfo(np.float64).max), RATE), FINITE),
    ],
    ids=range(23),
)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_samples_that_are_none(value, says):
    assert refusal(value).endswith(says)


def test_paths_are_as_those_of_pictures(monkeypatch, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in (".", "pipe", "/dev/zero"):
        assert refusal(tmp_path / name).endswith("it must be a file, and no folder or device.")
    (tmp_path / "a.wav").touch()
    assert refusal(tmp_path / "a.wav").endswith("the file is empty.")
    assert refusal("a\0b").endswith("no file can have such a name.")
    monkeypatch.setattr(bounded_files, "SETTINGS", Settings(public=True))
    assert refusal(tmp_path / "a.wav").endswith(
        "a public deployment reads no files of its machine; give the bytes."
    )


def test_changed_bytes_end_in_a_sound_or_a_sentence(capfd):
    """Sixty changes of a file of every kind, from a fixed seed."""
    draw = np.random.default_rng(5)
    short = tone(0.2)
    ends = {"sound": 0, "refused": 0}
    for kind in ("WAV", "FLAC", "OGG", "MP3"):
        whole = recorded(short, kind=kind)
        for _ in range(60):
            data = bytearray(whole)
            for at in draw.integers(0, len(data), 3):
                data[at] = draw.integers(0, 256)
            try:
                assert np.abs(to_sound(bytes(data)).samples).max() <= 1
                ends["sound"] += 1
            except EngineError as error:
                clean(str(error))
                ends["refused"] += 1
    assert min(ends.values()) > 10, ends
    assert "Traceback" not in capfd.readouterr().err
