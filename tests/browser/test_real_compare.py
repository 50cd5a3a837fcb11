"""A conversation with the real model, answered by three strategies side by side."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from engine.trace import json_io
from tests.helpers.pages import choose_comparison, fits, open_compare_settings, settled, shot
from tests.helpers.real import real_folder

MESSAGES = [
    {"role": "system", "content": "You answer in one short sentence."},
    {"role": "user", "content": "What is the capital of France?"},
]
STRATEGIES = ("greedy", "sampling", "contrastive_search")
TOKENS = 12
TRACES = (
    "playground.page.stages.filter(s => s.strategy.startsWith('compare-') && s.root.isConnected)"
    ".map(s => JSON.stringify(playground.page.trace(playground.page.shown(s.strategy))))"
)


@pytest.mark.nightly
@pytest.mark.real
def test_three_strategies_answer_a_chat_with_a_system_message(open_page):
    folder = real_folder()
    page = open_page("/?tab=compare&__theme=dark", width=1440)
    choose_comparison(page, "Beam search and greedy")
    open_compare_settings(page)
    page.get_by_role("button", name="Add a column").click()
    columns = page.locator(".cmp-column")
    for place, strategy in enumerate(STRATEGIES):
        column = columns.nth(place)
        column.locator(".f-model select").first.select_option(label="Another…")
        column.locator(".f-model input[type=text]").first.fill(folder)
        # The model that was chosen stays with the next strategy.
        column.locator("[data-field=strategy]").select_option(strategy)
        expect(column.locator(".f-model input[type=text]").first).to_have_value(folder)
        column.locator("[data-param=max_new_tokens]").fill(str(TOKENS))
    box = page.locator("#compare-prompt")
    box.get_by_role("button", name="Chat", exact=True).click()
    box.get_by_role("button", name="Add a system message").click()
    for place, message in enumerate(MESSAGES):
        box.locator(".tk-text").nth(place).fill(message["content"])
    page.get_by_role("button", name="Run all").click()
    expect(page.locator(".cmp-table")).to_be_visible()
    traces = [json_io.loads(text) for text in page.evaluate(TRACES)]
    assert [trace.strategy for trace in traces] == list(STRATEGIES)
    assert [list(trace.messages) for trace in traces] == [MESSAGES] * 3
    assert "Paris" in traces[0].outputs[0].text
    for place, trace in enumerate(traces):
        column, output = page.locator(".cmp-text").nth(place), trace.outputs[0]
        expect(columns.nth(place).locator(".cmp-weights")).to_have_text("float32 on cpu")
        # The template's control tokens and the one that ends the answer are in boxes, and nothing else.
        read = [trace.pieces[i] for i in trace.prompt_ids if i in trace.special_token_ids]
        assert column.locator(".dp-prompt .tn-special").all_text_contents() == read
        assert read.count("<|im_end|>") == 2
        ended = [trace.pieces[i] for i in output.token_ids if i in trace.special_token_ids]
        assert column.locator(".dp-strip .dp-tok.special").all_text_contents() == ended
        assert (output.finish_reason == "eos") == (ended == ["<|im_end|>"])
    for label, width in (("dark", 1440), ("1920", 1920), ("390", 390)):
        page.set_viewport_size({"width": width, "height": 900})
        assert fits(page)
        settled(page)
        shot(page, f"real_compare-{label}")
