"""What Gradio draws of the page itself, in the language of its reader."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from playground.app import words
from playground.fresh import with_words
from playground.languages import languages
from tests.helpers.client import Client

_CONFIG = re.compile(r"window\.gradio_config = (\{.*?\});</script>", re.DOTALL)


def config_of(page: str) -> dict[str, Any]:
    found = _CONFIG.search(page)
    assert found
    return json.loads(found[1])


def labels(config: dict[str, Any]) -> list[str]:
    return [c["props"]["label"] for c in config["components"] if c["type"] == "tabitem"]


def head(config: dict[str, Any]) -> str:
    (found,) = (c for c in config["components"] if c["props"].get("elem_id") == "dp-head")
    return found["props"]["value"]


@pytest.mark.parametrize("language", languages()[1:])
def test_tabs_and_head_are_named_in_the_language(server: Client, language: str) -> None:
    english = config_of(server.get("/?lang=en").text)
    other = config_of(server.get(f"/?lang={language}").text)
    known = words(language)
    assert len(labels(english)) > 15
    assert labels(other) == [known[label] for label in labels(english)]
    assert labels(other) != labels(english)
    assert head(other) == known[head(english)] != head(english)
    for config in (english, other):
        for component in config["components"]:
            for name in ("label", "value"):
                component["props"].pop(name, None)
        # These are of the request.
        config.pop("username", None), config.pop("root", None)
    assert other == english


def test_without_words_a_page_stays_as_it_is() -> None:
    page = b'<head><script>window.gradio_config = {"components":[]};</script></head>'
    assert with_words(page, words("en")) is page
    assert with_words(b"<head></head>", {"a": "b"}) == b"<head></head>"


def test_no_word_ends_the_script_in_which_it_stands() -> None:
    config = {"components": [{"type": "tabitem", "props": {"label": "Compare"}}]}
    page = f"<script>window.gradio_config = {json.dumps(config)};</script>".encode()
    hostile = "</script><script>alert(1)</script>"
    written = with_words(page, {"Compare": hostile}).decode()
    assert written.count("</script>") == 1
    assert labels(config_of(written)) == [hostile]
