"""Predict, then reveal: what comes next is nowhere on the stage, and the score is what Python makes of the trace."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from engine.analysis import gallery
from engine.inspection.step_questions import score_typed_text
from engine.statistics.metrics import perplexity_from_logprobs
from engine.strategies import STRATEGIES
from engine.trace.records import chosen_token_id
from tests.helpers.nightly import mark_nightly
from tests.helpers.pages import (
    drawn,
    fill,
    fits,
    link,
    open_tab,
    shot,
    start,
    status,
    trace_of,
    view,
)
from visualizers.page import page as page_of

# A run of the gallery again, each token by a name that stands nowhere else, drawn whole and with every panel open.
MARKED = """(key) => {
  const { trace, shown } = playground.page.shown(key).source;
  const mark = Object.keys(trace.pieces).map((id) => [id, `tok${id}x`]);
  const marked = { ...trace, pieces: Object.fromEntries(mark), notes: ["tok-note"] };
  playground.page.showTrace(key, { trace: marked, shown }, "recorded");
  const stage = playground.page.stages.find((s) => s.strategy === key && s.root.isConnected);
  stage.unfold();
  playground.page.select(playground.page.shown(key), 5);
}"""
# Names of tokens that nothing before a step names, and those of them that stand on the stage.
LEAKED = """([key, index]) => {
  const stage = playground.page.stages.find((s) => s.strategy === key && s.root.isConnected);
  const html = stage.root.cloneNode(true);
  html.querySelector(".pd-offers")?.remove();
  const run = playground.page.shown(key), steps = run.source?.trace.steps ?? run.steps;
  const ids = ({ emit, candidates }) => [...emit, ...candidates.map((c) => c.token_id)];
  // Whatever number a picture of an earlier step may name.
  const told = steps.slice(0, index).flatMap(({ detail }) => JSON.stringify(detail ?? 0).match(/\\d+/g).map(Number));
  const before = [...run.prompt_ids, ...steps.slice(0, index).flatMap(ids), ...told,
    ...steps[index].emit.slice(0, -1)];
  const secret = steps.slice(index).flatMap(ids).filter((id) => !before.includes(id));
  return [secret.length, secret.filter((id) => html.outerHTML.includes(run.pieces[id])), stage.run.steps.length];
}"""
HAS_ENDED = """([key, before]) => {
  const run = window.playground?.page?.shown(key);
  return run && run.id !== before && ["finished", "stopped"].includes(run.status);
}"""
SCORE = re.compile(
    r"(\d+) guess(?:es)?, (\d+) right · your perplexity (\S+), the model's (\S+?)\.$"
)


def card(page, key="greedy"):
    return view(page.locator(f"#{key}-stage"), "predict")


def asked(box):
    """Return the index of the step that is to be guessed."""
    legend = box.locator("legend")
    expect(legend).to_contain_text("which token comes next?")
    return int(re.search(r"Step (\d+)", legend.inner_text())[1]) - 1


def begin(box):
    """Press the switch; return the index of the first step that is guessed."""
    box.get_by_role("switch").click()
    return asked(box)


def guess(box, place):
    """Guess the offer at a place; return its token."""
    label = box.locator(".pd-offer").nth(place)
    label.click()
    token = int(label.locator("input").get_attribute("value"))
    box.get_by_role("button", name="Reveal", exact=True).click()
    expect(box.get_by_role("button", name="Next", exact=True)).to_be_focused()
    return token


def next_step(box, before):
    """Go on to the next step that is guessed; return its index."""
    box.get_by_role("button", name="Next", exact=True).click()
    expect(box.locator("legend")).not_to_contain_text(f"Step {before + 1}:")
    return asked(box)


def candidate(step, token):
    return next(c for c in step.candidates if c.token_id == token)


def scored(box):
    """Return guesses, right ones, one's own perplexity and the model's, as the page writes them."""
    expect(box.locator(".pd-score")).to_contain_text(SCORE)
    return SCORE.search(box.locator(".pd-score").inner_text()).groups()


def opened(open_page, key, name, **size):
    """Return a page with the run that a tab opens with, and that run; a link would open it a second time."""
    page = open_page(**size)
    # A click without a pointer would not end the page's wait for the tab of its address.
    open_tab(page, STRATEGIES[key].tab)
    page.wait_for_function(
        "([key, name]) => playground.page.shown(key)?.entry === name", arg=[key, name]
    )
    expect(status(page, key)).to_contain_text("A recorded run")
    return page, gallery.open_entry(gallery.find_entry(name).file)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("sampling", "sampling-1"),
        *mark_nightly(
            (key, f"{key}-1") for key in ("greedy", "beam_search", "speculative", "dola")
        ),
    ],
)
def test_nothing_of_a_step_is_on_the_stage_before_it_is_guessed(open_page, key, name):
    page, trace = opened(open_page, key, name)
    page.evaluate(MARKED, key)
    drawn(page, key)
    box = page.locator(f"#{key}-stage .dp-v-predict")  # no tab to press: every panel is open
    at, logprobs, own = begin(box), [], []
    for place in (0, 3, 5, 1):
        secret, leaked, seen = page.evaluate(LEAKED, [key, at])
        assert secret > 0
        assert (leaked, seen) == ([], at), f"step {at}"
        token = guess(box, place)
        step = trace.steps[at]
        # Then it is shown: the text, the candidates, the step.
        expect(page.locator(f"#{key}-stage .dp-tok[data-step='{at}']").last).to_be_visible()
        expect(page.locator(f"#{key}-stage .dp-v-scrub output")).to_contain_text(
            f"Word {step.keep + len(step.emit)} of"
        )
        expect(box.locator(".pd-status")).to_contain_text(f"tok{chosen_token_id(step)}x")
        logprobs.append(candidate(step, token).raw_logprob)
        own.append(candidate(step, chosen_token_id(step)).raw_logprob)
        at = next_step(box, at)
    right = sum(a == b for a, b in zip(logprobs, own, strict=True))
    expected = (
        "4",
        str(right),
        f"{perplexity_from_logprobs(logprobs):.2f}",
        f"{perplexity_from_logprobs(own):.2f}",
    )
    assert scored(box) == expected
    shot(page, f"predict-{key}")


@pytest.mark.nightly
def test_keys_alone_from_the_switch_to_the_score(open_page):
    page, trace = opened(open_page, "sampling", "sampling-1")
    box = card(page, "sampling")
    box.get_by_role("switch").focus()
    page.keyboard.press("Enter")
    expect(box.get_by_role("radio").first).to_be_focused()
    expect(box.get_by_role("switch")).to_have_attribute("aria-checked", "true")
    assert asked(box) == 0
    page.keyboard.press("Enter")
    expect(box.locator(".pd-status")).to_contain_text("Choose a token or type one")
    page.keyboard.press("2")
    expect(box.get_by_role("radio").nth(1)).to_be_checked()
    token = int(box.get_by_role("radio").nth(1).get_attribute("value"))
    page.keyboard.press("Enter")
    expect(box.locator(".pd-status")).to_contain_text("the model gave it")
    expect(box.get_by_role("button", name="Next", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    assert asked(box) == 1
    # The text's keys do not lead past what was guessed.
    page.locator("#sampling-stage .dp-tok[data-step]").focus()
    page.keyboard.press("End")
    assert page.evaluate(LEAKED, ["sampling", 1])[2] == 1
    expect(page.locator("#sampling-stage .dp-tok[data-step]")).to_have_count(1)
    box.get_by_role("radio").first.focus()
    page.keyboard.press("Escape")
    expect(box.get_by_role("switch")).to_be_focused()
    expect(page.locator("#sampling-stage .dp-tok[data-step]")).to_have_count(len(trace.steps))
    written = candidate(trace.steps[0], chosen_token_id(trace.steps[0])).raw_logprob
    guessed_right = str(int(token == chosen_token_id(trace.steps[0])))
    own = candidate(trace.steps[0], token).raw_logprob
    expected = (
        "1",
        guessed_right,
        f"{perplexity_from_logprobs([own]):.2f}",
        f"{perplexity_from_logprobs([written]):.2f}",
    )
    assert scored(box) == expected


@pytest.mark.nightly
def test_a_typed_word_outside_the_candidates_is_worth_what_the_model_gave_to_it(open_page):
    page, trace = opened(open_page, "greedy", "greedy-1")
    box = card(page)
    at = begin(box)
    known = {c.token_id for c in trace.steps[at].candidates}
    tried = (
        (word, score_typed_text(trace, at, word))
        for word in ("played", "loved", "ran", "saw", "jumped", "sat")
    )
    word, odds = next((w, o) for w, o in tried if o.token_id not in known and not o.note)
    box.get_by_label("Type the next token").fill(word)
    page.keyboard.press("Enter")
    expect(box.locator(".pd-status")).to_contain_text(f"You said “{odds.name}”: the model gave it")
    expect(box.locator(".pd-status")).to_contain_text(f"rank {odds.rank + 1}.")
    _, _, own, _ = scored(box)
    assert own == f"{perplexity_from_logprobs([odds.logprob]):,.2f}"
    # One asks right away why not.
    box.get_by_role("button", name=re.compile("^Why not")).click()
    expect(page.locator("#greedy-stage .dp-v-why .wy-title")).to_contain_text(odds.name)
    # A word may be typed without its space, and a candidate needs no server.
    at = next_step(box, at)
    own = trace.steps[at].emit[0]
    page.route("**/gradio_api/**", lambda route: route.abort())
    box.get_by_label("Type the next token").fill(trace.pieces[own].strip())
    page.keyboard.press("Enter")
    expect(box.locator(".pd-status")).to_contain_text("it is: the model gave it")


@pytest.mark.nightly
def test_a_run_that_begins_meanwhile_is_hidden_from_its_first_token(open_page):
    page = open_page(link("sampling", "Once upon a time", max_new_tokens=2))
    page.wait_for_function(HAS_ENDED, arg=["sampling", ""])
    box = card(page, "sampling")
    begin(box)
    # The form asks for the same once more, with more tokens.
    fill(page, "sampling-max_new_tokens", 6)
    before = start(page, "sampling")
    page.wait_for_function(HAS_ENDED, arg=["sampling", before])
    assert asked(box) == 0
    expect(page.locator("#sampling-stage .dp-tok[data-step]")).to_have_count(0)
    trace, at, tokens = trace_of(page, "sampling"), 0, []
    assert len(trace.steps) == 6
    for _ in trace.steps[1:]:
        tokens.append(guess(box, 4))
        at = next_step(box, at)
    logprobs = [candidate(trace.steps[i], t).raw_logprob for i, t in enumerate(tokens)]
    assert scored(box)[2] == f"{perplexity_from_logprobs(logprobs):.2f}"
    guess(box, 0)
    box.get_by_role("button", name="Next", exact=True).click()
    expect(box.locator(".pd-status")).to_contain_text("Nothing is left to guess.")
    expect(box.get_by_role("switch")).to_have_attribute("aria-checked", "false")
    expect(page.locator("#sampling-stage .dp-tok[data-step]")).to_have_count(6)


@pytest.mark.nightly
def test_outputs_are_guessed_one_at_a_time(open_page):
    page = open_page(link("sampling", "Once upon a", max_new_tokens=3, num_return_sequences=2))
    page.wait_for_function(HAS_ENDED, arg=["sampling", ""])
    page.evaluate("playground.page.select(playground.page.shown('sampling'), 3)")
    box = card(page, "sampling")
    # Of the two that begin side by side the first gives the second one's token away.
    assert begin(box) == 1
    expect(page.locator("#sampling-stage .dp-tok[data-step]")).to_have_count(0)
    guess(box, 0)
    assert next_step(box, 1) == 3
    expect(page.locator("#sampling-stage .dp-tok[data-step]")).to_have_count(2)


@pytest.mark.nightly
def test_a_search_passes_over_what_it_takes_back_and_a_draft_shows_what_it_had(open_page):
    page, trace = opened(open_page, "beam_search", "beam_search-1")
    box = card(page, "beam_search")
    at, said = begin(box), []
    for _ in range(len(trace.steps)):
        said.append(box.locator(".pd-status").inner_text())
        if "Passed over" in said[-1]:
            break
        box.get_by_role("button", name="Show it", exact=True).click()
        at = next_step(box, at)
    assert re.match(r"Passed over: \d+ steps? that (took back some|recorded no)", said[-1])
    expect(box.locator(".pd-score")).to_be_empty()

    page, trace = opened(open_page, "speculative", "speculative-1")
    box = card(page, "speculative")
    begin(box)
    several = next(s for s in trace.steps if len(s.emit) > 1)
    expect(box.locator(".pd-text b")).to_be_visible()
    accepted = box.locator(".pd-text b").inner_text()
    assert accepted == "".join(trace.pieces[i] for i in several.emit[:-1])


@pytest.mark.nightly
def test_the_player_pauses_and_a_page_without_a_server_says_what_it_knows(
    open_page, tmp_path, browser
):
    trace = gallery.open_entry(gallery.find_entry("greedy-1").file)
    path = page_of(trace).save(tmp_path / "run.html")
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(path.as_uri())
    box = page.locator(".dp-v-predict")
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert begin(box) == 3
    expect(page.locator(".pl-bar")).to_have_attribute("inert", "")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("End")
    expect(page.locator(".dp-tok[data-step]")).to_have_count(3)
    small = "els => els.filter((e) => e.getBoundingClientRect().height < 44).length"
    assert box.locator(".pd-offer, .dp-btn, input[type=text]").evaluate_all(small) == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shot(page, "predict-phone")
    box.get_by_label("Type the next token").fill("xylophone")
    page.keyboard.press("Enter")
    expect(box.locator(".pd-status")).to_contain_text(
        re.compile(
            r"at most [\d.]+ %\. It does not count|only the model knows how probable it was\. It does not count"
        )
    )
    expect(box.locator(".pd-score")).to_have_text("1 guess, 0 right.")
    box.get_by_role("button", name="Leave", exact=True).click()
    expect(page.locator(".pl-bar")).not_to_have_attribute("inert", "")
    context.close()


@pytest.mark.nightly
def test_on_a_telephone(open_page):
    page, _ = opened(open_page, "greedy", "greedy-1", width=390, height=844)
    box = card(page)
    begin(box)
    assert fits(page)
    guess(box, 0)
    assert fits(page)
    # What waits for the whole run says so.
    export = view(page.locator("#greedy-stage"), "export")
    expect(export).to_contain_text("when you have left the guessing")
