"""llama.cpp's own server behind the page: what a visitor reads is what the engine gets from it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

import engine
from engine.run.decoding import trace_of as trace_from_event
from engine.serving import decode
from tests.helpers.axe import grave
from tests.helpers.llama_cpp import serve_llama_cpp
from tests.helpers.pages import (
    fill,
    finish,
    fits,
    name_server,
    run_id,
    select,
    settled,
    shot,
    show,
    start,
    status,
    tokens,
    trace_of,
    view,
)

pytestmark = pytest.mark.nightly
WIDTHS = [{}, {"width": 390, "height": 844}, {"path": "/?__theme=dark"}]
OWN = "This playground, one token per request"
# A new run has begun and has some tokens.
SOME_TOKENS = """(before) => {
  const run = playground.page.shown("sampling");
  return run.id !== before && run.steps.length >= 5;
}"""


@pytest.fixture(scope="module")
def base(llama_cpp):
    with serve_llama_cpp(llama_cpp) as (address, _):
        yield address


def decode_as(shown, base, sampler="server", **fields):
    """Return the engine's run with the server, seed and settings of a run that a page shows."""
    config = {n: v for n, v in shown.config.items() if n not in ("seed", "stop")}
    params = {**config, "sampler": sampler, **fields.pop("params", {})}
    asked = fields or {"prompt": shown.prompt}
    request = engine.DecodeRequest(
        "sampling", f"endpoint:{base}#m", params=params, seed=shown.seed, **asked
    )
    return trace_from_event([*decode(request)][-1])


def read_text(page):
    """Return the prompt and the text that a visitor reads."""
    text = page.locator("#sampling-stage .dp-strip").text_content()
    return text.replace("⏎", "")


def run_to_limit(page):
    """Press Run and wait until the run is drawn; return it."""
    finish(page, "sampling", start(page, "sampling"), "reached the token limit")
    return trace_of(page, "sampling")


@pytest.mark.parametrize("options", WIDTHS, ids=["wide", "narrow", "dark"])
def test_a_visitor_samples_from_a_server_and_continues_with_another_candidate(
    open_page, base, options, request
):
    page = open_page(**options)
    name = f"llama-cpp-{request.node.callspec.id}"
    show(page, "sampling")
    field = name_server(page, base, "sampling")
    fill(page, "sampling-max_new_tokens", 12)
    field.get_by_role("button", name="Ask what it reports").click()
    expect(field.locator(".f-address .pf-status")).to_contain_text(
        "llama.cpp: 100 candidates as ids and texts"
    )
    shot(page, f"{name}-asked")

    by_server = run_to_limit(page)
    there = decode_as(by_server, base)
    assert (by_server.served.choice, by_server.outputs) == ("sampling", there.outputs)
    assert read_text(page) == f"{there.prompt}{there.outputs[0].text}"
    shot(page, f"{name}-server")

    field.get_by_label("Who draws the tokens").select_option(label=OWN)
    own = run_to_limit(page)
    here = decode_as(own, base, "own")
    assert (own.served.choice, own.outputs) == ("own", here.outputs)
    assert read_text(page) == f"{here.prompt}{here.outputs[0].text}"
    expect(status(page, "sampling")).to_contain_text("Drawn here, from the probabilities that a")
    assert fits(page)
    shot(page, f"{name}-own")

    select(page, "sampling", 3)
    other = [c.token_id for c in own.steps[3].candidates][-1]
    assert other != own.steps[3].emit[0]
    family = view(page.locator("#sampling-stage"), "family")
    choice = family.get_by_label("Token to continue with")
    choice.select_option(index=len(own.steps[3].candidates) - 1)
    shot(page, f"{name}-continue")
    before = run_id(page, "sampling")
    family.get_by_role("button", name="Continue", exact=True).click()
    finish(page, "sampling", before, "reached the token limit")
    expect(family.locator(".fm-tree li")).to_have_count(2)
    branch = trace_of(page, "sampling")
    assert branch.prompt_ids == (*own.prompt_ids, *own.outputs[0].token_ids[:3], other)
    again = decode_as(branch, base, "own", input_ids=branch.prompt_ids)
    assert branch.outputs == again.outputs
    expect(page.locator("#sampling-stage")).not_to_contain_text("\ufffd")
    assert fits(page)
    settled(page)
    assert not grave(page)
    shot(page, f"{name}-branch")


@pytest.mark.parametrize("sampler", ["server", "own"])
def test_a_stop_keeps_what_the_server_wrote(open_page, base, sampler):
    page = open_page()
    show(page, "sampling")
    field = name_server(page, base, "sampling")
    fill(page, "sampling-max_new_tokens", 500)
    if sampler == "own":
        field.get_by_label("Who draws the tokens").select_option(label=OWN)
    before = start(page, "sampling")
    page.wait_for_function(SOME_TOKENS, arg=before)
    page.locator("#sampling-stop").click()
    finish(page, "sampling", before, "Stopped; what was decoded is kept")
    stopped = trace_of(page, "sampling")
    count = len(stopped.steps)
    assert 5 <= count < 500
    expect(tokens(page, "sampling")).to_have_count(count)
    whole = decode_as(stopped, base, sampler, params={"max_new_tokens": count})
    assert stopped.outputs[0].token_ids == whole.outputs[0].token_ids
    assert read_text(page) == f"{stopped.prompt}{whole.outputs[0].text}"
    shot(page, f"llama-cpp-stopped-{sampler}")
    # The server is free again.
    fill(page, "sampling-max_new_tokens", 3)
    assert len(run_to_limit(page).steps) == 3
