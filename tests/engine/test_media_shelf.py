"""What was opened is at hand again for a while, in memory alone; examples always are."""

from __future__ import annotations

import dataclasses
import gc
import json
import tempfile
import threading

import numpy as np
import pytest
from PIL import Image

from engine.errors import EngineError, ParameterError
from engine.media import (
    Media,
    Picture,
    Sound,
    examples,
    info_of,
    inputs,
    list_examples,
    media_cache,
    media_of,
    opened,
    picture_of,
    sound_of,
)
from engine.media.media_cache import MediaShelf
from engine.trace.records import MediaInfo, ModelInfo, Trace
from playground.i18n.translate import sayer
from tests.helpers.media import corners, memory_of, noise, recorded, saved, tone
from tests.helpers.patience import PATIENCE_S
from tests.helpers.sentences import clean

ONE = 4 * 10 * 10
"""Bytes of a picture of ten by ten pixels."""


@pytest.fixture
def kept(monkeypatch):
    """Return an empty shelf that takes the place of the process's own."""
    made = MediaShelf(10**6, 100)
    monkeypatch.setattr(media_cache, "KEPT_MEDIA", made)
    monkeypatch.setattr(inputs, "KEPT_MEDIA", made)
    return made


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Return an empty folder of examples that takes the place of the one that comes along."""
    monkeypatch.setattr(examples, "FOLDER", tmp_path)
    monkeypatch.setattr(examples.list_examples, "__defaults__", (tmp_path,))
    monkeypatch.setattr(examples.example, "__defaults__", (tmp_path,))
    return tmp_path


def run_on(*media):
    """Return a trace without steps of a run that was given these."""
    infos = tuple(one if isinstance(one, MediaInfo) else info_of(one) for one in media)
    return Trace("greedy", {}, ModelInfo("m"), {}, 0, None, (), {}, (), (), media=infos)


def pictures(count, side=10):
    return [picture_of(noise(side, side, seed)) for seed in range(count)]


def test_what_was_opened_is_at_hand(kept):
    picture, sound = picture_of(noise(10, 10)), sound_of((tone(), 16_000))
    assert len(kept) == 2
    assert kept.bytes() == ONE + sound.samples.nbytes
    found = media_of(run_on(picture, sound))
    assert found.picture is picture
    assert found.sound is sound
    assert media_of(run_on(sound)).picture is None
    assert not media_of(run_on())


def test_what_is_given_again_takes_no_second_place(kept):
    for _ in range(3):
        picture_of(saved(corners(10, 10)))
        picture_of(corners(10, 10))
    assert (len(kept), kept.bytes()) == (1, ONE)


@pytest.mark.parametrize("room", [MediaShelf(3 * ONE, 100), MediaShelf(10**6, 3)])
def test_what_was_used_longest_ago_leaves_first(room):
    made = pictures(5)
    for picture in made[:3]:
        room.put(picture)
    assert room.get(made[0].sha256) is made[0]
    for picture in made[3:]:
        room.put(picture)
    there = [room.get(picture.sha256) is not None for picture in made]
    assert there == [True, False, False, True, True]
    assert (len(room), room.bytes()) == (3, 3 * ONE)


def test_what_is_larger_than_the_room_is_not_kept():
    room = MediaShelf(ONE - 1, 100)
    [picture] = pictures(1)
    room.put(picture)
    assert room.get(picture.sha256) is None
    assert (len(room), room.bytes()) == (0, 0)


@pytest.mark.parametrize(("given", "word"), [("picture", "picture"), ("sound", "sound")])
def test_what_has_left_has_to_be_given_again(kept, given, word):
    one = picture_of(noise(10, 10)) if given == "picture" else sound_of((tone(), 16_000))
    kept.most = 0
    kept.put(one)
    with pytest.raises(EngineError) as caught:
        media_of(run_on(one))
    said = clean(str(caught.value))
    assert said == f"The {word} of this run is not at hand any more: give it again."
    assert sayer("de").said(said) != said


def test_a_trace_that_says_a_sound_is_a_picture_gets_none(kept):
    sound = sound_of((tone(), 16_000))
    lying = dataclasses.replace(info_of(picture_of(noise(9, 9))), sha256=sound.sha256)
    with pytest.raises(EngineError, match="The picture of this run is not at hand"):
        media_of(run_on(lying))


def test_many_at_once_leave_the_room_as_large_as_it_is():
    room, made = MediaShelf(7 * ONE, 100), pictures(24)
    start = threading.Barrier(8)

    def work(number):
        start.wait(PATIENCE_S)
        for at in range(400):
            picture = made[(7 * number + at) % len(made)]
            room.put(picture)
            found = room.get(made[at % len(made)].sha256)
            assert found is None or found is made[at % len(made)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert (len(room), room.bytes()) == (7, 7 * ONE)


def test_neither_memory_nor_files_grow(kept, monkeypatch, tmp_path):
    """Two hundred pictures and sounds, each another one, after as many as the shelf takes."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    def work(numbers):
        for number in numbers:
            picture_of(saved(noise(200, 200, number), "JPEG"))
            info_of(picture_of(noise(200, 200, number + 10**6)))
            sound_of(recorded(tone(1.0, hertz=100 + number)))
            with pytest.raises(ParameterError):
                picture_of(saved(noise(200, 200, number))[:5000])

    work(range(50))
    gc.collect()
    with memory_of() as told:
        work(range(50, 250))
        gc.collect()
    assert told["kept"] < 20
    assert kept.bytes() <= kept.most_bytes
    assert list(tmp_path.iterdir()) == []


def test_no_examples_are_no_trouble(folder):
    assert list_examples() == ()
    assert list_examples(folder / "gone") == ()
    with pytest.raises(ParameterError, match="no examples came along"):
        picture_of("example:scene-1")


def test_examples_are_opened_by_name(folder, kept):
    for name in ("scene-10", "scene-9"):
        (folder / f"{name}.png").write_bytes(saved(noise(12, 8, len(name))))
    (folder / "hello.flac").write_bytes(recorded(tone(), kind="FLAC"))
    (folder / "beep.wav").write_bytes(recorded(tone(0.1)))
    for other in ("README.md", "Scene 1.png", "a.jpg", "-.png"):
        (folder / other).write_bytes(b"nothing")
    (folder / "folder.png").mkdir()
    said = {"scene-9": {"title": "Noise", "alt": "Dots of every colour."}}
    (folder / "examples.json").write_text(json.dumps(said))
    found = list_examples()
    assert [one.name for one in found] == ["beep", "hello", "scene-9", "scene-10"]
    assert [one.kind for one in found] == ["audio", "audio", "image", "image"]
    assert (found[2].title, found[2].alt) == ("Noise", "Dots of every colour.")
    assert (found[3].title, found[3].alt) == ("scene-10", "")
    picture, sound = picture_of("example:scene-9"), sound_of("example:hello")
    assert (picture.example, sound.example) == ("scene-9", "hello")
    assert info_of(picture).example == "scene-9"
    assert picture_of("example:scene-9") is picture
    # They need no place: they are always at hand.
    assert len(kept) == 0
    again = media_of(run_on(picture, sound))
    assert again.picture is picture
    assert again.sound is sound


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda: picture_of("example:hello"), "this example is a sound."),
        (lambda: sound_of("example:scene"), "this example is a picture."),
        (lambda: picture_of("example:gone"), "the examples are hello, scene."),
        (lambda: picture_of("example:../scene"), "the examples are hello, scene."),
        (lambda: picture_of("example:"), "the examples are hello, scene."),
        (lambda: sound_of("example:/etc/passwd"), "the examples are hello, scene."),
    ],
)
def test_another_name_is_refused(folder, act, says):
    (folder / "scene.png").write_bytes(saved(noise(12, 8)))
    (folder / "hello.wav").write_bytes(recorded(tone()))
    with pytest.raises(ParameterError) as caught:
        act()
    sentence = clean(str(caught.value))
    assert sentence.endswith(says)
    assert "is not allowed" not in sayer("de").said(sentence)


def test_an_example_of_another_content_is_not_taken_for_it(folder, kept):
    (folder / "scene.png").write_bytes(saved(noise(12, 8)))
    info = dataclasses.replace(info_of(picture_of("example:scene")), sha256="0" * 64)
    for name in ("scene", "gone"):
        with pytest.raises(EngineError, match="not at hand"):
            media_of(run_on(dataclasses.replace(info, example=name)))


def test_what_a_run_is_given():
    assert not opened()
    assert opened().infos() == ()
    both = opened(noise(9, 9), (tone(), 16_000))
    assert both
    assert isinstance(both.picture, Picture)
    assert isinstance(both.sound, Sound)
    assert [info.kind for info in both.infos()] == ["image", "audio"]
    assert Media(sound=both.sound)
    assert [info.kind for info in opened(audio=both.sound).infos()] == ["audio"]
    with pytest.raises(ParameterError, match=r"^image = "):
        opened(b"nothing")
    with pytest.raises(ParameterError, match=r"^audio = "):
        opened(audio=b"nothing")


def test_all_that_came_along_can_be_opened():
    for one in list_examples():
        if one.kind == "image":
            found = picture_of(f"example:{one.name}")
            with Image.open(one.file) as image:
                assert np.array_equal(np.asarray(image.convert("RGB")), np.asarray(found.image))
        else:
            found = sound_of(f"example:{one.name}")
        assert found.example == one.name
        assert one.title
