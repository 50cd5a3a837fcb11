"""The HTTP side: endpoints, refusals, closed doors, limits."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.strategies import STRATEGIES
from playground.forms.spec import control_values
from tests.helpers.bad_inputs import MODELS, NAMES, PARAMS, PROMPTS, SEEDS, label
from tests.helpers.bad_strategy_inputs import STRATEGY_ROWS
from tests.helpers.events import events_of
from tests.helpers.sentences import clean

JSON = {"content-type": "application/json"}
# The longest is refused before it is read; a list is one of prompts.
CALL_PROMPTS = [*PROMPTS[:-1], ([], "1 to 20")]


def test_endpoints_decode(server):
    output = server.works()
    assert len(output["token_ids"]) == 3
    same = [
        server.call("sampling", "Once", None, {"max_new_tokens": 6}, 7)[1][0]["outputs"]
        for _ in range(2)
    ]
    assert same[0] == same[1]


def test_a_list_of_prompts_gives_the_run_of_each(server):
    prompts, params = ["Once", "The dog ran to the"], {"max_new_tokens": 6}
    event, [answer] = server.call("sampling", prompts, None, params, 7)
    assert event == "complete", answer
    each = [server.call("sampling", one, None, params, 7)[1][0]["outputs"] for one in prompts]
    assert [run["outputs"] for run in answer["runs"]] == each


@pytest.mark.nightly
def test_an_endpoint_holds_weights_as_its_params_say(server):
    params = {"max_new_tokens": 3, "quantization": "8bit", "dtype": "bfloat16"}
    event, data = server.call("greedy", "Once upon", None, params, 0)
    assert event == "complete", data
    assert len(data[0]["outputs"][0]["token_ids"]) == 3
    said = server.refusal("greedy", "Once", None, {"max_memory": {"cpu": "1GB"}}, 0)
    assert said.endswith("is not allowed: it needs device_map = auto.")
    said = server.refusal("greedy", "Once", None, {"assistant_dtype": "float16"}, 0)
    assert said.endswith("is not allowed: greedy has no draft model.")


CALLS = {
    **{
        ("strategy", n): (row[0], "Once", None, {"max_new_tokens": 3, **row[1], row[2]: row[3]}, 0)
        for n, row in enumerate(STRATEGY_ROWS)
    },
    **{
        ("parameter", n): ("sampling", "Once", None, {"max_new_tokens": 3, row[0]: row[1]}, 0)
        for n, row in enumerate(PARAMS)
    },
    **{("name", n): ("sampling", "Once", None, {name: 1}, 0) for n, name in enumerate(NAMES)},
    **{("prompt", n): ("greedy", row[0], None, {}, 0) for n, row in enumerate(CALL_PROMPTS)},
    **{("seed", n): ("greedy", "Once", None, {}, value) for n, value in enumerate(SEEDS)},
    **{("model", n): ("greedy", "Once", value, {}, 0) for n, value in enumerate(MODELS)},
}


@pytest.fixture(scope="module")
def refusals(server):
    """Return the sentence of every call, sent several at a time: most of a call is waiting."""
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda values: server.call(*values), CALLS.values())
        return dict(zip(CALLS, answers, strict=True))


def refusal(refusals, kind, number):
    event, data = refusals[kind, number]
    assert event == "error", data
    return clean(data["error"])


def rows(table):
    return pytest.mark.parametrize("number", range(len(table)), ids=lambda n: label(table[n]))


@pytest.mark.by_day(3)
@rows(STRATEGY_ROWS)
def test_parameters_of_one_strategy(refusals, number):
    _, _, name, _, allowed = STRATEGY_ROWS[number]
    text = refusal(refusals, "strategy", number)
    assert text.startswith(f"{name} = ")
    assert allowed in text


@pytest.mark.by_day(3)
@rows(PARAMS)
def test_parameters(refusals, number):
    name, _, allowed = PARAMS[number]
    text = refusal(refusals, "parameter", number)
    assert text.startswith(f"{name} = ")
    assert allowed in text


@rows(NAMES)
def test_names_that_are_none(refusals, number):
    text = refusal(refusals, "name", number)
    assert "has no such parameter" in text
    assert len(text) < 400


@rows(CALL_PROMPTS)
def test_prompts(refusals, number):
    text = refusal(refusals, "prompt", number)
    assert text.startswith("prompt = ")
    assert CALL_PROMPTS[number][1] in text


@rows(SEEDS)
def test_seeds(refusals, number):
    text = refusal(refusals, "seed", number)
    assert text.startswith("seed = ")
    assert "from 0 to 9223372036854775807" in text


@rows(MODELS)
def test_models(refusals, number):
    text = refusal(refusals, "model", number)
    assert text.startswith("model = ")
    assert "must be a name of the catalogue" in text


@pytest.mark.parametrize("params", ["x", [], 5, True, [["top_k", 5]]], ids=label)
def test_parameters_that_are_no_object(server, params):
    text = server.refusal("greedy", "Once", None, params, 0)
    assert text.startswith("params = ")
    assert "an object" in text


@pytest.mark.parametrize("values", [(), ("Once",), ("Once", None, {}, 0, *[None] * 7)], ids=label)
def test_too_few_or_too_many_values(server, values):
    event, data = server.call("greedy", *values)
    assert event == "refused"
    assert data == "data must be a list of prompt, model, params and seed."


def test_after_all_that_the_next_run_works(server):
    server.works()


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/run/greedy",
        "/gradio_api/deep_link",
        "/monitoring/summary",
        "/gradio_api/runs",
        "/gradio_api/dev/reload",
        "/openapi.json",
        "/docs",
        "/gradio_api/call/nothing",
    ],
)
def test_closed_doors(server, path):
    assert server.post(path, json={"data": []}).status_code in (404, 405)
    assert server.get(path).status_code in (404, 405)


def test_large_bodies(server):
    big = json.dumps({"data": ["a" * 2_000_000, None, {}, 0]}).encode()
    assert server.post("/gradio_api/call/greedy", content=big).status_code == 413

    def chunks():
        for _ in range(20):
            yield b"a" * 100_000

    assert server.post("/gradio_api/call/greedy", content=chunks()).status_code == 413
    server.works()


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"null", b"5"])
def test_broken_bodies(server, body):
    answer = server.post("/gradio_api/call/greedy", content=body, headers=JSON)
    assert answer.status_code in (400, 422)
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("path", ["/etc/passwd", "../app.py", "/proc/self/environ", "app.py"])
def test_files_are_not_served(server, path):
    assert server.get(f"/gradio_api/file={path}").status_code in (400, 403, 404)


def test_other_hosts_are_refused(server):
    assert server.get("/", headers={"host": "evil.example"}).status_code == 400


def test_garbage_to_the_queue(server):
    for data in (
        {"fn_index": 999, "data": [], "session_hash": "x"},
        {"fn_index": -1, "data": [], "session_hash": "x"},
    ):
        assert server.post("/gradio_api/queue/join", json=data).status_code in range(400, 500)
    long = {"fn_index": 1, "data": [], "session_hash": "x" * 100_000}
    assert server.post("/gradio_api/queue/join", json=long).status_code == 400
    assert server.post("/gradio_api/cancel", json={"x": 1}).status_code == 422
    server.works()


@pytest.fixture(scope="module")
def events(server):
    """Return {name of a page: id of the event that its Run sends}."""
    return events_of(server.get("/config").json())


def form_of(strategy):
    """Return what the untouched form of a strategy sends."""
    declared = STRATEGIES[strategy]
    values = control_values(declared, declared.presets[0].params)
    about = {"prompt": "Once", "model": "storyteller", "assistant": "", "seed": 0}
    return {**about, "params": values}


@pytest.mark.parametrize(
    ("strategy", "name", "value"),
    [
        ("greedy", "max_new_tokens", 999_999),
        ("greedy", "max_new_tokens", float("nan")),
        ("greedy", "max_new_tokens", "abc"),
        ("greedy", "max_new_tokens", None),
        ("greedy", "max_new_tokens", {}),
        ("greedy", "model", ["a"]),
        ("greedy", "model", "zzz"),
        ("greedy", "model", {"a": 1}),
        ("greedy", "prompt", 5),
        ("greedy", "prompt", {"a": 1}),
        ("greedy", "prompt", None),
        ("greedy", "seed", "x"),
        ("greedy", "seed", -1),
        ("greedy", "seed", 1.5),
        ("greedy", "seed", None),
        ("greedy", "stop_strings", {"a": 1}),
        ("greedy", "bad_words_ids", "[[1,"),
        ("greedy", "bad_words_ids", "[" * 20_000),
        ("watermark", "temperature", float("nan")),
        ("watermark", "temperature", float("inf")),
        ("watermark", "scheme", "zzz"),
        ("watermark", "scheme", ["greenlist"]),
        ("watermark", "scheme", None),
        ("watermark", "do_sample", "notbool"),
        ("watermark", "do_sample", None),
        ("watermark", "do_sample", 1),
        ("watermark", "keys", "a, b"),
    ],
    ids=label,
)
def test_the_pages_own_event_refuses_what_its_controls_would_not_send(
    server, events, strategy, name, value
):
    asked = form_of(strategy)
    (asked if name in asked else asked["params"])[name] = value
    text = server.join(events[strategy], asked)
    assert f"{name} = " in text, text
    assert " not allowed" in text


def test_the_pages_own_event_with_a_file_is_refused(server, events):
    asked = form_of("greedy") | {
        "prompt": {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}
    }
    said = 422, "A file must be one that was uploaded here."
    assert server.refused(events["greedy"], asked) == said
    assert server.refused(events["greedy"], None, [asked["prompt"]]) == said
    server.works()


@pytest.mark.by_day(3)
@pytest.mark.parametrize("asked", [None, [], [1], "x", 5, {}], ids=label)
@pytest.mark.parametrize("name", ["greedy", "draws", "watermark_bench"])
def test_the_pages_own_events_with_what_is_no_form(server, events, name, asked):
    text = server.join(events[name], asked)
    assert "not allowed" in text or "no run named" in text, text
    assert "Something went wrong" not in text
    server.works()


@pytest.mark.parametrize("data", [[1], [1] * 9], ids=label)
def test_the_pages_own_event_with_another_number_of_values(server, events, data):
    said = server.refused(events["greedy"], form_of("greedy"), data)
    assert said == (422, "data must be a list of 0 values.")
    server.works()


@pytest.mark.parametrize("event_id", [-1, 10_000, "0", None, 1.5, []], ids=label)
def test_an_event_that_does_not_exist(server, event_id):
    assert server.refused(event_id, {}) == (404, "There is no such event.")


@pytest.mark.parametrize("data", ["deep", {"deep": 1}], ids=label)
def test_what_nests_too_deep_is_refused_before_it_is_read(server, events, data):
    deep = "[" * 200 + "]" * 200
    body = json.dumps({"fn_index": events["greedy"], "data": [], "event_data": data})
    body = body.replace('"deep"', f'"x": {deep}, "deep"' if isinstance(data, dict) else deep)
    answer = server.post("/gradio_api/queue/join", content=body, headers=JSON)
    assert (answer.status_code, answer.text) == (400, "The request nests deeper than 100 levels.")
    call = server.post("/gradio_api/call/greedy", content=f'{{"data": [{deep}]}}', headers=JSON)
    assert (call.status_code, call.text) == (400, "The request nests deeper than 100 levels.")
    endless = server.post("/gradio_api/call/greedy", content="[" * 200_000, headers=JSON)
    assert endless.status_code in (400, 422)


@pytest.mark.parametrize("data", ["x", {}], ids=label)
def test_the_pages_own_event_with_values_that_are_no_list(server, events, data):
    body = json.dumps({"fn_index": events["greedy"], "data": data, "session_hash": "none"})
    answer = server.post("/gradio_api/queue/join", content=body, headers=JSON)
    assert answer.status_code == 422
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"[]", 422),
        (b'{"session_hash": 5, "fn_index": "a", "event_id": []}', 422),
        (b'{"session_hash": "x", "fn_index": 0, "event_id": "y"}', 200),
    ],
)
def test_cancelling_what_does_not_exist(server, body, status):
    answer = server.post("/gradio_api/cancel", content=body, headers=JSON)
    assert answer.status_code == status
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "request_of",
    [
        {"files": {"files": ("", b"x")}},
        {"content": b"x"},
        {"content": b"x", "headers": {"content-type": "multipart/form-data; boundary=y"}},
        {"files": [("files", (f"{i}.json", b"x")) for i in range(1001)]},
    ],
    ids=["no name", "no form", "no parts", "1001 files"],
)
def test_broken_uploads(server, request_of):
    answer = server.post("/gradio_api/upload", **request_of)
    assert answer.status_code in (400, 422)
    assert "Traceback" not in answer.text
    server.works()


def test_an_uploaded_files_name_is_no_path(server):
    for name in ("../../x.json", "/etc/x.json", "..\\x.json"):
        [path] = server.post("/gradio_api/upload", files={"files": (name, b"{}")}).json()
        assert path.endswith("x.json")
        assert ".." not in path.split("/")
        assert not path.startswith("/etc")


def test_an_unknown_event_is_reported_cleanly_twice(server):
    for _ in range(2):
        assert "404" in server.get("/gradio_api/call/greedy/unknown").text
