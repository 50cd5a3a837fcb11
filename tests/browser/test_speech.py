"""A model that transcribes speech is told a language, a task and times: on every form, in every link."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import expect

from tests.helpers.axe import grave
from tests.helpers.pages import (
    address,
    fits,
    give,
    name_model,
    open_compare_settings,
    open_tab,
    run,
    run_of,
    settled,
    shot,
    start,
    status,
    trace_of,
    with_model,
)
from tests.helpers.pictures import sound_file
from tests.helpers.seers import LANGUAGES, TASKS, listener
from visualizers.page import page as drawn_page

TOLD = {"language": "de", "task": "translate", "return_timestamps": True}


@pytest.fixture(scope="module")
def ears(tmp_path_factory):
    """Return the folder of a tiny model that knows three languages, both tasks, and times."""
    return listener(tmp_path_factory.mktemp("ears"), LANGUAGES, TASKS, times=True)


@pytest.fixture(scope="module")
def english(tmp_path_factory):
    """Return the folder of one that knows English alone, and times, and hears ten seconds."""
    return listener(tmp_path_factory.mktemp("english"), times=True, window=10)


def told(page, name, tab="greedy"):
    return page.locator(f"#{tab}-{name}")


def listening(opener, folder, path="/", **size):
    """Open a page whose form has a model and a sound for it."""
    page = with_model(opener, folder, path=path, **size)
    hear(page)
    return page


def hear(page, tab="greedy"):
    give(page, sound_file(1.0), tab, "audio", "a.wav", "audio/wav")
    expect(page.locator(f"#{tab}-audio figcaption")).to_contain_text(re.compile("^1[.,]0 s"))


def tell(page, tab="greedy"):
    """Say all that can be said, with the keyboard alone."""
    language = told(page, "language", tab).get_by_role("combobox")
    language.focus()
    # One letter: a browser takes the next for a new word when it comes too late.
    page.keyboard.press("G")
    expect(language).to_have_value("de")
    told(page, "task", tab).get_by_role("combobox").select_option("translate")
    told(page, "return_timestamps", tab).get_by_role("checkbox").press("Space")


def options(page, name, tab="greedy"):
    return told(page, name, tab).locator("option").all_inner_texts()


def test_only_what_a_model_accepts_is_there(open_page, ears, english):
    page = open_page("/")
    group = page.get_by_role("group", name="What the model should know about the sound")
    expect(group).to_have_count(0)
    name_model(page, ears)
    expect(group).to_be_visible()
    assert options(page, "language") == ["heard by itself", "English", "German", "Japanese"]
    assert options(page, "task") == ["left to the model", "transcribe", "translate to English"]
    expect(page.get_by_label("Language", exact=True)).to_have_value("")
    # One that knows one language has no choice of it.
    name_model(page, english)
    expect(told(page, "language")).to_have_count(0)
    expect(told(page, "task")).to_have_count(0)
    expect(page.get_by_label("Times", exact=True)).to_be_visible()
    page.locator("#greedy-model select").select_option("storyteller")
    expect(group).to_be_hidden()


@pytest.mark.nightly
def test_a_run_gets_what_was_chosen_and_begins_with_it(open_page, ears):
    page = listening(open_page, ears)
    run(page, "greedy")
    by_itself = trace_of(page, "greedy")
    assert by_itself.speech is None
    tell(page)
    stage = page.locator("#greedy-stage")
    expect(stage.locator(".dp-settings-changes")).to_contain_text(
        "Language heard by itself → German, Task left to the model → translate to English, Times off → on"
    )
    run(page, "greedy")
    trace = trace_of(page, "greedy")
    assert trace.speech == TOLD
    begins = [trace.pieces[token] for token in trace.prompt_ids]
    assert begins[1:] == ["<|de|>", "<|translate|>"]
    expect(stage.locator(".dp-v-media")).to_contain_text(
        "Also given: Language German · Task translate to English · Times on"
    )
    assert ["Language", "German"] in run_of(page, "greedy", "changed")
    settled(page)
    shot(page, "speech")
    assert fits(page)
    # The address has it, and the page that is loaded anew says it again.
    query = parse_qs(urlsplit(address(page, "language=")).query)
    assert [query[name] for name in ("language", "task", "timestamps")] == [
        ["de"],
        ["translate"],
        ["1"],
    ]
    page.reload()
    expect(told(page, "language").get_by_role("combobox")).to_have_value("de")
    expect(told(page, "task").get_by_role("combobox")).to_have_value("translate")
    expect(told(page, "return_timestamps").get_by_role("checkbox")).to_be_checked()
    # Nobody has typed the model here, and the page knows all its languages.
    expect(told(page, "language").locator("option")).to_have_count(4)
    run(page, "greedy")
    again = trace_of(page, "greedy")
    assert (again.speech, again.prompt_ids) == (TOLD, trace.prompt_ids)
    told(page, "language").get_by_role("button", name="Language: changed").click()
    expect(told(page, "language").get_by_role("combobox")).to_have_value("")
    expect(told(page, "language").get_by_role("combobox")).to_be_focused()


@pytest.mark.nightly
def test_no_more_is_recorded_and_read_than_the_model_takes(open_page, ears, english):
    page = listening(open_page, ears)
    record = page.locator("#greedy-audio .md-record")
    expect(record).to_have_attribute("title", "Up to 30 seconds")
    name_model(page, english)
    expect(record).to_have_attribute("title", "Up to 10 seconds")
    run(page, "greedy")
    give(page, sound_file(12.0), "greedy", "audio", "a.wav", "audio/wav")
    expect(page.locator("#greedy-audio figcaption")).to_contain_text("12.0 s")
    start(page, "greedy")
    expect(status(page, "greedy")).to_contain_text("hears up to 10 seconds; give a shorter one.")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("query", "says"),
    [
        (
            {"task": "sing"},
            "speech.task = 'sing' is not allowed: it must be one of transcribe, translate.",
        ),
        (
            {"timestamps": "yes"},
            "timestamps = 'yes' is not allowed: the link's must be 1, or left out.",
        ),
        ({"language": "x" * 40}, "is not allowed: it must be a language, such as en."),
    ],
)
def test_what_a_link_says_wrongly_gets_a_sentence(open_page, ears, query, says):
    page = open_page("/?" + urlencode({"strategy": "greedy", "model": ears, **query}))
    expect(status(page, "greedy")).to_contain_text(says)


@pytest.mark.nightly
def test_a_language_that_the_model_does_not_know_is_shown_and_refused(open_page, ears):
    page = listening(open_page, ears)
    run(page, "greedy")
    said = urlsplit(address(page, "audio="))
    query = {name: one for name, [one] in parse_qs(said.query).items()}
    asked = urlencode({**query, "language": "sv", "prompt": ""})
    page.goto(said._replace(query=asked).geturl())
    expect(told(page, "language").get_by_role("combobox")).to_have_value("sv")
    expect(told(page, "language").locator("option")).to_have_count(5)
    start(page, "greedy")
    expect(status(page, "greedy")).to_contain_text(
        "speech.language = 'sv' is not allowed: the model does not know it, or knows one language alone."
    )


@pytest.mark.nightly
def test_a_comparison_and_draws_tell_it_to_whom_knows_it(open_page, ears, english):
    page = open_page("/?tab=draws")
    name_model(page, ears, "draws")
    hear(page, "draws")
    tell(page, "draws")
    page.locator("#draws-draws input[type=number]").fill("4")
    page.locator("#draws-run").click()
    expect(page.locator("#draws-tree")).to_contain_text("4 of 4")
    query = parse_qs(urlsplit(address(page, "speech")).query)
    assert (
        '"speech":{"language":"de","task":"translate","return_timestamps":true}' in query["form"][0]
    )
    open_tab(page, "Compare")
    columns = page.locator("#compare .cmp-column")
    expect(columns).to_have_count(4)
    open_compare_settings(page)
    for label in "DC":
        page.get_by_role("button", name=f"Remove column {label}").click()
    for place, folder in enumerate((ears, english)):
        columns.nth(place).locator(".f-model select").first.select_option(label="Another…")
        typed = columns.nth(place).locator(".f-model input[type=text]").first
        typed.fill(folder)
        typed.press("Tab")
    expect(told(page, "language", "compare")).to_be_visible()
    hear(page, "compare")
    tell(page, "compare")
    page.locator("#compare").get_by_role("button", name="Run all").click()
    expect(page.locator(".cmp-ask > .dp-status")).to_contain_text("Done.")
    said = page.evaluate(
        "[...playground.page.runs.values()].filter((r) => r.media?.length).map((r) => r.speech)"
    )
    assert said == [TOLD, {"return_timestamps": True}]
    settled(page)
    shot(page, "speech-compare")
    # Its address says the same of each column.
    page.reload()
    expect(told(page, "language", "compare").get_by_role("combobox")).to_have_value("de")
    expect(told(page, "return_timestamps", "compare").get_by_role("checkbox")).to_be_checked()


@pytest.mark.nightly
def test_on_a_phone_in_german_and_in_the_dark(open_page, ears):
    page = listening(open_page, ears, path="/?lang=de&__theme=dark", width=390, height=844)
    assert options(page, "language") == [
        "selbst herausgehört",
        "Deutsch",
        "Englisch",
        "Japanisch",
    ]
    told(page, "language").get_by_role("combobox").select_option("ja")
    expect(told(page, "language")).to_contain_text("Was darin gesprochen wird.")
    before = start(page, "greedy")
    page.wait_for_function(
        "(before) => playground.page.runId('greedy') !== before"
        " && playground.page.shown('greedy')?.status === 'finished'",
        arg=before,
    )
    expect(page.locator("#greedy-stage .dp-v-media")).to_contain_text(
        "Außerdem angegeben: Sprache Japanisch"
    )
    assert fits(page)
    settled(page)
    shot(page, "speech-390-dark")


@pytest.mark.nightly
def test_nobody_meets_a_serious_obstacle(open_page, ears):
    for theme in ("light", "dark"):
        page = listening(open_page, ears, path=f"/?__theme={theme}")
        tell(page)
        run(page, "greedy")
        settled(page)
        shot(page, f"speech-{theme}")
        assert grave(page) == []


@pytest.mark.nightly
def test_a_saved_page_says_it(open_page, ears, tmp_path):
    page = listening(open_page, ears)
    tell(page)
    run(page, "greedy")
    trace = trace_of(page, "greedy")
    file = tmp_path / "run.html"
    drawn_page(trace).save(file)
    page.goto(file.as_uri())
    expect(page.locator(".dp-v-media")).to_contain_text("Also given: Language German")
