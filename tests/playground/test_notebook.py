"""A run in a cell of a notebook: what its widget sends, how it ends, and what is saved of it."""

from __future__ import annotations

import json
import sys
import threading
from html import unescape

import comm
import pytest

from engine import DecodeRequest, decode, load
from engine.errors import EngineError, ParameterError
from playground.notebook.run_widget import RunWidget
from playground.notebook.watch import watch
from tests.helpers.gates import gate
from tests.helpers.patience import PATIENCE_S
from tests.helpers.runs import without_time

VIEW = "application/vnd.jupyter.widget-view+json"


def request(seed=3, tokens=6, **params):
    params = {"max_new_tokens": tokens, "top_k": 0, **params}
    return DecodeRequest(
        "sampling", load("storyteller"), prompt="The dog", params=params, seed=seed
    )


def said(run, **content):
    """Do as a view does that tells the run's widget something."""
    message = {"data": {"method": "custom", "content": content}}
    run.widget._handle_msg({"content": message, "buffers": []})


def ended(run):
    """Wait until a run has shown how it ended."""
    run._thread.join(PATIENCE_S)
    assert run.ended
    return run


@pytest.fixture
def sent(monkeypatch):
    """Return the messages of widgets to the browser, as (id of the widget, what is sent)."""
    messages = []

    class Wire(comm.base_comm.BaseComm):
        def publish_msg(self, msg_type, data=None, **more):
            messages.append((self.comm_id, msg_type, json.loads(json.dumps(data))))

    monkeypatch.setattr(comm, "create_comm", Wire)
    return messages


@pytest.fixture
def cells(monkeypatch):
    """Return the outputs of cells, each as a list: what it showed first, then what replaced that."""
    import IPython.display

    shown = []

    class Handle:
        def __init__(self, bundle):
            self.outputs = [bundle]
            shown.append(self.outputs)

        def update(self, bundle, raw):
            assert raw
            self.outputs.append(bundle)

    monkeypatch.setattr(IPython.display, "display", lambda bundle, raw, **more: Handle(bundle))
    return shown


def recorded(html):
    """Return the record in a page's frame."""
    inside = unescape(html.split('srcdoc="')[1].split('"')[0])
    return json.loads(inside.rpartition('id="run">')[2].split("</script>")[0])


def test_a_browser_gets_the_messages_of_the_run_once_and_in_their_order(sent):
    run = watch(request())
    trace = ended(run).result()
    (_id, kind, opened), *updates = [one for one in sent if one[0] == run.widget.comm.comm_id]
    assert kind == "comm_open"
    state = opened["state"]
    assert (state["newest"], state["refusal"], state["name"]) == ([], "", "sampling, seed 3")
    for _, _, data in updates:
        state |= data["state"]
    texts = [t for name in ("oldest", "older", "newer", "newest") for t in state[name]]
    messages = [json.loads(text) for text in texts]
    assert messages == run.widget.messages
    assert state["count"] == len(messages)
    assert messages[0]["says"] == "Starting…"
    numbered = [one for one in messages if "seq" in one]
    assert [one["seq"] for one in numbered] == list(range(len(numbered)))
    assert {one["run"] for one in messages} == {messages[0]["run"]}
    assert (numbered[0]["kind"], numbered[-1]["kind"]) == ("start", "finish")
    steps = [step for one in numbered for step in one.get("steps", ())]
    assert [step["index"] for step in steps] == [step.index for step in trace.steps]
    *_, last = decode(request())
    assert without_time(last.trace) == without_time(trace)


@pytest.mark.nightly
def test_a_long_run_is_not_sent_again_with_each_of_its_messages(sent):
    widget = RunWidget(request(), lambda said: None)
    sent.clear()
    texts = [json.dumps({"seq": number, "text": "x" * 1000}) for number in range(3000)]
    for text in texts:
        widget.add([text])
    assert [json.dumps(one) for one in widget.messages] == texts
    assert widget.count == len(texts)
    whole, all_sent = sum(map(len, texts)), sum(len(json.dumps(data)) for *_, data in sent)
    assert all_sent < 40 * whole  # sent whole each time, it would be 1,500 times
    assert len(sent) == len(texts)


@pytest.mark.parametrize("way", ["stop", "left"])
def test_a_run_stops_when_a_view_says_so_or_its_last_view_is_gone(way):
    model = load("storyteller")
    with gate(model.model, free=4) as held:
        run = watch(request(tokens=200))
        held.wait()
        said(run, **{way: True})
        held.open()
        trace = run.result()
    assert trace.outputs[0].finish_reason == "cancelled"
    assert 0 < len(trace.steps) < 200
    assert run.widget.messages[-1]["rest"]["outputs"][0]["finish_reason"] == "cancelled"


def test_an_interrupt_of_the_cell_that_waits_stops_the_run(monkeypatch):
    model = load("storyteller")
    with gate(model.model, free=4) as held:
        run = watch(request(tokens=200))
        held.wait()
        wait = run._ended.wait

        def interrupted():
            monkeypatch.setattr(run._ended, "wait", wait)
            held.open()
            raise KeyboardInterrupt

        monkeypatch.setattr(run._ended, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.result()
    assert run.result().outputs[0].finish_reason == "cancelled"


def test_stopping_one_run_leaves_the_other(cells):
    model = load("storyteller")
    with gate(model.model, free=2) as held:
        first, second = watch(request(tokens=200)), watch(request(seed=4))
        held.wait()
        said(first, stop=True)
        held.open()
        assert first.result().outputs[0].finish_reason == "cancelled"
        assert len(second.result().steps) == 6
    assert first.widget.comm.comm_id != second.widget.comm.comm_id


def test_a_cell_shows_the_widget_at_once_and_is_saved_with_the_recorded_page(cells):
    model = load("storyteller")
    with gate(model.model, free=4) as held:
        run = watch(request())
        run._ipython_display_()
        held.wait()
        [outputs] = cells
        assert outputs[0][VIEW]["model_id"] == run.widget.model_id
        assert len(outputs) == 1
        said(run, selected=2)
        held.open()
        trace = ended(run).result()
    _, saved = outputs
    assert set(saved) == {"text/plain", "text/html"}
    assert saved["text/plain"] == trace.outputs[0].text
    page = recorded(saved["text/html"])
    assert len(page["recorded"]["trace"]["steps"]) == 6
    assert (page["about"]["selected"], page["dark"]) == (2, None)
    run._ipython_display_()
    assert cells[1] == [saved]


def test_a_bad_parameter_is_one_sentence_in_the_cell(cells):
    run = watch(request(temperature=-8))
    run._ipython_display_()
    with pytest.raises(ParameterError) as refused:
        ended(run).result()
    sentence = str(refused.value)
    assert sentence.startswith("temperature = -8 is not allowed")
    assert run.widget.refusal == sentence
    assert type(run.widget.refusal) is str
    saved = cells[0][-1]
    assert saved["text/plain"] == sentence
    assert unescape(saved["text/html"]) == f'<p role="alert">{sentence}</p>'


def test_a_run_that_fails_says_so_and_keeps_what_came(cells):
    model = load("storyteller")

    def fails(module, given):
        if held.passes > 4:
            raise RuntimeError("no more")

    with gate(model.model, free=4) as held:
        hook = model.model.register_forward_pre_hook(fails)
        run = watch(request())
        run._ipython_display_()
        held.wait()
        held.open()
        with pytest.raises(EngineError) as failed:
            ended(run).result()
        hook.remove()
    assert run.widget.refusal == ""
    assert run.widget.messages[-1]["error"] == str(failed.value)
    html = cells[0][-1]["text/html"]
    assert str(failed.value) in unescape(html)
    assert len(recorded(html)["recorded"]["trace"]["steps"]) == 4


def test_without_anywidget_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "playground.notebook.run_widget")
    with pytest.raises(EngineError, match=r"anywidget .*: python -m pip install .*notebook") as one:
        watch(request())
    assert str(one.value).count(". ") == 0


def test_something_else_than_a_request_is_refused():
    with pytest.raises(EngineError, match=r"takes a DecodeRequest, not 'sampling'"):
        watch("sampling")


def test_marimo_is_given_the_widget_and_its_own_thread(monkeypatch):
    class Thread(threading.Thread):
        should_exit = False

    class Marimo:
        Thread = None

        @staticmethod
        def running_in_notebook():
            return True

    Marimo.Thread = Thread
    monkeypatch.setitem(sys.modules, "marimo", Marimo)
    model = load("storyteller")
    with gate(model.model, free=4) as held:
        run = watch(request(tokens=200))
        assert run._display_() is run.widget
        held.wait()
        # The cell is run again.
        run._thread.should_exit = True
        held.open()
        assert run.result().outputs[0].finish_reason == "cancelled"
