"""Endpoints for programs: what describes them is true, and every snippet that Gradio shows runs."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import subprocess

import pytest

from engine.declare.params import params_of
from engine.strategies import STRATEGIES
from playground.server.api_schema import CALL_FIELDS
from tests.helpers.patience import PATIENCE_S
from tests.npm import NODE, ROOT

LANGUAGES = ("bash", "javascript", "python")
_CLIENT = ROOT / "node_modules" / "@gradio" / "client"


@pytest.fixture(scope="module")
def info(server):
    return server.get("/gradio_api/info").json()["named_endpoints"]


def test_a_strategy_is_an_endpoint_with_a_description_of_every_parameter(info):
    assert {*info} == {f"/{name}" for name in STRATEGIES}
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
        assert (length["minimum"], length["maximum"], length["default"]) == (1, 512, 64)


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


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    "strategy",
    [
        name if name == "greedy" else pytest.param(name, marks=pytest.mark.nightly)
        for name in STRATEGIES
    ],
)
def test_every_snippet_that_is_shown_runs(server, info, strategy, language, tmp_path):
    if language == "javascript" and not _CLIENT.exists():
        pytest.skip("package.json lists @gradio/client: npm ci installs it")
    told = info[f"/{strategy}"]
    printed = run_snippet(told["code_snippets"][language], language, tmp_path)
    example = told["parameters"][0]["example_input"]
    _, [answer] = server.call(strategy, example, None, {"max_new_tokens": 64}, 0)
    text = answer["outputs"][0]["text"]
    if language == "python":
        found = ast.literal_eval(printed.splitlines()[-1])
    elif language == "bash":
        [found] = json.loads(printed.rpartition("data: ")[2])
    else:
        [found] = json.loads(printed.splitlines()[-1])
    assert found["outputs"][0]["text"] == text
