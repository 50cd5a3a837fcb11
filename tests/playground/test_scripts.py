"""The page's scripts: what is served under which address, and nothing else."""

from __future__ import annotations

import json

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from playground.shell import scripts
from visualizers import page
from visualizers.page import page_skeleton


@pytest.fixture(scope="module")
def client():
    return TestClient(Starlette(routes=scripts.routes()))


def address(name):
    return f"/scripts/{scripts.asset_version()}/{name}"


def test_the_scripts_are_served_as_a_module_and_may_be_kept(client):
    answer = client.get(address("index.mjs"))
    assert answer.content == scripts.joined_scripts()
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize(
    ("pictures", "plotly"),
    [
        ("", False),
        ("candidates,beam_tree", False),
        ("strip,xray,chart", False),
        ("<b>,layer_heatmap", True),
    ],
)
def test_a_saved_page_has_the_skeleton_that_its_pictures_need(client, pictures, plotly):
    answer = client.get(address("page.html"), params={"pictures": pictures})
    assert answer.text == page_skeleton(pictures.split(","))
    assert (len(answer.text) > 2_000_000) == plotly
    assert answer.headers["content-type"].startswith("text/plain")
    assert "immutable" in answer.headers["cache-control"]


@pytest.mark.parametrize(
    "name",
    [
        "core.css",
        "store.mjs",
        "playground/client/index.mjs",
        "../app.py",
        "%2e%2e/app.py",
        "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/etc/passwd",
        "",
    ],
)
def test_nothing_else_is_served(client, name):
    assert client.get(address(name)).status_code == 404


@pytest.mark.parametrize("name", ["index.mjs", "page.html"])
def test_nothing_of_another_version_is_served(client, name):
    assert client.get(f"/scripts/{'0' * 16}/{name}").status_code == 404


def test_another_content_has_another_address(monkeypatch):
    first = scripts.asset_version()
    with monkeypatch.context() as patch:
        patch.setattr(scripts, "joined_scripts", lambda: b"export const page = 1;")
        assert scripts.asset_version.__wrapped__() != first
    monkeypatch.setattr(page, "page_skeleton", lambda pictures: "another")
    assert scripts.asset_version.__wrapped__() != first


def test_the_head_asks_relative_to_the_page():
    head = scripts.head_html({"recorded": None})
    assert f'<link rel="modulepreload" href=".{address("index.mjs")}">' in head
    assert f"import(new URL('.{address('index.mjs')}', document.baseURI))" in head


def test_no_text_of_a_run_can_end_the_script():
    text = "</script><script>alert(1)</script><!--"
    script = scripts.head_html({"text": text}).split("<script>", 1)[1].removesuffix("</script>")
    assert "<" not in script
    given = script.split("page.open(", 1)[1].rsplit(")));", 1)[0]
    assert json.loads(given) == {"text": text}


def test_the_styles_of_every_picture_are_in_the_page():
    styles = scripts.joined_styles()
    for start in (".bt-", ".dt-", ".lh-", ".cs-", ".wm-", ".pt-", ".dp-card"):
        assert start in styles


def test_the_style_sheets_of_the_page_are_all_in_it():
    styles, sheets = scripts.joined_styles(), list(scripts.CLIENT.rglob("*.css"))
    assert len(sheets) > 10
    assert not [path.name for path in sheets if path.read_text("utf-8") not in styles]
