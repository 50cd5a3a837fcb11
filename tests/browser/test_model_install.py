"""A model that is not on the machine comes by a button, with its progress, and can be stopped."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from engine.sources.installable import INSTALLABLE
from tests.helpers.hub import repository_at, serving
from tests.helpers.pages import fill, fits, run, run_of, shot, show
from tests.helpers.server import playground
from tests.helpers.visits import Pages

WEIGHTS = "model.safetensors"


@pytest.mark.nightly
def test_a_button_brings_a_model_that_then_runs(browser, tmp_path, monkeypatch):
    repository_at(tmp_path / "hub" / INSTALLABLE["smollm2"].hub)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    with serving(tmp_path / "hub") as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        hub.waits[WEIGHTS] = 1000
        with playground(tmp_path / "log.txt", models=tmp_path / "models") as url:
            pages = Pages(browser, url)
            page = pages.open("/")
            show(page, "greedy")
            field = page.locator("#greedy-model")
            get = field.get_by_role("button", name="Get SmolLM2 (93 MB)")
            get.click()
            expect(field).to_contain_text("Fetching SmolLM2 135M Instruct from the hub")
            expect(field.locator("progress")).to_be_visible()
            assert fits(page)
            shot(field, "install")
            field.get_by_role("button", name="Stop the download").click()
            expect(field).to_contain_text("The download was stopped; nothing of it stays.")
            hub.go_on.set()
            get.click()
            expect(field).to_contain_text("It is here. Press Run.")
            expect(field.locator("select")).to_have_value("smollm2")
            expect(get).to_be_hidden()
            fill(page, "greedy-max_new_tokens", 3)
            run(page, "greedy")
            assert run_of(page, "greedy", "model")["id"] == "smollm2"
            pages.close()
