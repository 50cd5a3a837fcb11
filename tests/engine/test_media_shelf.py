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
    inputs,
    list_examples,
    load_trace_media,
    media_cache,
    open_media,
    to_media_info,
    to_picture,
    to_sound,
)
from engine.media.media_cache import MediaCache
from engine.trace.records import MediaInfo, ModelInfo, Trace
from playground.i18n.translate import translator_for
from tests.helpers.media import corners, memory_of, noise, recorded, saved, tone
from tests.helpers.patience import PATIENCE_S
from tests.helpers.sentences import clean

ONE = 4 * 10 * 10
"""Bytes of a picture of ten by ten pixels."""


@pytest.fixture
def kept(monkeypatch):
    """Return an empty shelf that takes the place of the process's own."""
    made = MediaCache(10**6, 100)
    monkeypatch.setattr(media_cache, "MEDIA_CACHE", made)
    monkeypatch.setattr(inputs, "MEDIA_CACHE", made)
    return made


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Return an empty folder of examples that takes the place of the one that comes along."""
    monkeypatch.setattr(examples, "EXAMPLES_FOLDER", tmp_path)
    monkeypatch.setattr(examples.list_examples, "__defaults__", (tmp_path,))
    monkeypatch.setattr(examples.load_example, "__defaults__", (tmp_path,))
    return tmp_path


def run_on(*media):
    """Return a trace without steps of a run that was given these."""
    infos = tuple(one if isinstance(one, MediaInfo) else to_media_info(one) for one in media)
    return Trace("greedy", {}, ModelInfo("m"), {}, 0, None, (), {}, (), (), media=infos)


def pictures(count, side=10):
    return [to_picture(noise(side, side, seed)) for seed in range(count)]


def test_what_was_opened_is_at_hand(kept):
    picture, sound = to_picture(noise(10, 10)), to_sound((tone(), 16_000))
    assert len(kept) == 2
    assert kept.memory_bytes() == ONE + sound.samples.nbytes
    found = load_trace_media(run_on(picture, sound))
    assert found.picture is picture
    assert found.sound is sound
    assert load_trace_media(run_on(sound)).picture is None
    assert not load_trace_media(run_on())


def test_what_is_given_again_takes_no_second_place(kept):
    for _ in range(3):
        to_picture(saved(corners(10, 10)))
        to_picture(corners(10, 10))
    assert (len(kept), kept.memory_bytes()) == (1, ONE)


@pytest.mark.parametrize("room", [MediaCache(3 * ONE, 100), MediaCache(10**6, 3)])
def test_what_was_used_longest_ago_leaves_first(room):
    made = pictures(5)
    for picture in made[:3]:
        room.put(picture)
    assert room.get(made[0].sha256) is made[0]
    for picture in made[3:]:
        room.put(picture)
    there = [room.get(picture.sha256) is not None for picture in made]
    assert there == [True, False, False, True, True]
    assert (len(room), room.memory_bytes()) == (3, 3 * ONE)


def test_what_is_larger_than_the_room_is_not_kept():
    room = MediaCache(ONE - 1, 100)
    [picture] = pictures(1)
    room.put(picture)
    assert room.get(picture.sha256) is None
    assert (len(room), room.memory_bytes()) == (0, 0)


@pytest.mark.parametrize(("given", "word"), [("picture", "picture"), ("sound", "sound")])
def test_what_has_left_has_to_be_given_again(kept, given, word):
    one = to_picture(noise(10, 10)) if given == "picture" else to_sound((tone(), 16_000))
    kept.most = 0
    kept.put(one)
    with pytest.raises(EngineError) as caught:
        load_trace_media(run_on(one))
    said = clean(str(caught.value))
    assert said == f"The {word} of this run is not at hand any more: give it again."
    assert translator_for("de").translate(said) != said


def test_a_trace_that_says_a_sound_is_a_picture_gets_none(kept):
    sound = to_sound((tone(), 16_000))
    lying = dataclasses.replace(to_media_info(to_picture(noise(9, 9))), sha256=sound.sha256)
    with pytest.raises(EngineError, match="The picture of this run is not at hand"):
        load_trace_media(run_on(lying))


def test_many_at_once_leave_the_room_as_large_as_it_is():
    room, made = MediaCache(7 * ONE, 100), pictures(24)
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
    assert (len(room), room.memory_bytes()) == (7, 7 * ONE)


@pytest.mark.nightly
def test_neither_memory_nor_files_grow(kept, monkeypatch, tmp_path):
    """Two hundred pictures and sounds, each another one, after as many as the shelf takes."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    def work(numbers):
        for number in numbers:
            to_picture(saved(noise(200, 200, number), "JPEG"))
            to_media_info(to_picture(noise(200, 200, number + 10**6)))
            to_sound(recorded(tone(1.0, hertz=100 + number)))
            with pytest.raises(ParameterError):
                to_picture(saved(noise(200, 200, number))[:5000])

    work(range(50))
    gc.collect()
    with memory_of() as told:
        work(range(50, 250))
        gc.collect()
    assert told["kept"] < 20
    assert kept.memory_bytes() <= kept.most_bytes
    assert list(tmp_path.iterdir()) == []


def test_no_examples_are_no_trouble(folder):
    assert list_examples() == ()
    assert list_examples(folder / "gone") == ()
    with pytest.raises(ParameterError, match="no examples came along"):
        to_picture("example:scene-1")


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
    picture, sound = to_picture("example:scene-9"), to_sound("example:hello")
    assert (picture.example, sound.example) == ("scene-9", "hello")
    assert to_media_info(picture).example == "scene-9"
    assert to_picture("example:scene-9") is picture
    # They need no place: they are always at hand.
    assert len(kept) == 0
    again = load_trace_media(run_on(picture, sound))
    assert again.picture is picture
    assert again.sound is sound


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda: to_picture("example:hello"), "this example is a sound."),
        (lambda: to_sound("example:scene"), "this example is a picture."),
        (lambda: to_picture("example:gone"), "the examples are hello, scene."),
        (lambda: to_picture("example:../scene"), "the examples are hello, scene."),
        (lambda: to_picture("example:"), "the examples are hello, scene."),
        (lambda: to_sound("example:/etc/passwd"), "the examples are hello, scene."),
    ],
)
def test_another_name_is_refused(folder, act, says):
    (folder / "scene.png").write_bytes(saved(noise(12, 8)))
    (folder / "hello.wav").write_bytes(recorded(tone()))
    with pytest.raises(ParameterError) as caught:
        act()
    sentence = clean(str(caught.value))
    assert sentence.endswith(says)
    assert "is not allowed" not in translator_for("de").translate(sentence)


def test_an_example_of_another_content_is_not_taken_for_it(folder, kept):
    (folder / "scene.png").write_bytes(saved(noise(12, 8)))
    info = dataclasses.replace(to_media_info(to_picture("example:scene")), sha256="0" * 64)
    for name in ("scene", "gone"):
        with pytest.raises(EngineError, match="not at hand"):
            load_trace_media(run_on(dataclasses.replace(info, example=name)))


def test_what_a_run_is_given():
    assert not open_media()
    assert open_media().infos() == ()
    both = open_media(noise(9, 9), (tone(), 16_000))
    assert both
    assert isinstance(both.picture, Picture)
    assert isinstance(both.sound, Sound)
    assert [info.kind for info in both.infos()] == ["image", "audio"]
    assert Media(sound=both.sound)
    assert [info.kind for info in open_media(audio=both.sound).infos()] == ["audio"]
    with pytest.raises(ParameterError, match=r"^image = "):
        open_media(b"nothing")
    with pytest.raises(ParameterError, match=r"^audio = "):
        open_media(audio=b"nothing")


def test_all_that_came_along_can_be_opened():
    for one in list_examples():
        if one.kind == "image":
            found = to_picture(f"example:{one.name}")
            with Image.open(one.file) as image:
                assert np.array_equal(np.asarray(image.convert("RGB")), np.asarray(found.image))
        else:
            found = to_sound(f"example:{one.name}")
        assert found.example == one.name
        assert one.title
