"""A chat on the page: written turn by turn, read by the model, answered, gone on with, linked and compared."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from engine import DecodeRequest
from engine.models.tokenizer_only import load_tokenizer_only
from engine.run.chat_request import render_conversation
from engine.sources.source import Source
from tests.helpers.pages import (
    address,
    finish,
    fits,
    name_model,
    open_compare_settings,
    open_tab,
    run,
    settled,
    shot,
    start,
    status,
    tokens,
    trace_of,
)
from tests.helpers.runs import finished
from tests.helpers.talker import said, talker
from visualizers.page import page as drawn_page


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a tiny model with a chat template."""
    path = str(tmp_path_factory.mktemp("talker"))
    loaded = talker("chatml")
    loaded.model.save_pretrained(path)
    loaded.tokenizer.save_pretrained(path)
    return path


def prompt(page, tab="greedy"):
    return page.locator(f"#{tab}-prompt")


def chat(page, tab="greedy"):
    box = prompt(page, tab)
    box.get_by_role("button", name="Chat", exact=True).click()
    return box


def say(box, at, text):
    box.locator(".tk-text").nth(at).fill(text)


def messages_of(page, tab="greedy"):
    return page.evaluate("tab => playground.page.tabOf(tab).ask()", tab)


def test_a_chat_is_written_read_answered_and_continues(open_page, folder):
    page = open_page("/")
    name_model(page, folder)
    box = chat(page)
    expect(box.get_by_role("textbox", name="Message 1 of 1: User")).to_be_visible()
    say(box, 0, "Tell me of a bear <|im_end|>")
    box.get_by_role("button", name="Add a system message").click()
    expect(box.get_by_role("textbox", name="Message 1 of 2: System")).to_be_focused()
    say(box, 0, "You are short.")
    asked = [
        {"role": "system", "content": "You are short."},
        {"role": "user", "content": "Tell me of a bear <|im_end|>"},
    ]
    assert messages_of(page)["messages"] == asked
    assert messages_of(page)["prompt"] is None

    box.locator("summary", has_text="What the model reads").click()
    read = load_tokenizer_only(Source.parse(folder))
    found = render_conversation(asked, {}, read)
    expect(box.locator(".tk-preview-box .f-help")).to_contain_text(f"{len(found.ids)} tokens")
    roles = [turn.role.title() for turn in found.turns if turn.role != "template"]
    assert box.locator(".tk-preview .tn-role").all_text_contents() == roles
    # What the user spelled is no special token.
    special = box.locator(".tk-preview .tn-special").all_text_contents()
    ids = set(read.tokenizer.all_special_ids)
    assert special == [read.pieces[i] for i in found.ids if i in ids]
    assert special.count("<|im_end|>") == 2

    page.locator("#greedy-max_new_tokens input[type=number]").fill("6")
    run(page, "greedy")
    trace = trace_of(page, "greedy")
    assert [dict(message) for message in trace.messages] == asked
    assert trace.prompt is None
    assert trace.prompt_ids == found.ids
    strip = page.locator("#greedy-stage .dp-strip .dp-prompt")
    assert strip.locator(".tn-role").all_text_contents() == roles
    assert strip.locator(".tn-special").all_text_contents() == special
    expect(page.locator("#greedy-stage .dp-v-since")).to_have_text("")
    settled(page)
    shot(page, "talk")
    assert fits(page)

    box.get_by_role("button", name="Add the answer and reply").click()
    expect(box.get_by_role("textbox", name="Message 4 of 4: User")).to_be_focused()
    say(box, 3, "And then?")
    answer = {"role": "assistant", "content": trace.outputs[0].text.strip()}
    assert messages_of(page)["messages"] == [
        *asked,
        answer,
        {"role": "user", "content": "And then?"},
    ]
    finish(page, "greedy", start(page, "greedy"))
    assert len(trace_of(page, "greedy").messages) == 4


@pytest.mark.nightly
def test_a_special_token_that_was_written_is_in_a_box_and_says_so(open_page, folder, tmp_path):
    start_id = load_tokenizer_only(Source.parse(folder)).tokenizer.convert_tokens_to_ids(
        "<|im_start|>"
    )
    own = {"max_new_tokens": 3, "sequence_bias": [[[start_id], 100.0]]}
    request = DecodeRequest("greedy", folder, messages=said("Hi"), params=own)
    trace = finished(request)
    assert trace.outputs[0].token_ids == (start_id,) * 3
    assert trace.outputs[0].text == ""
    file = tmp_path / "run.html"
    drawn_page(trace).save(file)
    page = open_page("/")
    page.goto(file.as_uri())
    written = page.locator(".dp-strip .dp-tok.special")
    expect(written).to_have_count(3)
    expect(written.first).to_have_text("<|im_start|>")
    expect(written.first).to_have_attribute(
        "title", re.compile("^A special token: “<.im_start.>”, ")
    )
    # A box, whatever the colour: there is a line on every side of it and of no other token.
    sides = "n => ['Top', 'Right', 'Left'].map((s) => getComputedStyle(n)[`border${s}Width`])"
    assert written.first.evaluate(sides) == ["1px"] * 3
    expect(page.locator(".dp-legend .dp-tok.special")).to_have_text("special token")
    expect(page.locator(".ab-chat li")).to_have_text(["User: Hi"])
    shot(page, "special")


@pytest.mark.nightly
def test_a_link_brings_a_chat_with_its_template_back(open_page, folder):
    page = open_page("/")
    name_model(page, folder)
    box = chat(page)
    say(box, 0, "Hello & <b>you</b> ü")
    box.get_by_role("button", name="Add a message").click()
    say(box, 1, "Once")
    box.get_by_label("Go on with the last message").uncheck()
    box.locator("summary", has_text="Template arguments").click()
    box.locator(".tk-more textarea").first.fill('{"enable_thinking": false}')
    page.locator("#greedy-max_new_tokens input[type=number]").fill("3")
    run(page, "greedy")
    search = urlsplit(address(page, "messages=")).query
    query = parse_qs(search)
    assert json.loads(query["messages"][0])[0]["content"] == "Hello & <b>you</b> ü"
    given = {"enable_thinking": False, "add_generation_prompt": True}
    assert json.loads(query["template"][0]) == given
    own = trace_of(page, "greedy")

    other = open_page("/?" + search)
    # A link is anybody's: what it names beside the models of the page is run by who has read it.
    expect(status(other, "greedy")).to_contain_text("This link asks for")
    assert messages_of(other)["messages"] == messages_of(page)["messages"]
    assert messages_of(other)["template"] == given
    run(other, "greedy")
    assert trace_of(other, "greedy").outputs == own.outputs


@pytest.mark.nightly
def test_messages_move_go_and_change_who_says_them(open_page, folder):
    page = open_page("/", width=390, height=844)
    name_model(page, folder)
    box = chat(page)
    for text in ("one", "two", "three"):
        say(box, -1, text)
        if text != "three":
            box.get_by_role("button", name="Add a message").click()
    told = lambda: [(m["role"], m["content"]) for m in messages_of(page)["messages"]]  # noqa: E731
    assert told() == [("user", "one"), ("assistant", "two"), ("user", "three")]
    box.get_by_role("button", name="Message 3 of 3: move up").click()
    expect(box.get_by_role("button", name="Message 2 of 3: move up")).to_be_focused()
    assert [text for _, text in told()] == ["one", "three", "two"]
    box.get_by_label("Message 1 of 3: who says it").select_option("system")
    expect(box.get_by_role("button", name="Add a system message")).to_be_hidden()
    box.get_by_role("button", name="Message 2 of 3: remove").click()
    assert told() == [("system", "one"), ("assistant", "two")]
    assert fits(page)
    shot(page, "talk-390")
    # The text that was there before the chat still is.
    box.get_by_role("button", name="Text", exact=True).click()
    assert messages_of(page)["prompt"].startswith("Once upon a time")


@pytest.mark.nightly
def test_what_is_no_json_is_refused_and_nothing_is_lost(open_page, folder):
    page = open_page("/")
    name_model(page, folder)
    box = chat(page)
    say(box, 0, "Hello")
    box.locator("summary", has_text="Template arguments").click()
    box.locator(".tk-more textarea").first.fill("thinking off")
    start(page, "greedy")
    expect(status(page, "greedy")).to_contain_text("template = 'thinking off' is not allowed")
    assert messages_of(page)["messages"] == [{"role": "user", "content": "Hello"}]
    box.locator(".tk-more textarea").first.fill("")
    page.locator("#greedy-max_new_tokens input[type=number]").fill("3")
    run(page, "greedy")
    expect(tokens(page, "greedy")).to_have_count(3)


@pytest.mark.nightly
def test_a_chat_is_compared_and_drawn_many_times(open_page, folder):
    page = open_page("/")
    open_tab(page, "Compare")
    expect(page.locator("#compare .cmp-column")).to_have_count(4)
    open_compare_settings(page)
    for place in range(page.locator("#compare .cmp-column").count()):
        column = page.locator("#compare .cmp-column").nth(place)
        column.locator(".f-model select").first.select_option(label="Another…")
        column.locator(".f-model input[type=text]").first.fill(folder)
    box = chat(page, "compare")
    say(box, 0, "Tell me of a bear")
    page.locator("#compare").get_by_role("button", name="Run all").click()
    expect(page.locator(".cmp-ask > .dp-status")).to_contain_text("Done.")
    form = json.loads(parse_qs(urlsplit(address(page, "messages")).query)["form"][0])
    assert form["messages"] == [{"role": "user", "content": "Tell me of a bear"}]
    open_tab(page, "Draws")
    page.locator("#draws-model select").select_option(label="Another…")
    page.locator("#draws-model input[type=text]").first.fill(folder)
    say(chat(page, "draws"), 0, "Tell me of a bear")
    page.locator("#draws-draws input[type=number]").fill("4")
    page.locator("#draws-run").click()
    expect(page.locator("#draws-tree")).to_contain_text("4 of 4")


def test_chat_waits_for_a_model_with_a_chat_template(open_page, folder):
    page = open_page("/?tab=greedy")
    button = prompt(page).get_by_role("button", name="Chat", exact=True)
    expect(button).to_be_disabled()
    expect(button).to_have_attribute("title", re.compile("^Storyteller .*has no chat template"))
    name_model(page, folder)
    chat(page)
    expect(prompt(page).get_by_role("textbox", name="Message 1 of 1: User")).to_be_visible()
