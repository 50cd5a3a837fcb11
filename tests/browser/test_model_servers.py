"""A model behind an address, from its address to the picture, against a server of the test."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.helpers.axe import grave
from tests.helpers.llama_server import Llama
from tests.helpers.nightly import mark_nightly
from tests.helpers.pages import (
    address,
    fill,
    fits,
    open_settings,
    select,
    settled,
    shot,
    show,
    status,
    tokens,
    trace_of,
    view,
)

REPORTED = "Decoded by a server: every number is as it was reported"


def name_server(page, base, strategy="greedy"):
    """Choose a model behind an address, as a visitor does; return the field of the model."""
    open_settings(page, strategy)
    field = page.locator(f"#{strategy}-model")
    expect(field.get_by_label("Address")).to_be_hidden()
    field.locator("select").select_option(label="An address…")
    expect(field.get_by_role("button", name="Model details")).to_be_hidden()
    expect(field.get_by_label("Address")).to_be_focused()
    field.get_by_label("Address").fill(base)
    field.get_by_label("Model there").fill("m")
    fill(page, f"{strategy}-max_new_tokens", 6)
    return field


@pytest.mark.parametrize(
    "options", [{}, *mark_nightly([{"path": "/?__theme=dark"}, {"width": 390, "height": 844}])]
)
def test_a_run_on_a_server_from_its_address_to_the_picture(open_page, options):
    with Llama(most=10).serve() as server:
        page = open_page(**options)
        show(page, "greedy")
        field = name_server(page, server.base)
        field.get_by_role("button", name="Ask what it reports").click()
        expect(field.locator(".f-address .pf-status")).to_contain_text(
            "llama.cpp: 10 candidates as ids and"
        )
        page.locator("#greedy-run").click()
        expect(status(page, "greedy")).to_have_text(f"{REPORTED} · reached the token limit")
        expect(tokens(page, "greedy")).to_have_count(6)
        select(page, "greedy", 2)
        stage = page.locator("#greedy-stage")
        expect(stage.locator(".dp-v-sentence")).to_contain_text("was the likeliest word here")
        report = stage.locator(".dp-v-served")
        expect(report).to_contain_text("of the probability is unseen")
        expect(report).to_contain_text("The entropy is between")
        expect(report).to_contain_text("Read from an answer of llama.cpp.")
        expect(stage.get_by_role("tab", name="Why", exact=True)).to_have_count(0)
        assert "model=endpoint%3Ahttp%3A%2F%2F127.0.0.1" in address(page, "strategy=greedy")
        assert fits(page)
        page.emulate_media(reduced_motion="reduce")
        settled(page)
        assert not grave(page)
        shot(page, "model-server")
        trace = trace_of(page, "greedy")
        assert trace.served is not None
        assert trace.served.host == f"127.0.0.1:{server.server_port}"
        # The next run is of a model here: its questions are back, and of the address nothing is shown.
        field.locator("select").select_option(index=0)
        expect(field.get_by_label("Address")).to_be_hidden()
        page.locator("#greedy-run").click()
        expect(status(page, "greedy")).to_contain_text("Done")
        expect(stage.get_by_role("tab", name="Why", exact=True)).to_be_visible()
        expect(stage.locator(".dp-v-served")).to_have_count(0)


def test_a_run_on_a_server_is_stopped_and_what_goes_wrong_is_one_sentence(open_page):
    with Llama(slow_after=2).serve() as server:
        page = open_page()
        show(page, "sampling")
        name_server(page, server.base, "sampling")
        page.locator("#sampling-run").click()
        expect(tokens(page, "sampling")).to_have_count(2)
        page.locator("#sampling-stop").click()
        expect(status(page, "sampling")).to_have_text("Stopped; what was decoded is kept")
        expect(tokens(page, "sampling")).to_have_count(2)
        expect(page.locator("#sampling-stage .dp-v-served")).to_contain_text("unseen")
    # Its server is gone now.
    page.locator("#sampling-run").click()
    expect(status(page, "sampling")).to_have_text(
        f"The server at 127.0.0.1:{server.server_port} cannot be reached: start it, or check the address."
    )
    show(page, "beam_search")
    option = page.locator("#beam_search-model option", has_text="An address does not work here")
    expect(option).to_be_disabled()
    expect(option).to_contain_text("it needs the whole vocabulary")
    # Nor is it taken over from the other tab.
    expect(page.locator("#beam_search-model select")).to_have_value("storyteller")
    assert view(page.locator("#beam_search-stage"), "beam_tree").count()
