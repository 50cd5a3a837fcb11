"""transformers' outputs over the network: the size, the file, and who gets none."""

from __future__ import annotations

import dataclasses
import http.client
import json
import threading
from urllib.parse import urlsplit

import pytest

from engine import DecodeRequest
from engine.analysis import generate_outputs as made_again
from engine.analysis import generate_outputs_sizes
from engine.analysis.generate_outputs import rerun_generate
from engine.analysis.generate_outputs_files import load_output
from engine.settings import SETTINGS
from engine.trace import json_io
from playground.inspect import generate_outputs, questions
from playground.jobs.registry import JOBS
from playground.storage.uploads import UPLOADS
from tests.helpers.patience import PATIENCE_S
from tests.helpers.rich import EVERYTHING, differs
from tests.helpers.runs import finished
from tests.helpers.sentences import clean
from tests.helpers.served import SERVED_HERE

pytestmark = SERVED_HERE
SCORES = {"output_scores": True}


@pytest.fixture(scope="module")
def trace():
    return finished(
        DecodeRequest("sampling", prompt="Once upon a time", params={"max_new_tokens": 8}, seed=2)
    )


@pytest.fixture(scope="module")
def sent(trace):
    """The run as a page sends it: without its steps."""
    return json_io.trace_to_dict(dataclasses.replace(trace, steps=()))


def post(url, body, headers=None, **more):
    """Return status, bytes and headers of what is answered."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=PATIENCE_S)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(
        "POST",
        generate_outputs.RICH_PATH,
        data,
        {"Content-Type": "application/json", **(headers or {})},
    )
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def refused(url, body, status=400, **more):
    code, data, _ = post(url, body, **more)
    assert code == status, data[:200]
    return clean(json.loads(data)["error"], most=400)


def test_the_file_is_the_runs_and_as_large_as_was_said(here, trace, sent, tmp_path):
    told = questions.answer_question({"action": "rich_size", "trace": sent, "flags": EVERYTHING})
    status, data, headers = post(here, {"trace": sent, "flags": EVERYTHING})
    assert status == 200
    assert told["size"] == pytest.approx(len(data), rel=0.01)
    assert headers["cache-control"] == "no-store"
    path = tmp_path / "out.safetensors"
    path.write_bytes(data)
    assert differs(load_output(path), rerun_generate(trace, **EVERYTHING)) == []


def test_nothing_is_left_of_it(here, sent):
    assert post(here, {"trace": sent, "flags": SCORES})[0] == 200
    left = [p for p in UPLOADS.folder.rglob("*") if p.is_file()] if UPLOADS.folder.exists() else []
    assert not [p for p in left if p.suffix == ".safetensors" or p.stat().st_size > 100_000]
    with JOBS.run(generate_outputs._KIND):
        pass


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"flags": {}}, "at least one of"),
        ({"flags": {"output_scores": 1}}, "true or false"),
        ({"flags": {"evil": True}}, "must be one of"),
        ({"flags": 5}, "an object of names"),
        ({"flags": None}, "an object of names"),
        ({"trace": None}, "object"),
        ({"trace": {}}, "schema"),
        ({"trace": [1]}, "object"),
    ],
    ids=str,
)
def test_what_is_no_question_is_refused(here, sent, change, said):
    asked = {"trace": sent, "flags": SCORES, **change}
    assert said in refused(here, asked)
    with pytest.raises(Exception, match=said) as caught:
        questions.answer_question({"action": "rich_size", **asked})
    clean(str(caught.value), most=400)


def test_bodies_that_are_none(here, sent):
    assert refused(here, b"{")
    assert refused(here, [1]) == "The request has to be an object with trace, flags."
    status, data, _ = post(here, b"x" * (SETTINGS.max_request_bytes + 1))
    assert (status, data) == (413, b"The request is too large.")
    # Another page's scripts may not have anything computed.
    status, *_ = post(
        here, {"trace": sent, "flags": SCORES}, {"Origin": "http://elsewhere.example"}
    )
    assert status == 403


def test_a_run_that_was_changed_has_no_outputs(here, sent):
    changed = json.loads(json.dumps(sent))
    changed["seed"] += 1
    assert "comes out otherwise here from token" in refused(
        here, {"trace": changed, "flags": SCORES}
    )


def test_a_public_deployment_gives_less(monkeypatch, here, sent):
    limits = dataclasses.replace(SETTINGS, public=True, max_public_rich_bytes=1000)
    monkeypatch.setattr(generate_outputs_sizes, "SETTINGS", limits)
    said = refused(here, {"trace": sent, "flags": SCORES})
    assert "at most 0.001 MB are given here: make a shorter run." in said
    with pytest.raises(Exception, match="make a shorter run"):
        questions.answer_question({"action": "rich_size", "trace": sent, "flags": SCORES})


def test_a_visitor_who_leaves_stops_it(monkeypatch, here, sent):
    began, ended, seen = threading.Event(), threading.Event(), []

    def generated(run, trace, flags, cancelled):
        began.set()
        seen.append(cancelled.wait(PATIENCE_S))
        ended.set()
        raise made_again.Cancelled

    monkeypatch.setattr(made_again, "_call_generate", generated)
    place = urlsplit(here)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=PATIENCE_S)
    connection.request(
        "POST", generate_outputs.RICH_PATH, json.dumps({"trace": sent, "flags": SCORES}).encode()
    )
    assert began.wait(PATIENCE_S)
    connection.close()
    assert ended.wait(PATIENCE_S)
    assert seen == [True]
    monkeypatch.undo()
    assert post(here, {"trace": sent, "flags": SCORES})[0] == 200


def test_one_file_is_made_at_a_time(monkeypatch, here, sent):
    at_once = dataclasses.replace(generate_outputs._KIND, wait_s=0.0)
    monkeypatch.setattr(generate_outputs, "_KIND", at_once)
    with JOBS.run(at_once):
        said = refused(here, {"trace": sent, "flags": SCORES}, 503)
    assert said.startswith("Somebody else fetches outputs")


def test_what_fails_is_reported_without_its_reason(monkeypatch, here, sent):
    def broken(*args):
        raise RuntimeError("secret")

    monkeypatch.setattr(made_again, "_call_generate", broken)
    status, data, _ = post(here, {"trace": sent, "flags": SCORES})
    said = json.loads(data)["error"]
    assert status == 500
    assert said.startswith("Something went wrong inside the playground")
    assert "secret" not in said
