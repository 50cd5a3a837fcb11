"""The draft field of a tab offers what shares the target's tokenizer on this machine, and says why."""

from __future__ import annotations

import shutil

import pytest
from playwright.sync_api import expect

from engine.sources.catalogue import MODEL_DIR
from tests.helpers.pages import fill, fits, open_settings, own_model, run, run_of, shot, show

pytestmark = pytest.mark.nightly


@pytest.fixture
def shelf(tmp_path):
    """Return a folder with a target and a draft beside it that nobody has named."""
    shutil.copytree(MODEL_DIR / "storyteller", tmp_path / "target")
    shutil.copytree(MODEL_DIR / "storyteller-draft", tmp_path / "small")
    shutil.copytree(MODEL_DIR / "foreign-draft", tmp_path / "foreign")
    return tmp_path


@pytest.mark.parametrize("size", [{}, {"width": 390, "height": 900}])
def test_a_draft_next_to_the_target_is_found_and_used(open_page, shelf, size):
    page = open_page("/", **size)
    show(page, "speculative")
    open_settings(page, "speculative")
    page.locator("#speculative-model select").select_option(label="Another…")
    own = own_model(page.locator("#speculative-model"))
    own.fill(str(shelf / "target"))
    own.press("Tab")
    draft = page.locator("#speculative-assistant select")
    options = draft.locator(f"option[value^='{shelf}']")
    expect(options).to_have_count(1)
    draft.select_option(str(shelf / "small"))
    said = page.locator("#speculative-assistant .f-pair")
    expect(said).to_have_text(
        "All 4,096 tokens mean the same in both; its weights are 14 % of the main model's."
    )
    assert fits(page)
    shot(page.locator("#speculative-assistant"), "pairs")
    fill(page, "speculative-max_new_tokens", 8)
    run(page, "speculative")
    assert run_of(page, "speculative", "assistant")["id"] == str(shelf / "small")


def test_what_is_chosen_stays_chosen_when_others_are_found(open_page):
    page = open_page("/")
    show(page, "speculative")
    draft = page.locator("#speculative-assistant select")
    draft.focus()
    said = page.locator("#speculative-assistant .f-pair")
    expect(said).to_contain_text("All 4,096 tokens mean the same in both")
    expect(draft).to_have_value("storyteller-draft")
    # A draft of one's own says nothing of itself.
    draft.select_option(label="Another…")
    expect(said).to_be_hidden()


def test_a_model_made_for_early_exit_is_marked(open_page):
    page = open_page("/")
    show(page, "early_exit")
    page.locator("#early_exit-model select").select_option(label="Another…")
    own = own_model(page.locator("#early_exit-model"))
    own.fill("facebook/layerskip-llama3.2-1B")
    own.press("Tab")
    expect(page.locator("#early_exit-model .f-pair")).to_contain_text("LayerSkip")
