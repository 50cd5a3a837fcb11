"""Requests that would cost much are refused by their bytes, before anything parses them."""

from __future__ import annotations

import json

import pytest

from engine.errors import ParameterError
from engine.strategies import STRATEGIES
from playground.forms import link_values, links
from playground.server import request_schema
from playground.server.request_schema import CALL_PATH, JOIN_PATH, check_request
from tests.helpers.bombs import MAX_MORE_MB, lists, peak_mb

CALL = f"{CALL_PATH}greedy"
PICTURE = b'{"data": [{"image": "aGk=", "text": "x"}, null, %s, 0]}'
MANY_LISTS = (400, "The request has more than 10,000 objects and lists.")
MANY_BYTES = (
    413,
    "The request has more than 1,000,000 bytes in addition to one picture or sound in base64.",
)


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("path", "body", "refusal"),
    [
        (CALL, b'{"data": ["a", null, {"bad_words_ids": %s}, 0]}' % lists(900_000), MANY_LISTS),
        (CALL, b'{"data": ["a", null, {"bad_words_ids": %s}, 0]}' % lists(50_000), MANY_LISTS),
        (CALL, b'{"data": [%s, null, {}, 0]}' % lists(900_000), MANY_LISTS),
        (CALL, b'{"data": ["a", null, {}, 0], "x": %s}' % lists(900_000), MANY_LISTS),
        (CALL, PICTURE % lists(35_000_000), MANY_LISTS),
        (CALL, PICTURE % (b"[" + b"1," * 15_000_000 + b"1]"),
         (400, "The request has more than 500,000 values.")),
        (CALL, PICTURE % (b'["' + b"A" * 15_000_000 + b'","' + b"A" * 15_000_000 + b'"]'), MANY_BYTES),
        (CALL, PICTURE % (b" " * 30_000_000 + b"{}"), MANY_BYTES),
        (JOIN_PATH, b'{"fn_index": 0, "data": %s}' % lists(900_000),
         (400, "The request has more than 50,000 objects and lists.")),
        (f"{CALL_PATH}v2/greedy", b'{"prompt": "a", "params": {"bad_words_ids": %s}}' % lists(900_000),
         MANY_LISTS),
        ("/gradio_api/cancel", lists(900_000),
         (400, "The request has more than 50,000 objects and lists.")),
        ("/v1/chat/completions", b'{"model": "a", "messages": %s}' % lists(900_000),
         (400, "The request has more than 50,000 objects and lists.")),
        ("/gradio_api/mcp/", b'{"method": "tools/call", "params": %s}' % lists(900_000),
         (400, "The request has more than 50,000 objects and lists.")),
        ("/rooms", lists(900_000), (400, "The request has more than 50,000 objects and lists.")),
        (JOIN_PATH, b"[" * 900_000, (400, "The request nests deeper than 100 levels.")),
        (JOIN_PATH, ('{"a": "\\"", "b": %s}' % ("[" * 100_000)).encode("utf-16"),
         (400, "The request is not JSON in UTF-8.")),
    ],
)  # fmt: skip
def test_a_body_that_would_cost_much_is_not_parsed(path, body, refusal, monkeypatch):
    monkeypatch.setattr(json, "loads", lambda *_: pytest.fail("it was parsed"))
    found = []
    assert peak_mb(lambda: found.append(check_request(path, body, {0: 0})[0])) < MAX_MORE_MB
    assert found == [refusal]


def test_a_picture_as_one_string_may_be_large_and_is_parsed_once(monkeypatch):
    body = json.dumps({"data": [{"image": "A" * 30_000_000}, None, {}, 0]}).encode()
    parsed, whole = [], json.loads
    monkeypatch.setattr(request_schema.json, "loads", lambda text: parsed.append(1) or whole(text))
    assert check_request(CALL, body, {})[0] is None
    assert parsed == [1]
    named = json.dumps({"prompt": "", "image": "A" * 30_000_000}).encode()
    assert check_request(f"{CALL_PATH}v2/greedy", named, {}) == (None, named)


def test_a_large_call_without_a_picture_is_refused():
    body = json.dumps({"data": ["A" * 2_000_000, None, {}, 0]}).encode()
    assert check_request(CALL, body, {})[0] == (413, "The request is too large.")


def test_a_link_is_parsed_no_further_than_its_limit(monkeypatch):
    parsed, whole = [], json.loads
    monkeypatch.setattr(links.json, "loads", lambda text: parsed.append(len(text)) or whole(text))
    long = "[" + "[]," * 1_000_000 + "[]]"
    with pytest.raises(ParameterError, match="the link's"):
        links._read_json({"messages": long}, "messages", list)
    with pytest.raises(ParameterError, match="the link's"):
        links._read_tab_form("compare", {"form": long}, None)
    with pytest.raises(ParameterError, match="the link's"):
        link_values.read_params(long, STRATEGIES["greedy"], "storyteller")
    assert parsed == [100_000, 100_000, 8_000]
