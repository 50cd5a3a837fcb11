"""Pictures and sounds on their way to another process."""

import pickle

import numpy as np
import pytest

from engine import DecodeRequest
from engine.media import opened, packed, picture_of, sound_of
from engine.serving.fields import fields_of
from tests.helpers.media_models import image, wave


@pytest.mark.parametrize("seed", [0, 1])
def test_what_was_packed_is_the_same_when_it_is_opened(seed):
    picture, sound = picture_of(image(seed)), sound_of(wave(seed, rate=44_100))
    again = opened(packed(picture), packed(sound))
    assert again.picture.sha256 == picture.sha256
    assert again.sound.sha256 == sound.sha256
    assert np.array_equal(again.sound.samples, sound.samples)


@pytest.mark.parametrize("given", [{"image": image()}, {"audio": wave()}], ids=["image", "audio"])
def test_a_request_travels_with_what_its_model_is_given(given):
    fields = pickle.loads(pickle.dumps(fields_of(DecodeRequest("greedy", "captioner", **given))))
    there = DecodeRequest(**fields)
    own, sent = opened(**{"image": None, "audio": None, **given}), opened(there.image, there.audio)
    assert sent.infos() == own.infos()


def test_a_path_is_opened_where_it_is_one(tmp_path):
    image().save(tmp_path / "a.png")
    fields = fields_of(DecodeRequest("greedy", "captioner", image=str(tmp_path / "a.png")))
    assert picture_of(fields["image"]).sha256 == picture_of(image()).sha256
