"""Every kind of work gives way inside a pass, and its result is the same as without the pause."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch

from engine import DecodeRequest, LoadedModel
from engine.analysis.generate_outputs import rerun_generate
from engine.analysis.likelihood import score_ids
from engine.analysis.many_draws import draw_many
from engine.inspection.influence import InfluenceQuestion, compute_influence
from engine.run import pass_pauses, turn_taking
from engine.trace.events import Paused, StepRecorded
from tests.helpers.gates import gate
from tests.helpers.models import fresh_model
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.paused_run import paused_run
from tests.helpers.queue import queue_states
from tests.helpers.runs import decode_as, finished, trace_of_run, without_time
from tests.helpers.visitors import FIRST, SECOND, asking_as

IDS = [5, 9, 11, 4, 5, 9, 11]


@pytest.fixture(autouse=True)
def _every_layer(monkeypatch):
    """Let a turn be over at every layer, so that no order depends on the clock."""
    monkeypatch.setattr(turn_taking, "TURN_S", 0.0)
    monkeypatch.setattr(pass_pauses, "_CHECK_S", 0.0)


def request(model, strategy="beam_search", **params):
    values = {"max_new_tokens": 6, **params}
    return DecodeRequest(strategy, model, input_ids=IDS, params=values, seed=3)


def drawn_by_hand(model, input_ids, generation_config=None, logits_processor=None, **kwargs):
    """A method that draws from torch's global generator."""
    del generation_config, kwargs
    for _ in range(6):
        scores = logits_processor(input_ids, model(input_ids).logits[:, -1])
        token = torch.multinomial(scores.softmax(-1), 1)
        input_ids = torch.cat([input_ids, token], -1)
    return input_ids


def _search(model):
    return without_time(finished(request(model, num_beams=3)))


def _method(model):
    return without_time(finished(request(model, "custom", method=drawn_by_hand)))


def _draws(model):
    return [draw for batch in draw_many(request(model, "sampling"), 4) for draw in batch.draws]


def _scores(model):
    return score_ids(model, IDS, [33, 40, 5])


def _trace():
    return finished(request(LoadedModel(fresh_model("llama")), "sampling"))


def _outputs(model):
    output = rerun_generate(_trace(), model=model, output_scores=True)
    return output.sequences.tolist(), torch.stack(output.scores).tolist()


def _influence(method):
    def ask(model):
        found = compute_influence(_trace(), InfluenceQuestion(4, method), model=model)
        parts = [getattr(part, "values", None) or part.row() for part in found.parts]
        return found.logprob, parts

    return ask


WORK = {
    "search": _search,
    "function": _method,
    "draws": _draws,
    "scores": _scores,
    "outputs": _outputs,
    "attention": _influence("attention"),
    "gradient": _influence("gradient"),
    "leave one out": _influence("leave-one-out"),
}


@contextmanager
def watched(model):
    """Yield a list of the begins and ends of forward passes, each with its thread."""
    passes = []

    def note(what):
        return lambda *_: passes.append((what, threading.get_ident()))

    hooks = [
        model.register_forward_pre_hook(note("begin")),
        model.register_forward_hook(note("end")),
    ]
    yield passes
    for hook in hooks:
        hook.remove()


@pytest.mark.by_day("function", "scores")
@pytest.mark.parametrize("name", WORK)
def test_work_gives_way_inside_a_pass_and_stays_what_it_is(name):
    model = LoadedModel(fresh_model("llama"))
    alone = WORK[name](LoadedModel(fresh_model("llama")))
    short = request(model, "dola", max_new_tokens=3)
    alone_too = without_time(finished(short))

    def ask():
        with asking_as(FIRST):
            return WORK[name](model)

    with (
        watched(model.model) as passes,
        gate(model.model, free=0) as held,
        ThreadPoolExecutor(1) as pool,
    ):
        long = pool.submit(ask)
        held.wait()
        second = decode_as(SECOND, short)
        comes_true(lambda: turn_taking.READY in queue_states())
        held.open()
        assert without_time(trace_of_run(second)) == alone_too
        assert long.result(PATIENCE_S) == alone
    (_, first), (_, other) = passes[:2]
    assert [what for what, _ in passes[:2]] == ["begin", "begin"], "the first pass was interrupted"
    assert first != other


def test_a_paused_run_says_so_until_it_continues():
    events = []
    with paused_run() as (first, second, at_work):
        for event in first:
            events.append(event)
            if isinstance(event, Paused):
                at_work.open()
        trace_of_run(second)
    paused = next(n for n, event in enumerate(events) if isinstance(event, Paused))
    assert any(isinstance(event, StepRecorded) for event in events[:paused])
    assert any(isinstance(event, StepRecorded) for event in events[paused:])
