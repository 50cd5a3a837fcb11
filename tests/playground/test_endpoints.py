"""Endpoints for programs: what describes them is true, and every snippet that Gradio shows runs."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import subprocess
from functools import cache

import pytest

from engine.analysis.watermark_detection import build_watermark_config, detect_text
from engine.declare.params import params_of
from engine.models.loading import load
from engine.strategies import STRATEGIES
from engine.trace.dial_grid_json import dial_grid_from_dict
from engine.trace.dial_map_json import dial_map_from_dict
from playground.server.api_schema import CALL_FIELDS, TOOL_FIELDS, TOOL_REQUIRED
from tests.helpers.patience import PATIENCE_S
from tests.helpers.strategies import NEXT_TOKEN
from tests.npm import NODE, ROOT

LANGUAGES = ("bash", "javascript", "python")
_CLIENT = ROOT / "node_modules" / "@gradio" / "client"


@pytest.fixture(scope="module")
def info(server):
    return server.get("/gradio_api/info").json()["named_endpoints"]


def test_a_strategy_is_an_endpoint_with_a_description_of_every_parameter(info):
    assert {*info} == {f"/{name}" for name in (*STRATEGIES, *TOOL_FIELDS)}
    for strategy in STRATEGIES.values():
        told = info[f"/{strategy.name}"]
        assert strategy.title in told["description"]
        inputs = {one["parameter_name"]: one for one in told["parameters"]}
        assert tuple(inputs) == CALL_FIELDS
        assert all(one["python_type"]["description"] for one in inputs.values())
        assert [n for n, one in inputs.items() if not one["parameter_has_default"]] == ["prompt"]
        settings = inputs["params"]["type"]["properties"]
        own = params_of(strategy.config)
        assert {*own} <= {*settings}
        for name, kind in own.items():
            assert kind.describe_range() in settings[name]["description"]
        length = settings["max_new_tokens"]
        told = length["minimum"], length["maximum"], length["default"]
        assert told == ((1, 512, 64) if strategy.name in NEXT_TOKEN else (1, 256, 38))


def test_every_other_endpoint_describes_its_inputs(info):
    for name, fields in TOOL_FIELDS.items():
        inputs = {one["parameter_name"]: one for one in info[f"/{name}"]["parameters"]}
        assert tuple(inputs) == fields
        assert all(one["python_type"]["description"] for one in inputs.values())
        required = [n for n, one in inputs.items() if not one["parameter_has_default"]]
        assert tuple(required) == fields[: TOOL_REQUIRED[name]]


@pytest.mark.nightly
def test_a_text_is_judged_as_on_the_command_line(server):
    text = "Once upon a time, there was a little girl. She liked to play in the park every day."
    body = {"text": text, "params": {"hashing_key": 7}}
    found = read_event(server, "detect", server.post("/gradio_api/call/v2/detect", json=body))
    own = detect_text(text, load("storyteller"), build_watermark_config({"hashing_key": 7}))
    assert found["z_score"] == own.to_dict()["z_score"]
    assert "".join(token["text"] for token in found["tokens"]) == text


def test_columns_give_what_each_strategy_gives(server):
    params = {"max_new_tokens": 4}
    columns = [
        {"strategy": "greedy", "params": params},
        {"strategy": "sampling", "params": {**params, "temperature": 1.4}},
    ]
    body = {"prompt": "Once", "columns": columns, "seeds": [1, 2]}
    found = read_event(server, "compare", server.post("/gradio_api/call/v2/compare", json=body))
    assert [(run["strategy"], run["seed"]) for run in found["runs"]] == [
        ("greedy", 1),
        ("greedy", 2),
        ("sampling", 1),
        ("sampling", 2),
    ]
    _, [own] = server.call("sampling", "Once", None, columns[1]["params"], 2)
    assert found["runs"][3]["outputs"] == own["outputs"]


def test_a_dial_is_mapped(server):
    body = {
        "prompt": "The dog",
        "low": 0.5,
        "high": 1.5,
        "params": {"max_new_tokens": 4},
        "seed": 3,
    }
    posted = server.post("/gradio_api/call/v2/dial_map", json=body)
    found = dial_map_from_dict(read_event(server, "dial_map", posted))
    params = {"max_new_tokens": 4, "temperature": 0.8}
    _, [own] = server.call("sampling", "The dog", None, params, 3)
    assert found.complete
    assert found.interval_at(0.8).text == own["outputs"][0]["text"]


def test_two_dials_are_mapped(server):
    body = {
        "prompt": "The dog",
        "low": 0.5,
        "high": 1.5,
        "values": [0.5, 0.9],
        "params": {"max_new_tokens": 4},
        "seed": 3,
    }
    posted = server.post("/gradio_api/call/v2/dial_grid", json=body)
    found = dial_grid_from_dict(read_event(server, "dial_grid", posted))
    params = {"max_new_tokens": 4, "temperature": 0.8, "top_p": 0.9}
    _, [own] = server.call("sampling", "The dog", None, params, 3)
    assert found.complete
    assert (found.second, found.values) == ("top_p", (0.5, 0.9))
    assert found.text_at(0.8, 0.9).text == own["outputs"][0]["text"]


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("detect", ["a"], "needs at least"),
        ("detect", ["text " * 30, "storyteller", {"hashing_key": "x"}], "hashing_key"),
        ("compare", ["Once", []], "1 to 4"),
        ("compare", ["Once", [{"strategy": "none"}]], "strategy = 'none'"),
        ("compare", ["Once", [{"strategy": "greedy"}], list(range(6))], "1 to 5"),
        ("dial_map", ["Once", "top_x"], "it must be one of"),
        ("dial_map", ["Once", "temperature", 2, 1], "high"),
        ("dial_grid", ["Once", "temperature", 0.5, 1, "typical_p"], "it must be one of"),
        ("dial_grid", ["Once", "temperature", 0.5, 1, "top_p", 3], "a list of 1 to 41"),
        ("dial_grid", ["Once", "temperature", 0.5, 1, "top_p", [0.9, 0.5]], "ascending"),
    ],
    ids=str,
)
def test_what_a_tool_cannot_use_is_refused_with_a_sentence(server, name, values, said):
    event, data = server.call(name, *values)
    assert event == "error", data
    assert said in str(data)


def test_the_description_for_agents_names_the_calls(server):
    told = server.get("/gradio_api/openapi.json").json()
    for name in STRATEGIES:
        path = f"/gradio_api/call/v2/{name}"
        body = told["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert tuple(body["properties"]) == CALL_FIELDS
        assert f"/gradio_api/call/{name}/{{event_id}}" in told["paths"]


def read_event(server, name, posted):
    assert posted.status_code == 200, posted.text
    answer = server.get(f"/gradio_api/call/{name}/{posted.json()['event_id']}").text
    assert "event: complete" in answer, answer
    return json.loads(answer.rpartition("data: ")[2])[0]


def test_a_call_by_name_gives_what_a_call_by_position_gives(server):
    params = {"max_new_tokens": 5, "temperature": 0.8}
    _, [placed] = server.call("sampling", "Once", None, params, 3)
    body = {"prompt": "Once", "params": params, "seed": 3}
    named = read_event(server, "sampling", server.post("/gradio_api/call/v2/sampling", json=body))
    assert named["outputs"] == placed["outputs"]
    picture = {"prompt": "", "model": "captioner", "image": "example:scene-1"}
    named = read_event(server, "greedy", server.post("/gradio_api/call/v2/greedy", json=picture))
    old = {"image": "example:scene-1"}
    assert named["outputs"] == server.call("greedy", old, "captioner", {}, 0)[1][0]["outputs"]


@pytest.mark.parametrize("body", [{}, {"prompt": "Once", "temperature": 1}], ids=str)
def test_a_call_by_name_with_other_names_is_refused(server, body):
    answer = server.post("/gradio_api/call/v2/greedy", json=body)
    assert answer.status_code == 422
    assert answer.text.startswith("The inputs are prompt, model, params, seed, ")


@pytest.fixture(scope="module")
def example_text(server, info):
    """Return what gives the text of a strategy's example, as a call has it."""

    @cache
    def text_of(strategy):
        example = info[f"/{strategy}"]["parameters"][0]["example_input"]
        _, [answer] = server.call(strategy, example, None, {}, 0)
        return answer["outputs"][0]["text"]

    return text_of


def run_snippet(code, language, folder):
    """Return the text that a snippet printed."""
    if language == "python":
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, {})
        return printed.getvalue()
    if language == "javascript":
        (folder / "node_modules").symlink_to(ROOT / "node_modules")
        script = folder / "snippet.mjs"
        # The client leaves a stream open, which a page would close.
        script.write_text(f"{code}\nconsole.log(JSON.stringify(result.data));\nprocess.exit(0);\n")
        command = [NODE, script]
    else:
        # `read` at the end of a pipe keeps its value in zsh, and in bash with this option.
        command = ["bash", "-O", "lastpipe", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_shown_snippet(told, language, folder):
    """Run an endpoint's snippet; return its answer."""
    if language == "javascript" and not _CLIENT.exists():
        pytest.skip("package.json lists @gradio/client: npm ci installs it")
    printed = run_snippet(told["code_snippets"][language], language, folder)
    if language == "python":
        return ast.literal_eval(printed.splitlines()[-1])
    answer = printed.rpartition("data: ")[2] if language == "bash" else printed.splitlines()[-1]
    [found] = json.loads(answer)
    return found


@pytest.mark.by_day("greedy-javascript")
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_snippet_that_is_shown_runs(info, example_text, strategy, language, tmp_path):
    found = run_shown_snippet(info[f"/{strategy}"], language, tmp_path)
    assert found["outputs"][0]["text"] == example_text(strategy)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("name", "part"),
    [
        pytest.param("detect", "z_score", marks=pytest.mark.nightly),
        pytest.param("compare", "runs", marks=pytest.mark.nightly),
        ("dial_map", "intervals"),
        pytest.param("dial_grid", "cells", marks=pytest.mark.nightly),
    ],
)
def test_every_snippet_of_the_other_endpoints_runs(info, name, part, language, tmp_path):
    assert run_shown_snippet(info[f"/{name}"], language, tmp_path)[part]
