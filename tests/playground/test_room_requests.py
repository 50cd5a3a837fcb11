"""What is asked of rooms over HTTP: pages, cookies, files, and every odd request answered with one sentence."""

from __future__ import annotations

import json

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from engine.messages import Message
from playground.i18n.translate import Translator
from playground.rooms import page
from playground.rooms.routes import routes
from playground.server import middleware
from tests.helpers.rooms import Hand, rooms_of, write_lesson
from tests.helpers.sentences import clean

HERE = "192.0.2.1"


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    return write_lesson(tmp_path_factory.mktemp("lessons"))


@pytest.fixture
def rooms(lesson):
    return rooms_of(lesson, Hand())


@pytest.fixture
def opened(rooms):
    """Return an open room's code and its teacher's secret."""
    room, secret = rooms.open("kinds", "en", 1, HERE)
    return room.state.code, secret


@pytest.fixture
def site(rooms):
    app = Starlette(routes=routes(rooms), middleware=middleware.build_middleware({}))
    return TestClient(app, base_url="http://127.0.0.1")


def post(site, path, body, **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return site.post(path, content=content, headers=headers)


_VOTE, _TEACH = "/room/{code}/vote", "/room/{code}/teach"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/rooms", b""),
        ("/rooms", b"{"),
        ("/rooms", b"\xff"),
        ("/rooms", b"[]"),
        ("/rooms", b"null"),
        ("/rooms", {}),
        ("/rooms", {"lesson": 5}),
        ("/rooms", {"lesson": "nowhere"}),
        ("/rooms", {"lesson": "../../etc/passwd"}),
        ("/rooms", {"lesson": "kinds", "language": ["en"]}),
        ("/rooms", {"lesson": "kinds", "card": 0}),
        ("/rooms", {"lesson": "kinds", "card": 99}),
        ("/rooms", {"lesson": "kinds", "card": "1"}),
        ("/rooms", {"lesson": "kinds", "card": True}),
        ("/rooms", {"lesson": "kinds", "more": 1}),
        (_VOTE, b"{" * 5000),
        (_VOTE, b"[" * 100 + b"]" * 100),
        (_VOTE, b'{"card": 1, "card": 1, "answer": 0}'),
        (_VOTE, b'{"card": 1, "answer": NaN}'),
        (_VOTE, b'{"card": 1, "answer": 1e999}'),
        (_VOTE, b'{"card": 1, "answer": ' + b"1" * 5000 + b"}"),
        (_VOTE, b'{"card": 1, "answer": "' + b"x" * 8000 + b'"}'),
        (_VOTE, {"card": 1}),
        (_VOTE, {"answer": 1}),
        (_VOTE, {"card": 1, "answer": 9}),
        (_VOTE, {"card": "1", "answer": 0}),
        (_VOTE, {"card": 2, "answer": 0}),
        (_VOTE, {"card": 1, "answer": 0, "participant": "another"}),
        (_TEACH, {"act": "reveal"}),
        (_TEACH, {"act": "reveal", "card": 3}),
        (_TEACH, {"act": "show", "card": 99}),
        (_TEACH, {"act": "show", "card": 10**30}),
        (_TEACH, {"act": "explode"}),
        (_TEACH, {"act": ["close"]}),
        (_TEACH, {"act": "qr"}),
        (_TEACH, {"act": "qr", "address": "http://evil.example/room/OTHER"}),
        (_TEACH, {"act": "qr", "address": 5}),
        ("/room/NNNNNN/vote", {"card": 1, "answer": 0}),
        ("/room/NNNNNN/teach", {"act": "close"}),
        ("/room/" + "x" * 5000 + "/vote", {"card": 1, "answer": 0}),
    ],
    ids=str,
)
def test_a_malformed_request_is_answered_with_one_sentence(site, opened, path, body):
    code, secret = opened
    site.get(f"/room/{code}")
    answer = post(site, path.format(code=code), body, **{"x-room-secret": secret})
    assert 400 <= answer.status_code < 500, answer.text
    if "json" in answer.headers["content-type"]:
        assert clean(answer.json()["error"]).endswith(".")
        assert answer.headers["cache-control"] == "no-store"
    else:
        # Refused before any route reads it.
        assert clean(answer.text).endswith(".")


@pytest.mark.parametrize("path", ["/rooms", "/room/{code}/vote", "/room/{code}/teach"])
def test_a_page_of_another_origin_does_nothing_in_a_room(site, opened, path):
    code, secret = opened
    headers = {"origin": "http://evil.example", "x-room-secret": secret}
    assert post(site, path.format(code=code), {"act": "close"}, **headers).status_code == 403


def test_who_has_not_entered_neither_bets_nor_listens(site, opened):
    code, _ = opened
    sent = {"card": 1, "answer": 0}
    for answer in (
        post(site, f"/room/{code}/vote", sent),
        site.get(f"/room/{code}/events"),
        post(site, f"/room/{code}/vote", sent, cookie="participant=made-up"),
        site.get(f"/room/{code}/events", headers={"x-room-secret": "made up"}),
    ):
        assert answer.status_code == 403
        clean(answer.json()["error"])


def test_a_page_enters_once_and_its_cookie_is_the_rooms_own(site, rooms, opened):
    code, _ = opened
    answer = site.get(f"/room/{code}")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    cookie = answer.headers["set-cookie"].lower()
    for part in ("httponly", "samesite=lax", f"path=/room/{code.lower()}"):
        assert part in cookie
    assert "secure" not in cookie
    for _ in range(3):
        site.get(f"/room/{code}")
    assert len(rooms.find_room(code, HERE).state.people) == 1
    assert post(site, f"/room/{code}/vote", {"card": 1, "answer": 2}).status_code == 200
    https = TestClient(
        site.app,
        base_url="http://127.0.0.1",
        headers={"x-forwarded-proto": "https"},
        client=("127.0.0.1", 50_000),
    )
    assert "secure" in https.get(f"/room/{code}").headers["set-cookie"].lower()
    https.head(f"/room/{code}", headers={"cookie": ""})
    assert len(rooms.find_room(code, HERE).state.people) == 2, "whoever only looks does not enter"


def test_a_wrong_code_and_an_ended_room_get_the_same_answer(site, rooms, opened):
    code, secret = opened
    site.get(f"/room/{code}")
    assert (
        post(site, f"/room/{code}/teach", {"act": "close"}, **{"x-room-secret": secret}).status_code
        == 200
    )
    asked = [
        [
            site.get(f"/room/{one}"),
            site.get(f"/room/{one}/events"),
            post(site, f"/room/{one}/vote", {"card": 1, "answer": 0}),
        ]
        for one in (code, "NNNNNN")
    ]
    for ended, wrong in zip(*asked, strict=True):
        assert ended.status_code == wrong.status_code == 404
        assert ended.text == wrong.text
        assert "set-cookie" not in ended.headers


def test_a_code_may_be_typed_in_small_letters_and_with_spaces(site, opened):
    code, _ = opened
    small = f"{code[:3]} {code[3:]}".lower()
    for path in (f"/room/{small}", f"/room?code={small}"):
        answer = site.get(path, follow_redirects=False)
        assert answer.status_code == 303
        assert answer.headers["location"].endswith(f"/{code}")
    assert "Code of the room" in site.get("/room").text
    for odd in ("//evil.example", "..", "%2F%2Fevil.example", "x" * 3000):
        answer = site.get("/room", params={"code": odd}, follow_redirects=False)
        assert answer.status_code == 200


def test_the_page_loads_its_own_files_alone(site, opened):
    code, _ = opened
    page = site.get(f"/room/{code}")
    policies = page.headers.get_list("content-security-policy")
    assert any(policy.startswith("default-src 'none'") for policy in policies)
    files = [
        part.split('"')[0] for part in page.text.split('="./')[1:] if part.startswith("room-files/")
    ]
    assert len(files) == 2
    total = 0
    for file in files:
        answer = site.get(f"/{file}")
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["content-encoding"] == "gzip"
        total += len(answer.content)
        assert site.get(f"/{file.replace('/', '/0', 1)}").status_code == 404
    assert total < 120_000
    text = page.text.lower()
    assert "gradio" not in text
    assert "plotly" not in text


def test_the_door_speaks_the_language_of_who_knocks(site, monkeypatch):
    german = {
        "Enter": "Hinein",
        "Code of the room": "Code des Raums",
        "There is no such room: it has ended, or its code is another one.": "Den Raum gibt es nicht.",
        "This room is full: it holds {most} people.": "Voll: {most} Leute.",
    }
    monkeypatch.setattr(
        page, "translator_for", lambda language: Translator(german if language == "de" else {})
    )
    for path, headers in (("/room?lang=de", {}), ("/room", {"accept-language": "de-AT,de;q=0.9"})):
        answer = site.get(path, headers=headers)
        assert "Accept-Language" in answer.headers["vary"]
        assert '<html lang="de">' in answer.text
        assert ">Hinein</button>" in answer.text
        assert "Code of the room" not in answer.text
    assert "Den Raum gibt es nicht." in site.get("/room/NNNNNN?lang=de").text
    assert "There is no such room" in site.get("/room/NNNNNN").text
    full = page.refusal_page(
        Message("This room is full: it holds {most} people.", most=40), 403, "de"
    ).body.decode()
    assert "Voll: 40 Leute." in full
    unknown = page.refusal_page("Nobody knows this.", 403, "de").body.decode()
    assert "Nobody knows this." in unknown


def test_a_participant_is_sent_the_words_of_his_page_alone():
    sent = page.participant_page("de").body.decode()
    assert "Tipp ändern" in sent
    assert "Arbeitsblatt drucken" not in sent
