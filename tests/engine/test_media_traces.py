"""What a trace says of a picture and a sound: it comes back as it was, and a lie is refused."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json

import jsonschema
import pytest

from engine.analysis import gallery
from engine.errors import TraceError
from engine.media import to_media_info, to_picture, to_sound
from engine.trace import json_io
from engine.trace.records import MediaInfo
from engine.trace.schema import trace_schema
from playground.i18n.translate import translator_for
from tests.helpers.bad_traces import put
from tests.helpers.media import huge, memory_of, noise, saved, tone
from tests.helpers.sentences import clean

PICTURE, SOUND = (
    to_media_info(to_picture(noise(200, 90))),
    to_media_info(to_sound((tone(), 16_000))),
)


@pytest.fixture(scope="module")
def trace():
    """Return a recorded run as if it had been given a picture and a sound."""
    plain = gallery.open_entry(gallery.list_entries()[0].file)
    return dataclasses.replace(plain, media=(PICTURE, SOUND))


@pytest.fixture
def data(trace):
    return copy.deepcopy(json_io.trace_to_dict(trace))


def test_it_comes_back_as_it_was(trace, data, tmp_path):
    assert json_io.loads(json.dumps(data)) == trace
    json_io.save(trace, tmp_path / "t.json.gz")
    assert json_io.load(tmp_path / "t.json.gz").media == (PICTURE, SOUND)
    jsonschema.validate(data, trace_schema())
    jsonschema.validate(json.loads(json_io.dumps(trace)), trace_schema(columns=True))


def test_a_file_of_before_has_none(data):
    del data["media"]
    assert json_io.loads(json.dumps(data)).media == ()


@pytest.mark.parametrize("given", [(), (PICTURE,), (SOUND,), (SOUND, PICTURE)])
def test_one_of_each_or_none(trace, given):
    other = dataclasses.replace(trace, media=given)
    assert json_io.loads(json_io.dumps(other)).media == given


@pytest.mark.parametrize(
    "info",
    [
        to_media_info(to_picture(noise(1, 1))),
        to_media_info(to_picture(noise(2048, 1))),
        dataclasses.replace(PICTURE, preview="", example="scene-1"),
        to_media_info(to_sound((tone(0.01, 4000), 4000))),
        to_media_info(to_sound((tone(30, 192_000) * 0, 192_000))),
    ],
    ids=["pixel", "thin", "example", "short", "silent"],
)
def test_whatever_is_opened_can_be_read_again(trace, info):
    other = dataclasses.replace(trace, media=(info,))
    assert json_io.loads(json_io.dumps(other)).media == (info,)


def in_base64(data):
    return base64.b64encode(data).decode()


IMAGE, AUDIO = ("media", 0), ("media", 1)
SMALL = saved(noise(9, 9), "JPEG")
NO_PREVIEW = "trace.media[0].preview is no JPEG of at most 160 pixels a side."
LIES = [
    (put(*IMAGE, "kind", "video"), "trace.media[0].kind must be one of image, audio."),
    (put(*IMAGE, "kind", "audio"), "trace.media has two of a kind."),
    (put("media", [dataclasses.asdict(PICTURE)] * 2), "trace.media has two of a kind."),
    (put("media", [dataclasses.asdict(SOUND)] * 900), "trace.media has two of a kind."),
    (put("media", {}), "trace.media must be a list."),
    (put("media", None), None),
    (put("media", [None]), "trace.media[0] must be an object."),
    (put("media", [{}]), "trace.media[0] lacks the field 'kind'."),
    (put(*IMAGE, "path", "/etc/passwd"), "trace.media[0] has an unknown field 'path'."),
    (put(*IMAGE, "sha256", "0" * 63), "trace.media[0].sha256 is no SHA-256."),
    (put(*IMAGE, "sha256", "0" * 65), "trace.media[0].sha256 is no SHA-256."),
    (put(*IMAGE, "sha256", "G" * 64), "trace.media[0].sha256 is no SHA-256."),
    (put(*IMAGE, "sha256", "0" * 64 + "\n"), "trace.media[0].sha256 is no SHA-256."),
    (put(*IMAGE, "sha256", 7), "trace.media[0].sha256 must be text."),
    (put(*IMAGE, "example", "../../etc/passwd"), "is no name of an example."),
    (put(*IMAGE, "example", ""), "is no name of an example."),
    (put(*IMAGE, "example", "a" * 65), "is no name of an example."),
    (put(*IMAGE, "example", "<b>"), "is no name of an example."),
    (put(*IMAGE, "width", 0), "trace.media[0] has a size that no picture has."),
    (put(*IMAGE, "width", -5), "trace.media[0] has a size that no picture has."),
    (put(*IMAGE, "height", 10**9), "trace.media[0] has a size that no picture has."),
    (put(*IMAGE, "height", None), "trace.media[0] has a size that no picture has."),
    (put(*IMAGE, "width", 1.5), "trace.media[0].width must be a whole number."),
    (put(*IMAGE, "seconds", 1.0), "trace.media[0] is a picture but describes a sound."),
    (put(*IMAGE, "rate", 1), "trace.media[0] is a picture but describes a sound."),
    (put(*IMAGE, "peaks", [0.5]), "trace.media[0] is a picture but describes a sound."),
    (put(*IMAGE, "preview", "A" * 70_000), NO_PREVIEW),
    (put(*IMAGE, "preview", in_base64(saved(noise(161, 3), "JPEG"))), NO_PREVIEW),
    (put(*IMAGE, "preview", in_base64(huge("JPEG", 60_000))), NO_PREVIEW),
    (put(*IMAGE, "preview", in_base64(saved(noise(9, 9)))), NO_PREVIEW),
    (put(*IMAGE, "preview", in_base64(saved(noise(9, 9), "GIF"))), NO_PREVIEW),
    (put(*IMAGE, "preview", in_base64(b"<svg onload=alert(1)>")), NO_PREVIEW),
    (put(*IMAGE, "preview", in_base64(SMALL[:-200])), NO_PREVIEW),
    (put(*IMAGE, "preview", in_base64(SMALL) + '" onerror="alert(1)'), NO_PREVIEW),
    (put(*IMAGE, "preview", in_base64(SMALL)[:-1]), NO_PREVIEW),
    (put(*IMAGE, "preview", "data:image/jpeg;base64," + in_base64(SMALL)), NO_PREVIEW),
    (put(*IMAGE, "preview", "https://example.org/a.jpg"), NO_PREVIEW),
    (put(*IMAGE, "preview", "ÿØÿ"), NO_PREVIEW),
    (put(*IMAGE, "preview", None), None),
    (put(*AUDIO, "width", 5), "trace.media[1] is a sound but describes a picture."),
    (
        put(*AUDIO, "preview", in_base64(SMALL)),
        "trace.media[1] is a sound but describes a picture.",
    ),
    (put(*AUDIO, "seconds", 0), "trace.media[1].seconds is no length that a sound has."),
    (put(*AUDIO, "seconds", -1.0), "trace.media[1].seconds is no length that a sound has."),
    (put(*AUDIO, "seconds", 1e9), "trace.media[1].seconds is no length that a sound has."),
    (put(*AUDIO, "seconds", None), "trace.media[1].seconds is no length that a sound has."),
    (put(*AUDIO, "rate", 0), "trace.media[1].rate is no rate that a sound has."),
    (put(*AUDIO, "rate", 10**9), "trace.media[1].rate is no rate that a sound has."),
    (put(*AUDIO, "rate", None), "trace.media[1].rate is no rate that a sound has."),
    (put(*AUDIO, "peaks", [1.5]), "trace.media[1].peaks must be at most 100 numbers from 0 to 1."),
    (put(*AUDIO, "peaks", [-0.1]), "trace.media[1].peaks must be at most 100 numbers from 0 to 1."),
    (put(*AUDIO, "peaks", [0.5] * 101), "must be at most 100 numbers from 0 to 1."),
    (put(*AUDIO, "peaks", ["0"]), "trace.media[1].peaks[0] must be a number."),
    (put(*AUDIO, "peaks", [None]), "trace.media[1].peaks[0] must be a number."),
]


@pytest.mark.parametrize("number", range(len(LIES)))
def test_a_lie_is_refused_with_its_place(data, number):
    change, says = LIES[number]
    change(data)
    with memory_of() as told, pytest.raises(TraceError) as caught:
        json_io.loads(json.dumps(data))
    sentence = clean(str(caught.value))
    assert says is None or sentence.endswith(says)
    assert translator_for("de").translate(sentence) != sentence
    assert told["most"] < 60


def test_a_record_is_a_value():
    assert dataclasses.replace(PICTURE) == PICTURE
    assert hash(PICTURE) == hash(dataclasses.replace(PICTURE))
    assert MediaInfo("audio", "0" * 64).peaks == ()
