"""Custom methods in the browser: code that is seen before it runs, arguments as controls, one that is made here."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from engine.sandbox.folder import read_method
from engine.sandbox.method_templates import own_methods_folder
from tests.helpers.methods import write_method
from tests.helpers.pages import (
    drawn,
    fits,
    open_settings,
    run_of,
    select,
    shot,
    show,
    start,
    status,
    tokens,
    trace_of,
)

pytestmark = pytest.mark.nightly

CODE = "custom_generate/generate.py"
# Writes what it is told without asking the model: nothing of how it decides can be seen.
BLIND = """
import torch

def generate(model, input_ids, generation_config=None, first: int = 300, many: bool = False, **kwargs):
    new = [first + i for i in range(6 if many else 3)]
    return torch.cat([input_ids, torch.tensor([new])], -1)
"""
README = """# Blind

It writes what it is told.

| name | kind | what |
|---|---|---|
| `first` | int | the first token |
"""


def panel(page):
    return page.locator("#custom-method-code")


def name_method(page, name):
    field = page.locator("#custom-method")
    field.locator("select").select_option(label="Another…")
    own = field.get_by_role("textbox")
    own.fill(name)
    own.press("Tab")
    return field


def ended(page, before):
    page.wait_for_function(
        "before => !['', before].includes(playground.page.runId('custom'))"
        " && playground.page.shown('custom').status === 'finished'",
        arg=before,
    )
    drawn(page, "custom")


def test_the_code_of_a_folder_is_seen_confirmed_and_run(open_page, tmp_path):
    folder = write_method(tmp_path / "blind", BLIND, readme=README)
    page = open_page("/")
    show(page, "custom")
    # What the tab opens with comes from the server, and fills the form.
    expect(status(page, "custom")).to_contain_text("A recorded run")
    field = name_method(page, str(folder))
    open_settings(page, "custom")
    about = page.locator("#custom-method-about")
    expect(about).to_contain_text("It writes what it is told. A folder of this machine.")
    expect(field.get_by_role("status")).to_contain_text("Nobody has confirmed its code here yet")
    expect(panel(page)).to_be_hidden()
    # Run says that it may not, and shows the code.
    page.locator("#custom-run").click()
    expect(status(page, "custom")).to_contain_text("has not been confirmed on this machine")
    sha256 = read_method(folder).sha256
    expect(panel(page)).to_contain_text(sha256)
    expect(panel(page).get_by_role("textbox")).to_have_value(BLIND)
    expect(panel(page)).to_contain_text("2 GB beyond the model")
    confirm = panel(page).get_by_role("button", name="Run this code here")
    expect(confirm).to_be_focused()
    assert fits(page)
    shot(page, "method-code")
    # Something changes it meanwhile: what was not seen is not confirmed.
    (folder / CODE).write_text(BLIND + "# now\n")
    page.keyboard.press("Enter")
    expect(panel(page)).to_contain_text("The code has changed since it was shown")
    expect(panel(page).get_by_role("textbox")).to_have_value(BLIND + "# now\n")
    panel(page).get_by_role("button", name="Run this code here").press("Enter")
    expect(panel(page)).to_be_hidden()
    expect(page.locator("#custom-run")).to_be_focused()
    expect(status(page, "custom")).to_contain_text("Its code is confirmed")
    # Its arguments have controls, which write one object.
    own = page.locator("#custom-arguments")
    dial = page.locator("#custom-arguments-first")
    expect(dial).to_contain_text("the first token")
    first = dial.get_by_role("spinbutton")
    expect(first).to_have_attribute("placeholder", "300")
    first.fill("305")
    expect(own.locator("[data-param=arguments]")).to_have_value('{"first": 305}')
    own.get_by_role("checkbox", name="many", exact=True).check()
    expect(own.locator("[data-param=arguments]")).to_have_value('{"first": 305, "many": true}')
    own.get_by_role("checkbox", name="many", exact=True).uncheck()
    ended(page, start(page, "custom"))
    expect(tokens(page, "custom")).to_have_count(3)
    trace = trace_of(page, "custom")
    assert trace.outputs[0].token_ids == (305, 306, 307)
    assert trace.config["arguments"] == {"first": 305}
    assert trace.method.name == str(folder)
    assert trace.method.sha256 == read_method(folder).sha256 != sha256
    expect(page.locator("#custom-stage .dp-v-about")).to_contain_text(str(folder))
    said_from_outside(page)
    link = page.evaluate("playground.page.shown('custom').link")
    # Somebody else's link with a folder of this machine does not run by itself.
    other = open_page("/" + link)
    expect(status(other, "custom")).to_contain_text("This link asks for")
    assert other.evaluate("playground.page.activity('custom')") is None
    expect(other.get_by_role("spinbutton", name="first", exact=True)).to_have_value("305")


def said_from_outside(page):
    """What decided was not seen; what stands there is told from outside and by that name."""
    said = "read from outside, in one pass over the finished text"
    for place, token in enumerate(tokens(page, "custom").all()):
        expect(token, str(place)).to_have_attribute("title", re.compile(re.escape(said)))
    select(page, "custom", 0)
    candidates = page.locator("#custom-stage .dp-v-candidates")
    expect(candidates).to_contain_text("What decided this step was not seen.")
    expect(candidates).to_contain_text(said)
    expect(candidates.locator(".cb-row.on")).to_have_count(1)
    expect(candidates).not_to_contain_text("Entropy")


@pytest.mark.parametrize("size", [{"width": 1440, "height": 1000}])
def test_one_is_made_broken_mended_and_run(open_page, size):
    page = open_page("/", **size)
    show(page, "custom")
    open_settings(page, "custom")
    page.locator("#custom-method-about").get_by_role("button", name="New method…").click()
    name = page.get_by_label("Its name")
    expect(name).to_be_focused()
    name.fill("../evil")
    name.press("Enter")
    expect(panel(page).get_by_role("status").first).to_contain_text("is not allowed")
    expect(name).to_be_focused()
    name.fill("browser_made")
    name.press("Enter")
    editor = panel(page).get_by_role("textbox")
    expect(editor).to_be_focused()
    expect(page.locator("#custom-method select")).to_have_value("browser_made")
    before = editor.input_value()
    # Tab indents; after Esc it leaves.
    page.keyboard.press("Control+End")
    page.keyboard.press("Tab")
    expect(editor).to_have_value(before + "    ")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(editor).not_to_be_focused()
    broken = before.replace("def rule(", "def rule((", 1)
    line = broken[: broken.index("def rule((")].count("\n") + 1
    editor.fill(broken)
    # What was typed outlives the page.
    page.reload()
    page.wait_for_function("window.playground?.page?.connected()")
    show(page, "custom")
    page.locator("#custom-method select").select_option("browser_made")
    open_settings(page, "custom")
    page.get_by_role("button", name="Change its code").click()
    expect(editor).to_have_value(broken)
    expect(panel(page)).to_contain_text("What you typed last is not saved yet")
    # Run saves it, and points at the line.
    page.locator("#custom-run").click()
    expect(panel(page).locator(".ce-say")).to_contain_text(f"{CODE}, line {line}: ")
    expect(panel(page).locator(".ce-numbers .bad")).to_have_text(str(line))
    expect(editor).to_be_focused()
    assert editor.evaluate("e => e.value.slice(0, e.selectionStart).split('\\n').length") == line
    assert page.evaluate("playground.page.activity('custom')") is None
    assert (own_methods_folder() / "browser_made" / CODE).read_text() == broken
    shot(page, "method-broken")
    failing = before.replace("def rule(", "def rule(*_):\n    return 1 / 0\n\n\ndef other(", 1)
    editor.fill(failing)
    page.locator("#custom-run").click()
    expect(panel(page).locator(".ce-say")).to_contain_text(f"line {line + 1}: ZeroDivisionError")
    expect(panel(page).locator(".ce-numbers .bad")).to_have_text(str(line + 1))
    editor.fill(before)
    page.keyboard.press("Control+s")
    expect(panel(page)).to_contain_text("Saved. Run uses it.")
    expect(panel(page).locator(".ce-numbers .bad")).to_have_count(0)
    ended(page, start(page, "custom"))
    assert run_of(page, "custom", "outputs")[0]["text"]
    assert run_of(page, "custom", "method")["name"] == "browser_made"
    command = panel(page).locator(".me-command code")
    assert command.text_content().endswith("browser_made --to owner/browser_made")
