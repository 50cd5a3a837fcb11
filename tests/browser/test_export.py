"""A visitor takes a run away: code that is verified, figures, a page, a table, settings."""

from __future__ import annotations

import base64
import csv
import io
import json
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import expect

from engine.export.files import all_files, export_files
from engine.export.steps_csv import steps_csv
from engine.trace import json_io
from tests.helpers.pages import drawn, fill, finish, fits, link, run, shot, show, view


def decoded(open_page, strategy, size=None, **params):
    """Follow a link, which runs the strategy; return the page and its export card."""
    page = open_page(link(strategy, "Once upon a", **params), **(size or {}))
    finish(page, strategy)
    return page, view(page.locator(f"#{strategy}-stage"), "export")


def fetched(page, card, name):
    """Press a button of the card; return the name and the bytes of what it saves."""
    with page.expect_download() as download:
        card.get_by_role("button", name=name, exact=True).click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("strategy", "size"), [("contrastive_search", {}), ("sampling", {"width": 390, "height": 900})]
)
def test_verify_badges_equal_tokens(open_page, strategy, size):
    page, card = decoded(open_page, strategy, size=size, max_new_tokens=8)
    badge = card.locator(".ex-badge")
    expect(badge).to_be_hidden()
    card.get_by_role("button", name="Verify", exact=True).click()
    expect(badge).to_contain_text("fresh process")
    expect(badge).to_contain_text("✓ Verified. All 8 tokens are equal.")
    card.locator("summary").click()
    expect(card.locator(".ex-code")).to_contain_text("model.generate(")
    assert fits(page)
    shot(card, f"export-{strategy}")


@pytest.mark.nightly
def test_the_code_has_a_second_form(open_page):
    page, card = decoded(open_page, "contrastive_search", max_new_tokens=6)
    form = card.get_by_label("Form of the code")
    form.select_option("pipeline")
    card.locator("summary").click()
    expect(card.locator(".ex-code")).to_contain_text("pipe = pipeline(")
    assert b"pipe = pipeline(" in fetched(page, card, "Script (.py)")[1]
    card.get_by_role("button", name="Verify", exact=True).click()
    expect(card.locator(".ex-badge")).to_contain_text("✓ Verified. All 6 tokens are equal.")
    shot(card, "export-pipeline")
    # A verdict is about one form.
    form.select_option("generate")
    expect(card.locator(".ex-badge")).to_be_hidden()
    expect(card.locator(".ex-code")).not_to_contain_text("pipe = pipeline(")
    assert fits(page)


@pytest.mark.nightly
def test_a_run_that_no_pipeline_can_make_says_why(open_page):
    page = open_page("/")
    show(page, "greedy")
    page.locator("#greedy-model select").select_option("storyfixer")
    fill(page, "greedy-max_new_tokens", 4)
    run(page, "greedy")
    card = view(page.locator("#greedy-stage"), "export")
    form = card.get_by_label("Form of the code")
    form.select_option("pipeline")
    expect(card.locator(".ex-status")).to_contain_text("has removed text2text-generation")
    expect(form).to_have_value("generate")


@pytest.mark.nightly
def test_a_check_can_be_stopped(open_page):
    _, card = decoded(open_page, "greedy", max_new_tokens=6)
    halt = card.get_by_role("button", name="Stop the check", exact=True)
    expect(halt).to_be_hidden()
    card.get_by_role("button", name="Verify", exact=True).click()
    halt.click()
    badge = card.locator(".ex-badge")
    expect(badge).to_contain_text("Not checked: The check was stopped before the code had ended.")
    expect(halt).to_be_hidden()
    expect(card.get_by_role("button", name="Verify", exact=True)).to_be_enabled()


@pytest.mark.nightly
def test_a_run_whose_tokens_were_changed_is_not_verified(open_page):
    page, card = decoded(open_page, "greedy", max_new_tokens=6)
    page.evaluate(
        "() => { const run = playground.page.shown('greedy'); run.outputs[0].token_ids[3] = 7;"
        " run.pieces[7] = run.outputs[0].text; }"
    )
    card.get_by_role("button", name="Verify", exact=True).click()
    badge = card.locator(".ex-badge")
    expect(badge).to_contain_text("✗ Not the same. They differ from token 4 on")
    page.evaluate("() => { playground.page.shown('greedy').model.id = '/etc/evil'; }")
    page.evaluate("() => { playground.page.shown('greedy').model.dtype = 'import os'; }")
    card.get_by_role("button", name="Verify", exact=True).click()
    expect(badge).to_contain_text("Not checked: The model's dtype 'import os'")


def test_data_code_and_figures_are_saved(open_page, browser, tmp_path):
    page, card = decoded(open_page, "contrastive_search", max_new_tokens=8)
    name, data = fetched(page, card, "Trace (.json)")
    trace = json_io.loads(data)
    assert name == "contrastive_search-seed0.json"
    # The table of the page is the table of the command line; numbers may be spelled otherwise.
    _, data = fetched(page, card, "Steps (.csv)")
    ours, theirs = (
        list(csv.reader(io.StringIO(text))) for text in (steps_csv(trace), data.decode())
    )
    assert ours[0] == theirs[0]
    assert [[_value(c) for c in row] for row in ours] == [[_value(c) for c in r] for r in theirs]
    files = export_files(trace)
    assert fetched(page, card, "Script (.py)")[1].decode() == files["run.py"]
    assert json.loads(fetched(page, card, "Notebook (.ipynb)")[1])["nbformat"] == 4
    open_panels = page.locator("#contrastive_search-stage .dp-panel:visible")
    before = open_panels.count()
    _everything(fetched(page, card, "All files (.zip)")[1], trace)
    expect(open_panels).to_have_count(before)
    _figures(page, card)
    name, data = fetched(page, card, "Page (.html)")
    assert len(data) < 1_000_000
    expect(card.locator(".ex-status")).to_contain_text(f"Saved {name}, ")
    _opens_alone(browser, tmp_path, data, trace)


def _everything(data, trace):
    """The archive holds code, settings, trace, table, page and a picture of every card."""
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        assert packed.testzip() is None
        inside = {name: packed.read(name) for name in packed.namelist()}
    for path, text in all_files(trace).items():
        if path.endswith(".csv"):  # numbers may be spelled otherwise
            assert inside[path].count(b"\n") == len(trace.steps) + 1
        elif path.endswith("-seed0.json"):
            assert json_io.loads(inside[path]) == trace
        else:
            assert inside[path].decode() == text
    assert b'id="run"' in inside["contrastive_search-seed0.html"]
    pictures = [name for name in inside if name.startswith("figures/")]
    assert "figures/contrastive_search-seed0-text.png" in pictures
    assert {name.rpartition(".")[2] for name in pictures} == {"svg", "png"}
    # Also of what stood in a closed panel.
    assert "figures/contrastive_search-seed0-formulas-with-this-step-s-numbers.svg" in pictures


# How many points of a picture are nearly as dark as ink.
_INK = """async (data) => {
  const image = await createImageBitmap(await (await fetch(data)).blob());
  const canvas = new OffscreenCanvas(image.width, image.height), brush = canvas.getContext("2d");
  brush.drawImage(image, 0, 0);
  const { data: points } = brush.getImageData(0, 0, image.width, image.height);
  let dark = 0;
  for (let i = 0; i < points.length; i += 4)
    if (points[i] < 70 && points[i + 1] < 70 && points[i + 2] < 70) dark += 1;
  return dark;
}"""


@pytest.mark.nightly
def test_the_text_as_a_picture_is_not_faded(open_page):
    page = open_page("/?trace=greedy-1&step=5")
    drawn(page, "greedy")
    card = view(page.locator("#greedy-stage"), "export")
    expect(card.locator(".ex-select option").first).to_have_text("Text")
    _, png = fetched(page, card, "PNG")
    data = "data:image/png;base64," + base64.b64encode(png).decode()
    # Some 240 letters, each of dozens of dark points; at a fifth of its ink none would be.
    assert page.evaluate(_INK, data) > 4000


@pytest.mark.nightly
def test_paper_has_the_run_and_no_controls(open_page):
    page = open_page("/?trace=sampling-1&step=10&__theme=dark")
    stage = page.locator("#sampling-stage")
    expect(stage.locator(".dp-v-about")).to_be_hidden()
    page.emulate_media(media="print")
    facts = stage.locator(".dp-v-about")
    expect(facts).to_be_visible()
    expect(facts).to_contain_text("Once upon a time, there was a little frog who")
    expect(facts).to_contain_text("Temperature 0.5")
    for kept in ("strip", "candidates"):
        expect(stage.locator(f".dp-v-{kept}")).to_be_visible()
    for gone in ("#sampling-run", "#sampling-prompt", "#sampling-temperature", ".dp-presets"):
        expect(page.locator(gone).first).to_be_hidden()
    for gone in ("export", "family", "since"):
        expect(stage.locator(f".dp-v-{gone}")).to_be_hidden()
    expect(page.get_by_role("tab")).to_have_count(0)
    closed = [stage.locator(f".dp-v-{name}") for name in ("draw", "xray", "formula", "chart")]
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    for panel in closed:
        expect(panel.locator("> div")).to_be_visible()
    expect(stage.locator(".dp-v-formula math").first).to_be_visible()
    expect(stage.locator(".dp-v-what_if")).to_be_hidden()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    for panel in closed:
        expect(panel).to_be_hidden()
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)"


def _value(text):
    try:
        return float(text)
    except ValueError:
        return text


def _figures(page, card):
    """Every figure is saved; a picture of one is not empty."""
    options = card.locator(".ex-select option")
    expect(options).not_to_have_count(0)
    card.locator(".ex-select").focus()
    for title in (
        "Candidates: confidence against similarity",
        "Surprise and entropy over the text",
    ):
        card.locator(".ex-select").select_option(label=title)
        name, svg = fetched(page, card, "SVG")
        assert name.endswith(".svg")
        assert b"<svg" in svg[:200]
        assert b"http://localhost" not in svg
        _, png = fetched(page, card, "PNG")
        assert png[:8] == b"\x89PNG\r\n\x1a\n"
        assert len(png) > 5000


def _opens_alone(browser, folder, data, trace):
    """The saved page draws the run by itself, without asking anybody for anything."""
    path, problems = folder / "run.html", []
    path.write_bytes(data)
    alone = browser.new_page()
    alone.on("pageerror", lambda error: problems.append(str(error)))
    alone.on("request", lambda r: problems.append(r.url) if r.url.startswith("http") else None)
    alone.goto(path.as_uri())
    expect(alone.locator(".dp-tok[data-step]")).to_have_count(len(trace.steps))
    expect(view(alone, "contrastive").locator(".cs-row").first).to_be_visible()
    expect(view(alone, "chart").locator(".cv-curve")).to_have_count(2)
    alone.locator(".dp-tok[data-step]").first.click()
    expect(alone.locator(".dp-v-scrub output")).to_have_text(f"Word 1 of {len(trace.steps)}")
    alone.close()
    assert not problems


@pytest.mark.nightly
def test_settings_are_kept_side_by_side_loaded_and_refused(open_page):
    page, _ = decoded(open_page, "sampling", max_new_tokens=6)
    box = page.locator("#sampling-configs")
    box.locator("summary").click()
    keep(box, "short", "Kept as “short”")
    load_file(box, {"do_sample": True, "temperature": 0.4, "top_p": 0.8, "bos_token_id": 0})
    expect(box).to_contain_text("bos_token_id belongs to the model")
    expect(page.locator("#sampling-temperature input").first).to_have_value("0.4")
    keep(box, "<b>cool</b>", "Kept as “<b>cool</b>”")
    expect(box.locator("thead th")).to_have_text(["Parameter", "short", "<b>cool</b>"])
    row = box.locator("tr", has_text="temperature").locator("td")
    expect(row).to_have_text(["default", "0.4"])
    load_file(box, {"do_sample": True, "custom_generate": "evil/repo"})
    expect(box.locator(".ec-status.bad")).to_contain_text("custom_generate")
    expect(page.locator("#sampling-temperature input").first).to_have_value("0.4")
    box.get_by_role("button", name="Use short").click()
    expect(page.locator("#sampling-temperature input").first).to_have_value("1")
    with page.expect_download() as download:
        box.get_by_role("button", name="Save as file").click()
    saved = json.loads(Path(download.value.path()).read_text())
    assert (saved["max_new_tokens"], saved["do_sample"], saved["temperature"]) == (6, True, 1.0)
    shot(box, "settings")
    pasted = box.get_by_label("Settings as Python arguments or JSON")
    pasted.fill("do_sample=True, temperature=0.3, num_beems=2")
    box.get_by_role("button", name="Use pasted settings").click()
    expect(box.locator(".ec-status")).to_contain_text("did you mean num_beams")
    expect(page.locator("#sampling-temperature input").first).to_have_value("0.3")
    pasted.fill("num_beams=6, do_sample=True, max_length=50")
    box.get_by_role("button", name="Use pasted settings").click()
    expect(page.locator("#beam_sampling-num_beams input").first).to_have_value("6")
    expect(page.locator("#tab-beam_sampling")).to_contain_text("max_length = 50 counts the prompt")
    page.locator("#tab-sampling-button").click()
    # The address follows a moment later, and a page is opened again by it.
    page.wait_for_function("!location.search.includes('beam_sampling')")
    page.reload()
    page.wait_for_function("window.playground?.page?.connected()")
    page.locator("#sampling-configs summary").click()
    expect(page.locator("#sampling-configs thead th")).to_have_count(3)
    # The address asks for the run: a page that is closed in its midst reports what is broken off.
    finish(page, "sampling")


def keep(box, name, said):
    box.get_by_label("Name of these settings").fill(name)
    box.get_by_role("button", name="Keep").click()
    expect(box).to_contain_text(said)


def load_file(box, fields):
    content = json.dumps(fields).encode()
    chosen = {"name": "generation_config.json", "mimeType": "application/json", "buffer": content}
    box.locator("input[type=file]").set_input_files(chosen)
