"""What Gradio draws of the page itself, in the language of its reader."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from playground.i18n.languages import other_languages, server_catalogue
from playground.shell.page_head import translate_components
from tests.helpers.client import Client

_CONFIG = re.compile(r"window\.gradio_config = (\{.*?\});</script>", re.DOTALL)


def config_of(page: str) -> dict[str, Any]:
    found = _CONFIG.search(page)
    assert found
    return json.loads(found[1])


def labels(config: dict[str, Any]) -> list[str]:
    return [c["props"]["label"] for c in config["components"] if c["type"] == "tabitem"]


def pieces(config: dict[str, Any]) -> list[str]:
    """Return what is read of what Gradio draws as HTML."""
    values = (c["props"].get("value") for c in config["components"] if c["type"] == "html")
    return [piece for value in values if value for piece in re.findall(r">([^<>]+)<", value)]


@pytest.mark.parametrize("language", other_languages())
def test_tabs_and_head_are_named_in_the_language(server: Client, language: str) -> None:
    english = config_of(server.get("/?lang=en").text)
    other = config_of(server.get(f"/?lang={language}").text)
    known = server_catalogue(language)
    assert len(labels(english)) > 15
    assert labels(other) == [known.get(label, label) for label in labels(english)]
    assert len(pieces(english)) >= 6
    assert pieces(other) == [known.get(piece, piece) for piece in pieces(english)]
    if language == "de":
        assert labels(other) != labels(english)
    for config in (english, other):
        for component in config["components"]:
            for name in ("label", "value"):
                component["props"].pop(name, None)
        # These are of the request.
        config.pop("username", None), config.pop("root", None)
    assert other == english


@pytest.mark.nightly
@pytest.mark.parametrize("language", other_languages())
def test_no_tab_and_no_part_of_the_head_lacks_its_name(server: Client, language: str) -> None:
    english, known = config_of(server.get("/?lang=en").text), server_catalogue(language)
    wanted = {*labels(english), *pieces(english)} - {"Decoding Playground"}
    assert not wanted - {*known}


def test_without_words_a_page_stays_as_it_is() -> None:
    page = b'<head><script>window.gradio_config = {"components":[]};</script></head>'
    assert translate_components(page, server_catalogue("en")) is page
    assert translate_components(b"<head></head>", {"a": "b"}) == b"<head></head>"


def test_no_word_ends_the_script_that_contains_it() -> None:
    config = {"components": [{"type": "tabitem", "props": {"label": "Compare"}}]}
    page = f"<script>window.gradio_config = {json.dumps(config)};</script>".encode()
    hostile = "</script><script>alert(1)</script>"
    written = translate_components(page, {"Compare": hostile}).decode()
    assert written.count("</script>") == 1
    assert labels(config_of(written)) == [hostile]


def test_words_become_no_markup_and_markup_no_words() -> None:
    config = {"components": [{"type": "html", "props": {"value": "<p title='a'>a</p><p>b</p>"}}]}
    page = f"<script>window.gradio_config = {json.dumps(config)};</script>".encode()
    written = config_of(translate_components(page, {"a": "<i>x</i>", "title": "y"}).decode())
    value = written["components"][0]["props"]["value"]
    assert value == "<p title='a'>&lt;i&gt;x&lt;/i&gt;</p><p>b</p>"
