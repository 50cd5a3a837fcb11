"""Pictures and sounds that visitors send: in memory alone, each visitor's own, and refused in one sentence."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import httpx
import pytest

from engine.errors import ParameterError
from engine.media import list_examples
from engine.one_shot_thread import run_in_thread
from playground.forms import visitor_media
from playground.forms.visitor_media import (
    EXAMPLE_PREFIX,
    HELD_PREFIX,
    MediaStore,
    hide_foreign_media,
)
from playground.server.body_budget import BODY_BUDGET
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.pictures import HOSTILE, picture_file, sound_file
from tests.helpers.seers import seer
from tests.helpers.sentences import clean
from tests.helpers.server import process

ANNA, BERT = "a" * 32, "b" * 32
OWN_BYTES = 400_000
ALL_BYTES = 1_200_000
LARGEST = 300_000


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Yield a client of a server with little room, its process, and the folder that it may write to."""
    folder = tmp_path_factory.mktemp("media")
    limits = {
        "max_picture_bytes": LARGEST,
        "max_visitor_media_bytes": OWN_BYTES,
        "max_held_media_bytes": ALL_BYTES,
        "journal": folder / "journal.db",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        with (
            process(folder / "log.txt", **limits) as (url, served),
            httpx.Client(base_url=url, timeout=PATIENCE_S) as client,
        ):
            yield client, served, folder


def sent(client, kind, data, visitor=ANNA):
    return client.post(f"/media/{kind}", content=data, headers={"X-Visitor": visitor})


def is_here(client, kind, name, visitor):
    sha256 = name.removeprefix(HELD_PREFIX)
    found = client.get(f"/media/{kind}/{sha256}", headers={"X-Visitor": visitor})
    return found.json()["here"]


def rss(served):
    lines = Path(f"/proc/{served.pid}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024


def test_a_picture_is_taken_and_reported(there):
    client, *_ = there
    answer = sent(client, "image", picture_file(64, 48))
    assert answer.status_code == 201
    told = answer.json()
    assert (told["width"], told["height"], told["kind"]) == (64, 48, "image")
    assert told["given"] == HELD_PREFIX + told["sha256"]
    assert told["bytes"] == len(picture_file(64, 48))
    assert told["preview"]
    assert answer.headers["cache-control"] == "no-store"


def test_a_sound_is_taken_and_reported(there):
    client, *_ = there
    told = sent(client, "audio", sound_file(0.5)).json()
    assert (told["seconds"], told["rate"], told["kind"]) == (0.5, 16_000, "audio")
    assert len(told["peaks"]) == 100
    assert max(told["peaks"]) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_read_is_refused_in_one_sentence(there, name):
    client, *_ = there
    kind, data = HOSTILE[name]
    answer = sent(client, kind, data)
    assert answer.status_code == 400
    said = clean(answer.json()["error"])
    assert said.startswith(f"{kind} = ")
    assert sent(client, "image", picture_file()).status_code == 201


def test_what_is_too_large_is_refused_before_it_is_read(there):
    client, *_ = there
    answer = sent(client, "image", b"\0" * (LARGEST + 1))
    assert answer.status_code == 413
    assert clean(answer.json()["error"]) == (
        "image = 'a larger file' is not allowed: at most 0.3 MB."
    )


@pytest.mark.parametrize("visitor", ["", "a", "A" * 32, "a" * 33, "g" * 32, "../" * 10])
def test_who_does_not_say_who_he_is_is_refused(there, visitor):
    client, *_ = there
    answer = sent(client, "image", picture_file(), visitor)
    assert answer.status_code == 400
    clean(answer.json()["error"])


def test_nothing_else_is_taken_and_no_other_page_may_send(there):
    client, *_ = there
    assert sent(client, "video", picture_file()).status_code == 404
    foreign = {"X-Visitor": ANNA, "sec-fetch-site": "cross-site"}
    refused = client.post("/media/image", content=picture_file(), headers=foreign)
    assert refused.status_code == 403


def test_the_same_hash_is_out_of_reach_for_another_visitor(there):
    client, *_ = there
    given = sent(client, "image", picture_file(40, 40)).json()["given"]
    assert is_here(client, "image", given, ANNA)
    assert not is_here(client, "image", given, BERT)
    assert not is_here(client, "audio", given, ANNA)
    assert not is_here(client, "image", given, "")
    # No address gives what was sent back.
    for path in (f"/media/image/{given.removeprefix(HELD_PREFIX)}", f"/media/example/{given}"):
        answer = client.get(path, headers={"X-Visitor": BERT})
        assert picture_file(40, 40)[:100] not in answer.content


@pytest.mark.nightly
def test_two_hundred_pictures_take_no_more_memory_than_the_first(there):
    client, served, _ = there
    # What is put off until the server has begun is there.
    assert client.get("/refusals").status_code == 200

    def send(many):
        files = [picture_file(200, 200, seed=n) for n in range(many)]
        names = [sent(client, "image", file, f"{n % 7:032x}") for n, file in enumerate(files)]
        assert {answer.status_code for answer in names} == {201}
        return names[0].json()["given"]

    first = send(120)
    before = rss(served)
    send(200)
    # One file has 120 kB, and its pixels 160.
    assert rss(served) - before < 10_000_000
    # What was used longest ago has made room.
    assert not is_here(client, "image", first, "0" * 32)


def test_nothing_of_it_is_on_a_disk(there):
    client, _, folder = there
    data = picture_file(90, 90, seed=5)
    sent(client, "image", data)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        whole = path.read_bytes()
        assert data[100:200] not in whole, path
        assert ANNA.encode() not in whole, path


def test_an_example_is_fetched_by_its_name_and_nothing_else_is(there):
    client, *_ = there
    for one in list_examples():
        answer = client.get(f"/media/example/{one.name}")
        assert answer.content == one.file.read_bytes()
        assert answer.headers["content-type"] in ("image/png", "audio/wav", "audio/flac")
    for name in ("..%2f..%2fREADME.md", "README.md", "examples.json", "nobody"):
        assert client.get(f"/media/example/{name}").status_code == 404


def test_the_page_may_ask_for_a_camera_and_play_what_was_recorded(there):
    client, *_ = there
    headers = client.get("/here").headers
    assert "camera=(self)" in headers["permissions-policy"]
    assert "microphone=(self)" in headers["permissions-policy"]
    assert "media-src 'self' blob:" in headers["content-security-policy"]


def bytes_of(held):
    return sum(kept.size for kept in held._kept.values())


def test_each_visitor_and_all_of_them_have_so_much_room():
    held = MediaStore(most_bytes=100_000, own_bytes=60_000, age_s=60)
    for n in range(3):
        held.add(ANNA, "image", str(n), bytes(25_000))
    assert [held.find(ANNA, "image", str(n)) is not None for n in range(3)] == [False, True, True]
    held.find(ANNA, "image", "1")
    held.add(BERT, "image", "3", bytes(55_000))
    assert bytes_of(held) <= 100_000
    # The one that was used last stays.
    assert [held.find(ANNA, "image", str(n)) is not None for n in (1, 2)] == [True, False]
    held.add(ANNA, "image", "1", bytes(20_000))
    assert bytes_of(held) == 75_000


def test_very_many_very_small_files_have_no_more_room():
    held = MediaStore(most_bytes=100_000, own_bytes=100_000, age_s=60)
    for n in range(1000):
        held.add(f"{n:032x}", "image", "x", b"1")
    assert sum(held.find(f"{n:032x}", "image", "x") is not None for n in range(1000)) == 50


def test_one_address_has_its_share_of_the_room():
    held = MediaStore(most_bytes=400_000, own_bytes=400_000, age_s=60)
    held.add("c" * 32, "image", "c", bytes(50_000), "203.0.113.9")
    for n in range(10):
        held.add(f"{n:032x}", "image", "x", bytes(40_000), "198.51.100.7")
    assert bytes_of(held) == 130_000
    assert held.find("c" * 32, "image", "c") is not None


def test_what_nobody_uses_goes_though_nobody_asks():
    held = MediaStore(most_bytes=10_000, own_bytes=10_000, age_s=0.05)
    held.add(ANNA, "image", "1", b"1")
    comes_true(lambda: bytes_of(held) == 0)


@pytest.fixture
def mine(monkeypatch):
    """Return what a form calls a picture that Anna has given here."""
    held = MediaStore(10_000_000, 10_000_000, 60)
    monkeypatch.setattr(visitor_media, "MEDIA", held)
    info = visitor_media.store_upload(ANNA, "image", picture_file())
    return visitor_media.to_form_name(info)


def test_a_form_names_what_its_visitor_has_given(mine):
    found = visitor_media.media_from_form({"image": mine, "visitor": ANNA})
    assert found["image"].sha256 == mine.removeprefix(HELD_PREFIX)
    assert visitor_media.to_form_name(found["image"]) == mine
    assert visitor_media.media_from_form({"image": None, "audio": ""}) == {}


@pytest.mark.parametrize(
    ("image", "visitor"),
    [
        ("{mine}", BERT),
        ("{mine}", None),
        ("{mine}", ["a"] * 32),
        ("held:" + "0" * 64, ANNA),
        ("held:", ANNA),
        ("/etc/passwd", ANNA),
        ("assets/media/scene-1.png", ANNA),
        ("file:///etc/passwd", ANNA),
        (7, ANNA),
        ({"path": "/etc/passwd"}, ANNA),
        ([0] * 9, ANNA),
    ],
)
def test_a_form_names_nothing_else(mine, image, visitor):
    named = mine if image == "{mine}" else image
    with pytest.raises(ParameterError) as refused:
        visitor_media.media_from_form({"image": named, "visitor": visitor})
    assert refused.value.parameter == "image"
    clean(str(refused.value))


def test_a_link_says_what_it_lacks(mine):
    found, lacks = visitor_media.media_from_link({"image": mine}, ANNA)
    assert (list(found), lacks) == (["image"], [])
    assert visitor_media.media_from_link({"image": mine}, BERT) == ({}, ["image"])
    assert visitor_media.media_from_link({"image": EXAMPLE_PREFIX + "scene-1"}, None) == (
        {"image": EXAMPLE_PREFIX + "scene-1"},
        [],
    )


def test_a_program_brings_the_bytes(mine):
    del mine
    text = base64.b64encode(picture_file()).decode()
    plain = visitor_media.media_from_call({"image": text})["image"]
    marked = visitor_media.media_from_call({"image": f"data:image/png;base64,{text}"})["image"]
    assert plain.sha256 == marked.sha256
    for wrong in ("no base64!", "/etc/passwd", 3, ["x"], "held:" + plain.sha256, text[:400]):
        with pytest.raises(ParameterError) as refused:
            visitor_media.media_from_call({"image": wrong})
        clean(str(refused.value))


def test_a_question_about_a_strangers_run_names_no_picture_of_his(mine):
    sha256 = mine.removeprefix(HELD_PREFIX)
    trace = {"media": [{"kind": "image", "sha256": sha256, "example": None}], "seed": 1}
    asked = {"action": "why", "trace": trace, "visitor": BERT}
    [hidden] = hide_foreign_media(asked)["trace"]["media"]
    assert hidden["sha256"] == "0" * 64
    assert trace["media"][0]["sha256"] == sha256
    [own] = hide_foreign_media({**asked, "visitor": ANNA})["trace"]["media"]
    assert own["sha256"] == sha256
    # A name of an example does not open what is none.
    trace["media"][0]["example"] = "scene-1"
    assert hide_foreign_media(asked)["trace"]["media"][0]["sha256"] == "0" * 64
    for odd in ("x", None, [], [3], {"media": "x"}, {"media": [3]}):
        assert hide_foreign_media({"trace": odd}) == {"trace": odd}


def test_what_is_on_its_way_is_counted_and_forgotten():
    import asyncio

    async def parts():
        for _ in range(4):
            yield b"x" * 10

    before = BODY_BUDGET.bytes
    assert run_in_thread(lambda: asyncio.run(BODY_BUDGET.read(parts(), 40))) == b"x" * 40
    assert BODY_BUDGET.bytes == before


def test_who_sends_is_written_down_nowhere():
    kept = visitor_media.without_visitor({"image": "held:1", "visitor": ANNA, "press": "p"})
    assert ANNA not in json.dumps(kept)
    assert re.fullmatch(r"[0-9a-f]{32}", ANNA)


def test_an_endpoint_takes_a_file_in_base64_that_may_be_large(server, tmp_path):
    folder = seer(tmp_path)
    text = base64.b64encode(picture_file(900, 600, "BMP")).decode()
    assert len(text) > 2_000_000
    params = {"max_new_tokens": 3}
    event, data = server.call("greedy", {"image": text}, folder, params, 0)
    assert event == "complete", data
    assert len(data[0]["outputs"][0]["token_ids"]) == 3
    said = server.refusal("greedy", {"image": text[:2000]}, "storyteller", params, 0)
    assert said.startswith("image = ")
    small = base64.b64encode(picture_file()).decode()
    said = server.refusal("greedy", {"image": small, "prompt": "Once"}, "storyteller", params, 0)
    assert "storyteller reads no pictures" in said
    said = server.refusal("greedy", {"prompt": ""}, folder, params, 0)
    assert said.startswith("prompt = ")
    assert server.call("greedy", {"text": text}, folder, params, 0)[0] == "refused"
    server.works()
