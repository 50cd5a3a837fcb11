"""Pictures and sounds on their way to another process."""

import pickle

import numpy as np
import pytest

from engine import DecodeRequest
from engine.media import open_media, serialize_medium, to_picture, to_sound
from engine.serving.fields import to_fields
from tests.helpers.media_models import image, wave


@pytest.mark.parametrize("seed", [0, 1])
def test_what_was_packed_is_the_same_when_it_is_opened(seed):
    picture, sound = to_picture(image(seed)), to_sound(wave(seed, rate=44_100))
    again = open_media(serialize_medium(picture), serialize_medium(sound))
    assert again.picture.sha256 == picture.sha256
    assert again.sound.sha256 == sound.sha256
    assert np.array_equal(again.sound.samples, sound.samples)


@pytest.mark.parametrize("given", [{"image": image()}, {"audio": wave()}], ids=["image", "audio"])
def test_a_request_travels_with_what_its_model_is_given(given):
    fields = pickle.loads(pickle.dumps(to_fields(DecodeRequest("greedy", "captioner", **given))))
    there = DecodeRequest(**fields)
    own, sent = (
        open_media(**{"image": None, "audio": None, **given}),
        open_media(there.image, there.audio),
    )
    assert sent.infos() == own.infos()


def test_a_path_is_opened_where_it_is_one(tmp_path):
    image().save(tmp_path / "a.png")
    fields = to_fields(DecodeRequest("greedy", "captioner", image=str(tmp_path / "a.png")))
    assert to_picture(fields["image"]).sha256 == to_picture(image()).sha256
