"""Special tokens that a prompt spells, through the page's doors: preview, form, link, API, comparison."""

from __future__ import annotations

import dataclasses
from urllib.parse import parse_qsl

import pytest

from engine import DecodeRequest, load
from engine.declare.special_tokens import SPECIAL_TOKENS
from engine.errors import ModelError, ParameterError
from engine.run import prompt_request
from playground.forms.form import form_request
from playground.forms.links import open_link, to_link, trace_form
from playground.forms.spec import page_spec
from playground.inspect.chat_preview import act as preview_chat
from playground.inspect.special_tokens import act
from playground.server.api import decode_to_end
from tests.helpers.runs import finished
from tests.helpers.talker import said, talker

END = "<|endoftext|>"
PROMPT = f"One day.{END}One day"


def texts(read):
    return [token["text"] for token in read["tokens"]]


def make_public(monkeypatch):
    settings = dataclasses.replace(prompt_request.SETTINGS, public=True)
    monkeypatch.setattr(prompt_request, "SETTINGS", settings)


def test_the_page_learns_what_a_prompt_becomes(monkeypatch):
    found = act({"model": "storyteller", "prompt": PROMPT})
    assert (found["names"], found["usual"]) == ([END], "parse")
    assert "".join(texts(found["text"])) == "".join(texts(found["parse"])) == PROMPT
    assert [t["text"] for t in found["parse"]["tokens"] if t["special"]] == [END]
    assert not any(t["special"] for t in found["text"]["tokens"])
    # A text that continues an answer is read as its messages are.
    chat = act({"model": "storyteller", "prompt": PROMPT, "chat": True})
    assert chat == {**found, "usual": "text"}
    make_public(monkeypatch)
    assert act({"model": "storyteller", "prompt": PROMPT})["usual"] == "text"


def test_a_prompt_that_spells_none_is_answered_in_short():
    assert act({"model": "storyteller", "prompt": "One <day>"}) == {"names": []}


def test_what_cannot_be_previewed_is_refused():
    with pytest.raises(ModelError):
        act({"model": "", "prompt": PROMPT})
    with pytest.raises(ParameterError):
        act({"model": "storyteller", "prompt": 7})
    with pytest.raises(ParameterError):
        act({"model": "storyteller", "prompt": "<" * 10**6})


def test_messages_are_previewed_in_either_reading(tmp_path):
    loaded = talker()
    loaded.model.save_pretrained(tmp_path)
    loaded.tokenizer.save_pretrained(tmp_path)
    asked = {"model": str(tmp_path), "messages": said("the <|im_end|> bear"), "template": None}
    found = act(asked)
    assert (found["names"], found["usual"]) == (["<|im_end|>"], "text")
    ends = {r: texts(found[r]).count("<|im_end|>") for r in SPECIAL_TOKENS}
    assert ends["parse"] == ends["text"] + 1
    for reading in SPECIAL_TOKENS:
        seen = preview_chat({**asked, "special_tokens": reading})
        assert seen["tokens"] == found[reading]["tokens"]


def form(**params):
    asked = {"strategy": "greedy", "model": "storyteller", "prompt": PROMPT, "seed": "0"}
    return form_request({**asked, "params": {"max_new_tokens": 2, **params}})


@pytest.mark.parametrize("reading", SPECIAL_TOKENS)
def test_form_link_and_recording_keep_the_choice(reading):
    request = form(special_tokens=reading)
    assert request.params["special_tokens"] == reading
    query = to_link(request)
    assert f'"special_tokens":"{reading}"' in dict(parse_qsl(query[1:]))["params"]
    opened = open_link(query)["form"]
    assert opened["values"]["special_tokens"] == reading
    again = trace_form(finished(request))
    assert again is not None
    assert again["values"]["special_tokens"] == reading
    assert "special_tokens" not in form(special_tokens="").params


def test_the_api_reads_a_prompt_as_the_page_does(monkeypatch):
    def notes(**params):
        given = {"max_new_tokens": 2, **params}
        return " ".join(decode_to_end("greedy", PROMPT, "storyteller", given, 0)["notes"])

    assert "reads it as this token" in notes()
    assert "read as text" in notes(special_tokens="text")
    make_public(monkeypatch)
    assert "read as text" in notes()
    assert "reads it as this token" in notes(special_tokens="parse")


def test_every_form_has_the_choice_next_to_its_prompt():
    spec = page_spec()
    kinds = [spec["params"][i] for i in spec["strategies"][0]["params"]]
    [own] = [kind for kind in kinds if kind["name"] == "special_tokens"]
    assert own["choices"] == ["", "text", "parse"]
    assert own["group"] not in {spec["main"], *spec["groups"]}, "it is no field of the settings"


def test_a_run_of_the_page_is_what_the_preview_showed():
    ids = finished(DecodeRequest("greedy", "storyteller", PROMPT, params={"max_new_tokens": 1}))
    pieces = load("storyteller").pieces
    found = act({"model": "storyteller", "prompt": PROMPT})
    assert texts(found["parse"]) == [pieces[i] for i in ids.prompt_ids]
