"""The log: one object a line where that is wanted, and never a visitor's words, address or secret in it."""

from __future__ import annotations

import io
import json
import logging
import sys

import httpx
import pytest

from engine.settings import Settings
from playground.server import logs
from tests.helpers.client import Client
from tests.helpers.patience import comes_true
from tests.helpers.server import process

MARKER = "zanzibar-7431"
ADDRESS = "203.0.113.77"
BROKEN = f"""
import logging, threading, warnings
import app
from engine.run.run import Run
from playground.server import audit

reason = Run._finish_reason

def breaks(run, header, ids, whole):
    if "break" in (run.request.prompt or ""):
        raise ValueError(run.request.prompt)
    return reason(run, header, ids, whole)

def fails():
    warnings.warn("{MARKER} in a warning")
    logging.getLogger("of.another").warning("said %s", "{MARKER}")
    logging.getLogger("asyncio").error("never retrieved\\nfuture: {MARKER}")
    thread = threading.Thread(target=lambda: int("{MARKER}"))
    thread.start()
    thread.join()
    raise KeyError("{MARKER}")

Run._finish_reason = breaks
audit.deployment.collect_facts = fails
app.main()
"""
ODD = (
    f"{MARKER}",
    f'{MARKER}\n{{"level": "error"}}\nTraceback (most recent call last):',
    f"%s %d {{}} {MARKER} \x1b[31m \u2028 \x00",
    f"{MARKER} break",
)


def ask_for_all(url):
    """Send a visitor's words to every kind of place, with an address and a secret."""
    client = Client(url)
    client.http.headers["x-forwarded-for"] = ADDRESS
    for prompt in ODD:
        client.call("greedy", prompt, None, {"max_new_tokens": 3}, 0)
    client.call("sampling", ODD[0], MARKER, {"max_new_tokens": 3}, 0)
    client.call("greedy", ODD[0], None, {"max_new_tokens": MARKER, MARKER: 1}, MARKER)
    client.call("custom", ODD[0], None, {"method": f"/{MARKER}", "max_new_tokens": 3}, 0)
    client.call("custom", f"{MARKER} break", None, {"max_new_tokens": 3}, 0)
    client.call(MARKER, MARKER)
    client.call("greedy", *[MARKER] * 40)
    client.get(f"/{MARKER}?prompt={MARKER}")
    client.get("/metrics", headers={"authorization": f"Bearer {MARKER}"})
    client.post("/rooms", content=MARKER)
    client.post("/gradio_api/queue/join", content=f'{{"{MARKER}": "{MARKER}"')
    client.post("/gradio_api/upload", content=MARKER, headers={"content-type": "text/plain"})
    with pytest.raises(httpx.HTTPError):
        client.get("/audit.json").raise_for_status()
    client.http.close()
    # Some of that ends its connection.
    anew = Client(url)
    text = anew.works()["text"]
    anew.http.close()
    return text


@pytest.mark.nightly
@pytest.mark.parametrize("form", [logs.TEXT, *[f for f in logs.FORMATS if f != logs.TEXT]])
def test_nothing_of_a_visitor_is_in_the_log_of_a_server(tmp_path, form):
    log = tmp_path / "log.txt"
    about = {"log_format": form, "log_level": "info", "metrics_token": "s3cret-of-it"}
    with process(log, ("-c", BROKEN), **about) as (url, served):
        text = ask_for_all(url)
        comes_true(lambda: "greedy" in log.read_text() or form == logs.TEXT)
        served.terminate()
        assert served.wait(60) == 0
    written = log.read_text()
    for secret in (MARKER, ADDRESS, "s3cret", text.strip()):
        assert secret not in written, written
    # What an operator needs is there: what failed, and where.
    for needed in ("not caught: ValueError", "in breaks", "KeyError", "never retrieved", "said"):
        assert needed in written, written
    assert "UserWarning in <string>, line" in written
    if form == logs.JSON:
        lines = [json.loads(line) for line in written.splitlines()]
        assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
        check_ends([line for line in lines if "outcome" in line])


def check_ends(ended):
    """Every run that was asked for has one line, which says how it ended."""
    finished = [line for line in ended if line["outcome"] == "finished"]
    assert len(finished) >= 4
    for line in finished:
        assert line["logger"] == "engine"
        assert len(line["run"]) == 8
        assert line["strategy"] == "greedy"
        assert 1 <= line["tokens"] <= 3
        assert line["seconds"] >= line["total_s"] >= line["first_token_s"] > 0
    failed = {line["code"] for line in ended if line["outcome"] == "failed"}
    assert {"internal", "parameter"} <= failed


@pytest.mark.parametrize(
    ("name", "value"), [("log_format", "xml"), ("log_level", "loud"), ("log_level", "INFO")]
)
def test_a_form_that_there_is_not_is_named(name, value):
    with pytest.raises(ValueError, match=f"PLAYGROUND_{name.upper()} = '{value}' is not one of"):
        logs.set_up_logging(Settings(**{name: value}))


def record(name, message, *args, **values):
    return logs.make_safe_record(
        name, logging.ERROR, "file.py", 3, message, args, values.pop("exc_info", None)
    )


def test_what_others_put_into_their_lines_is_left_out():
    assert record("uvicorn.error", "bad %s\nmore", MARKER).getMessage() == "bad %s"
    assert record("engine.run", "run %s", "1a2b").getMessage() == "run 1a2b"
    assert record("enginelike", "%s", MARKER).getMessage() == "%s"


@pytest.mark.parametrize("formatter", [logs.TextFormatter(), logs.JsonFormatter()])
def test_an_exception_is_recognised_by_its_kind_and_frames(formatter):
    try:
        try:
            raise KeyError(MARKER)
        except KeyError as error:
            raise ValueError(MARKER) from error
    except ValueError:
        line = formatter.format(record("engine", "failed", exc_info=sys.exc_info()))
    assert MARKER not in line
    assert "ValueError" in line
    assert "test_an_exception_is_recognised_by_its_kind_and_frames" in line


def test_a_line_of_json_is_one_line_with_the_fields_that_are_known():
    made = record("engine", "two\nlines")
    made.outcome, made.prompt = "finished", MARKER
    line = logs.JsonFormatter().format(made)
    assert "\n" not in line
    found = json.loads(line)
    assert (found["message"], found["outcome"], found["level"]) == (
        "two\nlines",
        "finished",
        "error",
    )
    assert MARKER not in line


def test_what_is_printed_becomes_lines_of_json():
    out = io.StringIO()
    printed = logs.JsonStream("stdout", out)
    print("one", "half", sep="\n", end="", file=printed)
    print(" and the rest\n", file=printed)
    assert [json.loads(line)["message"] for line in out.getvalue().splitlines()] == [
        "one",
        "half and the rest",
    ]
