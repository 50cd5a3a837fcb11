"""The page's scripts: what is served under which address, and nothing else."""

from __future__ import annotations

import json
import re

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from playground import scripts


@pytest.fixture(scope="module")
def client():
    return TestClient(Starlette(routes=scripts.routes()))


def address(name):
    return f"/scripts/{scripts.version()}/{name}"


def test_every_module_is_served_as_one_and_may_be_kept(client):
    assert scripts.ENTRY in scripts.modules()
    assert all(name.endswith(".mjs") for name in scripts.modules())
    for name, content in scripts.modules().items():
        answer = client.get(address(name))
        assert answer.content == content
        assert answer.headers["content-type"].startswith("text/javascript")
        assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize(
    "name",
    [
        "playground/client/core.css",
        "playground/app.py",
        "playground/client/../app.py",
        "playground/client/%2e%2e/app.py",
        "visualizers/%2e%2e/%2e%2e/etc/passwd",
        "/etc/passwd",
        "tests/js/traces.mjs",
        "",
    ],
)
def test_nothing_else_is_served(client, name):
    assert client.get(address(name)).status_code == 404


def test_a_module_of_another_version_is_not_served(client):
    assert client.get(f"/scripts/{'0' * 16}/{scripts.ENTRY}").status_code == 404


def test_another_content_has_another_address(monkeypatch):
    first = scripts.version()
    changed = {**scripts.modules(), scripts.ENTRY: b"export const page = 1;"}
    monkeypatch.setattr(scripts, "modules", lambda: changed)
    assert scripts.version.__wrapped__() != first


def test_the_head_asks_for_every_module_relative_to_the_page():
    head = scripts.head({"recorded": None})
    asked = re.findall(r'<link rel="modulepreload" href="([^"]+)">', head)
    assert asked == [f".{address(name)}" for name in scripts.modules()]
    assert f"import(new URL('.{address(scripts.ENTRY)}', document.baseURI))" in head


def test_no_text_of_a_run_can_end_the_script():
    text = "</script><script>alert(1)</script><!--"
    script = scripts.head({"text": text}).split("<script>", 1)[1].removesuffix("</script>")
    assert "<" not in script
    given = script.split("page.open(", 1)[1].rsplit(")));", 1)[0]
    assert json.loads(given) == {"text": text}


def test_the_styles_of_every_picture_are_in_the_page():
    styles = scripts.styles()
    for start in (".bt-", ".dt-", ".lh-", ".cs-", ".wm-", ".pt-", ".dp-card"):
        assert start in styles
