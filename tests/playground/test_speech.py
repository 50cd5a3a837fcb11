"""What forms, addresses and calls say of a speech besides its sound."""

from __future__ import annotations

import base64
import json
from urllib.parse import parse_qs, urlencode

import pytest

from engine import DecodeRequest
from engine.errors import ParameterError
from playground.forms import links
from playground.forms.form import form_request
from playground.server import api
from playground.tabs.compare import read_requests
from tests.helpers.media_models import given, media_model
from tests.helpers.pictures import sound_file
from tests.helpers.runs import finished
from tests.helpers.sentences import clean

TOLD = {"language": "de", "task": "translate", "return_timestamps": True}
FORM = {"strategy": "greedy", "prompt": "Once", "seed": 0}
ODD = [7, "de", [], {"language": 3}, {"language": ""}, {"task": "sing"}, {"voice": "low"}]


def test_a_form_says_it_in_the_names_of_a_request():
    assert form_request({**FORM, "speech": TOLD}).speech == TOLD
    assert form_request({**FORM, "speech": None}).speech == {}
    assert form_request(FORM).speech == {}


@pytest.mark.parametrize("odd", ODD)
def test_a_form_that_says_anything_else_gets_a_sentence(odd):
    with pytest.raises(ParameterError) as refused:
        form_request({**FORM, "speech": odd})
    assert refused.value.parameter.startswith("speech")
    clean(str(refused.value))


@pytest.mark.parametrize(
    "told", [{}, TOLD, {"language": "yue"}, {"task": "transcribe"}, {"return_timestamps": True}]
)
def test_an_address_says_it_and_is_read_back(told):
    link = links.to_link(DecodeRequest("greedy", prompt="Once", speech=told))
    query = {name: value for name, [value] in parse_qs(link[1:]).items()}
    assert ("language" in query, "task" in query, "timestamps" in query) == (
        "language" in told,
        "task" in told,
        "return_timestamps" in told,
    )
    found = links.open_link(link)
    assert found["form"]["speech"] == (told or None)
    # The form that it fills asks for the same again.
    assert form_request({**found["form"], "params": found["form"]["values"]}).speech == told


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"task": "sing"}, "speech.task"),
        ({"language": "x" * 33}, "speech.language"),
        ({"timestamps": "0"}, "timestamps"),
        ({"timestamps": "true"}, "timestamps"),
    ],
)
def test_an_address_that_says_anything_else_gets_a_sentence(query, named):
    with pytest.raises(ParameterError) as refused:
        links.open_link(urlencode({"strategy": "greedy", "prompt": "Once", **query}))
    assert refused.value.parameter == named
    clean(str(refused.value))


@pytest.mark.parametrize("tab", ["compare", "draws"])
def test_the_form_in_an_address_says_it_too(tab):
    column = {"strategy": "sampling", "params": {}}
    form = {"prompt": "Once", "seed": 0}

    def opened(speech):
        told = {**column, "speech": speech}
        whole = {**form, "columns": [told, column]} if tab == "compare" else {**form, **told}
        return links.open_link(urlencode({"tab": tab, "form": json.dumps(whole)}))["form"]

    found = opened(TOLD)
    if tab == "compare":
        assert [one["speech"] for one in found["columns"]] == [TOLD, None]
    else:
        assert found["speech"] == TOLD
    for odd in ODD:
        with pytest.raises(ParameterError):
            opened(odd)


def test_each_column_of_a_comparison_learns_its_own():
    columns = [{**FORM, "speech": TOLD}, FORM]
    assert [one.speech for one in read_requests({**FORM, "columns": columns})] == [TOLD, {}]


def test_a_recorded_run_fills_a_form_that_says_what_it_was_given():
    told = {"language": "de", "task": "transcribe"}
    trace = finished(
        DecodeRequest(
            "greedy",
            media_model("whisper"),
            params={"max_new_tokens": 3},
            speech=told,
            **given("whisper"),
        )
    )
    form = links.trace_form(trace)
    assert form is not None
    assert form["speech"] == told


def test_a_program_says_it_next_to_the_sound():
    sound = base64.b64encode(sound_file()).decode()
    read = api._prompt_fields({"audio": sound, "speech": TOLD}, {})
    assert read["speech"] == TOLD
    assert "speech" not in api._prompt_fields({"audio": sound, "speech": None}, {})
    with pytest.raises(ParameterError):
        api._prompt_fields({"prompt": "Once", "speech": TOLD}, {})
