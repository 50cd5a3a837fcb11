"""What else went on while something was timed, and the figures that follow from it."""

from __future__ import annotations

import dataclasses

import pytest

from engine import DecodeRequest, LoadedModel, decode
from engine.analysis import gallery
from engine.timing_noise import NoiseMonitor, Work, cpu_share
from engine.trace.events import Finished
from engine.trace.records import Timing
from tests.helpers.drafting import finish
from tests.helpers.gates import gate
from tests.helpers.models import fresh_model, golden_model
from visualizers import summarize_trace

PLAIN = {"max_new_tokens": 4, "plain_run": True}


def test_a_watch_counts_the_others_and_not_itself():
    assert NoiseMonitor().measure().others == 0
    with Work().track():
        alone = NoiseMonitor()
        assert alone.measure().others == 0
        with Work().track(), Work().track():
            pass
        assert alone.measure().others == 2
        assert NoiseMonitor().measure().others == 0


def test_paused_work_is_not_counted_even_if_it_starts_or_ends_meanwhile():
    def others():
        return NoiseMonitor().measure().others

    work = Work()
    with Work().track():
        work.pause()
        with work.track():
            assert others() == 0
            work.resume()
            assert others() == 1
            work.pause()
            assert others() == 0
        work.resume()
        assert others() == 0


@pytest.mark.parametrize(
    ("used", "passed", "share"), [(1.0, 2.0, 0.5), (2.1, 2.0, 1.0), (0.0, 0.0, 1.0)]
)
def test_a_share_is_one(used, passed, share):
    assert cpu_share(used, passed) == share


@pytest.mark.parametrize("others", [0, 1])
def test_a_run_says_what_ran_next_to_it(others):
    def run():
        trace = finish("speculative", PLAIN, assistant=golden_model("llama_draft"))
        return trace.steps[-1].detail.report

    if not others:
        report = run()
    else:
        with Work().track():
            report = run()
    assert report.others == others
    assert 0 <= report.processor_share <= 1


def request():
    loaded = LoadedModel(fresh_model("llama"))
    return DecodeRequest("greedy", loaded, input_ids=[5, 9], params={"max_new_tokens": 4})


def test_the_first_token_is_timed_from_where_decoding_began():
    first = request()
    with gate(first.model.model, free=1) as held:
        run = decode(first)
        held.wait()
        # What it waits for is a figure of its own.
        second = decode(request())
        held.open()
        *_, other = run
        *_, last = second
    for event in (other, last):
        assert isinstance(event, Finished)
        timing, steps = event.trace.timing, event.trace.steps
        assert timing.first_token_s == steps[0].elapsed_s <= timing.total_s


@pytest.mark.nightly
def test_no_recorded_run_has_its_first_token_after_its_last():
    for entry in gallery.list_entries():
        trace = gallery.open_entry(entry.file)
        # As a file that counts 33 seconds of loading and waiting: the page goes by the steps.
        slow = dataclasses.replace(trace.timing, first_token_s=33.151)
        assert isinstance(slow, Timing)
        last = summarize_trace(dataclasses.replace(trace, timing=slow), ())[-1]["text"]
        assert 0 < last["first_token_s"] <= trace.timing.total_s, entry.file
