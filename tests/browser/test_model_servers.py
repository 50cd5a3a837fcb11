"""A model behind an address, from its address to the picture, against a server of the test."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from engine import DecodeRequest
from engine.analysis.server_comparison import compare_with_server
from engine.models.loading import load
from engine.run.decoding import decode_to_trace
from tests.helpers.axe import grave
from tests.helpers.llama_server import Llama, llama_of
from tests.helpers.nightly import mark_nightly
from tests.helpers.pages import (
    address,
    choose_comparison,
    fill,
    fits,
    name_server,
    open_compare_settings,
    open_tab,
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


@pytest.mark.nightly
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
    show(page, "contrastive_search")
    option = page.locator(
        "#contrastive_search-model option", has_text="An address does not work here"
    )
    expect(option).to_be_disabled()
    expect(option).to_contain_text("it needs the hidden states of the model")
    # Nor is it taken over from the other tab.
    expect(page.locator("#contrastive_search-model select")).to_have_value("storyteller")
    assert view(page.locator("#contrastive_search-stage"), "contrastive").count()


@pytest.mark.nightly
def test_this_playground_draws_the_tokens_of_a_server_and_continues_its_run(open_page):
    llama = Llama(most=10)
    with llama.serve() as server:
        page = open_page()
        show(page, "sampling")
        field = name_server(page, server.base, "sampling")
        field.get_by_label("Who draws the tokens").select_option(
            label="This playground, one token per request"
        )
        page.locator("#sampling-run").click()
        report = page.locator("#sampling-stage .dp-v-served")
        expect(report).to_contain_text("This program drew the token")
        expect(tokens(page, "sampling")).to_have_count(6)
        first = trace_of(page, "sampling")
        select(page, "sampling", 2)
        page.locator("#sampling-stage").get_by_role("tab", name="Continue", exact=True).click()
        family = view(page.locator("#sampling-stage"), "family")
        expect(family.get_by_label("Text to continue with")).to_be_hidden()
        family.get_by_role("button", name="Continue", exact=True).click()
        expect(family.locator(".fm-tree li")).to_have_count(2)
        expect(status(page, "sampling")).to_contain_text("reached the token limit")
        branch = trace_of(page, "sampling")
        assert branch.parent is not None
        expect(page.locator("#sampling-stage")).not_to_contain_text("\ufffd")
        kept = first.outputs[0].token_ids[:2]
        assert branch.prompt_ids == (*first.prompt_ids, *kept, *branch.parent.token_ids)
        assert branch.served is not None
        assert branch.served.choice == "own"
        assert fits(page)
        # Anyone can write its link: it waits for Run, which then continues the same ids.
        link = address(page, "ids=")
        asked = len(llama.completions)
        page = open_page(link[link.index("/?") :])
        expect(status(page, "sampling")).to_contain_text("Check the settings, then press Run.")
        assert len(llama.completions) == asked
        page.locator("#sampling-run").click()
        expect(status(page, "sampling")).to_contain_text("reached the token limit")
        again = trace_of(page, "sampling")
        assert (again.prompt_ids, again.outputs) == (branch.prompt_ids, branch.outputs)


@pytest.mark.nightly
@pytest.mark.parametrize("options", [{}, {"path": "/?__theme=dark", "width": 390, "height": 844}])
def test_a_model_on_a_server_is_compared_with_the_same_model_here(open_page, options):
    with llama_of(load("storyteller")).serve() as server:
        page = open_page(**options)
        open_tab(page, "Compare")
        choose_comparison(page, "Beam search and greedy")
        open_compare_settings(page)
        for label in "AB":
            column = page.get_by_label(f"Column {label}", exact=True)
            column.locator("[data-field=strategy]").select_option("greedy")
            column.locator("[data-param=max_new_tokens]").fill("6")
        column.get_by_label("Model", exact=True).select_option(label="An address…")
        column.get_by_label("Address").fill(server.base)
        column.get_by_label("Model there").fill("m")
        page.get_by_role("button", name="Run all").click()
        expect(page.locator(".cmp-weights")).to_have_text(["float32 on cpu", "on a server"])
        expect(page.locator(".cmp-verdict")).to_contain_text("same")
        expect(page.locator(".cmp-table")).to_be_visible()
        expect(page.locator(".cmp-different")).to_have_count(0)
        expect(page.locator(".cmp-common")).to_have_count(12)
        assert fits(page)
        assert grave(page) == []
        shot(page, f"compare_server_{options.get('width', 1440)}")


@pytest.mark.nightly
@pytest.mark.parametrize("options", [{}, {"path": "/?__theme=dark", "width": 390, "height": 844}])
def test_a_model_here_reads_what_a_server_wrote(open_page, options):
    with llama_of(load("storyteller")).serve() as server:
        page = open_page(**options)
        show(page, "greedy")
        name_server(page, server.base)
        page.locator("#greedy-run").click()
        expect(status(page, "greedy")).to_contain_text("reached the token limit")
    # The numbers are in the record, so the server may be gone.
    card = view(page.locator("#greedy-stage"), "beside")
    expect(card).to_contain_text("A model here reads the server’s text")
    card.locator(".f-model select").first.select_option("storyteller-draft")
    card.get_by_role("button", name="Read it here").click()
    expect(card.locator(".bs-tok")).to_have_count(6)
    found = compare_with_server(trace_of(page, "greedy"), load("storyteller-draft"))
    expect(card.locator(".bs-summary")).to_contain_text(
        "The mean KL divergence per token is between"
    )
    expect(card.locator(".bs-summary")).to_contain_text(f"at {found.same_tops} of 6 places")
    card.locator(".bs-tok").nth(2).click()
    expect(page.locator("#greedy-stage .dp-scrub output")).to_contain_text("Word 3 of")
    expect(card.locator(".bs-status")).to_contain_text("there,")
    assert fits(page)
    settled(page)
    assert not grave(page)
    shot(page, f"server-beside-{options.get('width', 1440)}")


@pytest.mark.nightly
@pytest.mark.parametrize("options", [{}, {"path": "/?__theme=dark", "width": 390, "height": 844}])
def test_many_texts_are_drawn_from_a_server(open_page, options):
    with llama_of(load("storyteller"), most=10).serve() as server:
        page = open_page(**options)
        open_tab(page, "Draws")
        field = page.locator("#draws-model")
        field.get_by_label("Model", exact=True).select_option(label="An address…")
        expect(field.get_by_label("Who draws the tokens")).to_have_count(0)
        expect(field).to_contain_text("The server must list candidates with ids.")
        field.get_by_label("Address").fill(server.base)
        field.get_by_label("Model there").fill("m")
        fill(page, "draws-draws", 20)
        fill(page, "draws-max_new_tokens", 3)
        page.locator("#draws-run").click()
        stage = page.locator("#draws-tree")
        expect(stage).to_contain_text("Done: 20 of 20 draws")
        expect(stage).to_contain_text("The server lists only a part of the tokens")
        assert fits(page)
        settled(page)
        assert not grave(page)
        shot(page, f"server-draws-{options.get('width', 1440)}")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("strategy", "picture", "options"),
    [
        ("beam_search", ".bt-svg", {}),
        (
            "watermark",
            ".wc-line",
            {"path": "/?__theme=dark", "width": 390, "height": 844},
        ),
    ],
)
def test_a_server_that_lists_its_whole_vocabulary_runs_what_needs_it(
    open_page, strategy, picture, options
):
    loaded = load("storyteller")
    with llama_of(loaded, most=loaded.vocab_size).serve() as server:
        page = open_page(**options)
        show(page, strategy)
        name_server(page, server.base, strategy)
        page.locator(f"#{strategy}-run").click()
        expect(status(page, strategy)).to_contain_text("reached the token limit")
        trace = trace_of(page, strategy)
        assert trace.model.host == server.base.removeprefix("http://").removesuffix("/v1")
        params = {name: value for name, value in trace.config.items() if value is not None}
        here = decode_to_trace(
            DecodeRequest(strategy, loaded, trace.prompt, params=params, seed=trace.seed)
        )
        assert trace.outputs[0].token_ids == here.outputs[0].token_ids
        # The record is whole, so its pictures are there; what asks the model is not.
        stage = page.locator(f"#{strategy}-stage")
        expect(stage.locator(picture).first).to_be_visible()
        for name in ("Why", "Influence", "Continue"):
            expect(stage.get_by_role("tab", name=name, exact=True)).to_have_count(0)
        expect(page.locator(f"#{strategy}-model")).not_to_contain_text("In this run")
        assert fits(page)
        settled(page)
        assert not grave(page)
        shot(page, f"server-{strategy}-{options.get('width', 1440)}")
