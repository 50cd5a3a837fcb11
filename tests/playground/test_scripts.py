"""The page's scripts: what is served under which address, and nothing else."""

from __future__ import annotations

import json
import re

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from playground import scripts
from playground.join import JoinError, join


@pytest.fixture(scope="module")
def client():
    return TestClient(Starlette(routes=scripts.routes()))


def address(name):
    return f"/scripts/{scripts.version()}/{name}"


def test_the_scripts_are_served_as_modules_and_may_be_kept(client):
    assert list(scripts.served()) == ["index.mjs", "saved.mjs"]
    for name, content in scripts.served().items():
        answer = client.get(address(name))
        assert answer.content == content
        assert answer.headers["content-type"].startswith("text/javascript")
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


def test_a_module_of_another_version_is_not_served(client):
    assert client.get(f"/scripts/{'0' * 16}/index.mjs").status_code == 404


def test_another_content_has_another_address(monkeypatch):
    first = scripts.version()
    changed = {**scripts.served(), "saved.mjs": b"export const open = 1;"}
    monkeypatch.setattr(scripts, "served", lambda: changed)
    assert scripts.version.__wrapped__() != first


def test_the_head_asks_relative_to_the_page():
    head = scripts.head({"recorded": None})
    assert f'<link rel="modulepreload" href=".{address("index.mjs")}">' in head
    assert f"import(new URL('.{address('index.mjs')}', document.baseURI))" in head


def test_modules_are_joined_behind_those_they_import_and_keep_their_scope():
    modules = {
        "a/index.mjs": 'import { b as other, c } from "../b.mjs";\nexport const page = other + c();\n',
        "b.mjs": 'export { c } from "./c.mjs";\nconst page = 1;\nexport const b = page;\n',
        "c.mjs": "export function c() {\n  return 2;\n}\n",
        "d.mjs": "not joined",
    }
    joined = join(modules, "a/index.mjs")
    assert "not joined" not in joined
    assert [joined.index(f"// {name}") for name in ("c.mjs", "b.mjs", "a/index.mjs")] == sorted(
        joined.index(f"// {name}") for name in list(modules)[:3]
    )
    assert re.findall(r"^export .*", joined, re.MULTILINE) == ["export const { page } = module2;"]
    assert "const { b: other, c } = module1;" in joined


@pytest.mark.parametrize(
    "text",
    [
        'import * as b from "./b.mjs";',
        'import b from "./b.mjs";',
        'import { c } from "./c.mjs";',
        'import { a } from "./a.mjs";',
        "export default 1;",
        "export let b = 1;",
        "export { b };",
    ],
)
def test_other_forms_are_refused(text):
    with pytest.raises(JoinError, match=r"^a\.mjs "):
        join({"a.mjs": f"{text}\n", "b.mjs": "export const b = 1;\n"}, "a.mjs")


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
