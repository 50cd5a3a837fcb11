"""The page that says what a deployment is: true, whole, and without a secret."""

from __future__ import annotations

import dataclasses
import json

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from engine.errors import ModelError
from engine.settings import Settings
from engine.sources.catalogue import CATALOGUE
from playground.server import audit, deployment

PART = {
    "part": "load",
    "title": "Steps <b>under</b> load",
    "n": 1200,
    "figures": {"seconds": 1.23456, "lost": 0},
    "goals": {"lost": "0"},
    "held": True,
}


@pytest.fixture
def client():
    return TestClient(Starlette(routes=audit.routes()))


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Return a function that records something as the last reliability run."""
    path = tmp_path / "reliability.json"
    monkeypatch.setattr(deployment, "RELIABILITY_FILE", path)
    return path.write_text


def test_the_page_and_its_values_say_the_same(client, recorded):
    recorded(json.dumps({"date": "2026-01-02", "commit": "abc", "parts": [PART]}))
    values, page = client.get("/audit.json").json(), client.get("/audit").text
    assert values["limits"]
    for limit in values["limits"]:
        assert limit["name"] in page
        assert audit._format_number(limit["value"]) in page
    for path, digest in values["models"]["files"].items():
        assert path in page
        assert digest in page
    for subject, sentence in values["allows"]:
        assert audit.escape(subject) in page
        assert audit.escape(sentence) in page
    assert values["commit"] in page
    assert "lost 0 (goal 0); seconds 1.23" in page
    assert "1,200" in page
    assert "2026-01-02" in page
    assert "Steps &lt;b&gt;under" in page


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"held": True}, "✓ held<"),
        ({"held": False}, "✗ not held"),
        ({}, "✗ not held"),
        ({"held": True, "slow": ["worst_s"]}, "✓ held, too slow"),
    ],
)
def test_what_was_missed_is_said(about, says):
    assert says in audit._goals_html(about)


def test_every_limit_is_named_with_what_it_is_worth():
    changed = dataclasses.replace(Settings(), max_beams=3, away_s=2.5)
    rows = {row["name"]: row for row in deployment.list_limits(changed)}
    numbers = {f.name for f in dataclasses.fields(Settings) if type(f.default) in (int, float)}
    assert set(rows) == numbers
    assert (rows["max_beams"]["value"], rows["away_s"]["value"]) == (3, 2.5)
    assert rows["max_beams"]["default"] == Settings().max_beams
    assert rows["max_body_s"]["means"].startswith("How long a request, or its headers")
    assert "(else 16)" in "".join(audit._limits_section([rows["max_beams"]]))


def test_what_a_space_allows_is_not_what_an_owner_may_do():
    own = dict(deployment.visitor_permissions(Settings()))
    public = dict(deployment.visitor_permissions(Settings(public=True)))
    listed = dict(deployment.visitor_permissions(Settings(public=True, allowed_models="a/b c/d")))
    assert "every model of the hub" in own["Models"]
    assert "none of the hub" in public["Models"]
    assert "a/b, c/d" in listed["Models"]
    methods = dict(deployment.visitor_permissions(Settings(public=True, allowed_methods="a/b@c#d")))
    assert "confirmed" in own["Custom methods"]
    assert "of the hub: none;" in public["Custom methods"]
    assert "of the hub: a/b@c#d;" in methods["Custom methods"]
    assert public["The hub's token"] == "Never sent."
    assert own["The hub's token"] != public["The hub's token"]
    assert own["Frames"] != public["Frames"]
    assert public["Weights"] == "Held as this machine does by default; besides: float32."
    assert own["Weights"] != public["Weights"]
    memory = dict(deployment.visitor_permissions(Settings(journal="")))
    assert memory["Prompts and runs"] != own["Prompts and runs"]


def test_no_secret_and_no_path_is_reported(client, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    text = client.get("/audit").text + client.get("/audit.json").text
    assert "hf_secret" not in text
    assert str(deployment.ROOT) not in text
    assert "/root" not in text
    assert ".db" not in text


def test_a_damaged_model_is_said_to_be_damaged(monkeypatch):
    def damaged(name):
        raise ModelError(f"The embedded model {name} is damaged.")

    monkeypatch.setattr(deployment, "check_embedded_files", damaged)
    found = deployment.check_models.__wrapped__()
    assert set(found["state"]) == {e.name for e in CATALOGUE.values() if e.embedded}
    page = "".join(audit._models_section(found))
    assert "as shipped" not in page
    assert page.count("✗") == len(found["files"]) > 10


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"parts": 5}', '{"parts": [5]}', '{"parts": [{"goals": {}}]}']
)
def test_a_damaged_record_is_none(recorded, client, content):
    recorded(content)
    assert deployment.read_reliability() is None
    assert "None is recorded here." in client.get("/audit").text


def test_the_commit_is_what_git_says_or_what_is_set(monkeypatch):
    monkeypatch.setenv("PLAYGROUND_COMMIT", "f00d")
    assert deployment.commit_hash.__wrapped__() == "f00d"
    monkeypatch.delenv("PLAYGROUND_COMMIT")
    monkeypatch.setenv("PATH", "")
    assert deployment.commit_hash.__wrapped__() == deployment.UNKNOWN
