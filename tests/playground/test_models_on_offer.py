"""A model that is brought while the server runs is on offer with the next page."""

from __future__ import annotations

import dataclasses
import shutil
from urllib.request import urlopen

from engine.sources import catalogue
from engine.sources.catalogue import CATALOGUE, MODEL_DIR, SOURCE_FILE
from playground.forms.spec import page_spec
from playground.server.deployment import visitor_permissions
from tests.helpers.patience import PATIENCE_S
from tests.helpers.served import SERVED_HERE, served

pytestmark = SERVED_HERE

NAME = "smollm2"


def offered(url):
    with urlopen(url, timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    assert _option("storyteller", text)
    return _option(NAME, text)


def _option(name, text):
    """Return whether a page has this model among those it offers, not just among those that it can install."""
    return f'{{"name":"{name}","title":"{CATALOGUE[name].title}' in text


def test_the_next_page_offers_what_was_brought_meanwhile(tmp_path, monkeypatch):
    settings = dataclasses.replace(catalogue.SETTINGS, models=str(tmp_path))
    monkeypatch.setattr(catalogue, "SETTINGS", settings)
    before = page_spec()
    with served() as (url, _):
        assert not offered(url)
        assert page_spec() is before, "it is made anew for every page"
        assert NAME not in dict(visitor_permissions(settings))["Models"]
        shutil.copytree(MODEL_DIR / "storyteller", tmp_path / "beside")
        (tmp_path / "beside" / SOURCE_FILE).write_text('{"wheel": "one"}')
        (tmp_path / "beside").rename(tmp_path / NAME)
        assert offered(url)
        assert NAME in dict(visitor_permissions(settings))["Models"]
        shutil.rmtree(tmp_path / NAME)
        assert not offered(url)
    [model] = [m for m in before["models"] if m["name"] == "storyteller"]
    assert model["title"].endswith("12 M · Apache-2.0")
