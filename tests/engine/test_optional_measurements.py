"""What is measured beside a text may fail: then the run stands, and its trace says what is missing."""

from __future__ import annotations

import pytest

from engine.errors import Cancelled, DecodeError
from engine.loops.beams import greedy_path
from engine.loops.drafting import lossless_check
from engine.loops.optional_measurements import OptionalMeasurements
from engine.statistics import metrics
from tests.helpers.beams import searched
from tests.helpers.drafting import finish
from tests.helpers.models import golden_model

PARAMS = {"max_new_tokens": 8, "num_beams": 3}


def failing(*args, **kwargs):
    raise IndexError("the prompt may be quoted here")


@pytest.mark.parametrize("strategy", ["beam_search", "diverse_beam_search"])
def test_the_greedy_path_next_to_beams(monkeypatch, strategy):
    params = PARAMS if strategy == "beam_search" else {"num_beams": 4, "max_new_tokens": 8}
    whole = searched(strategy, golden_model("llama"), **params)
    monkeypatch.setattr(greedy_path, "decode_greedy_path", failing)
    trace = searched(strategy, golden_model("llama"), **params)
    assert trace.outputs == whole.outputs
    assert trace.notes == ("The greedy path next to the beams is missing: IndexError was raised.",)
    assert trace.steps[-1].detail.greedy is None


@pytest.mark.parametrize(
    ("name", "params", "says"),
    [
        ("find_first_parting", {}, "The check against the main model alone is missing"),
        ("run_without_draft", {"plain_run": True}, "The plain run is missing"),
        (
            "check_distribution",
            {"do_sample": True, "distribution_runs": 5},
            "The comparison of distributions is missing",
        ),
    ],
)
def test_the_reports_of_drafting(monkeypatch, name, params, says):
    params = {"max_new_tokens": 8, **params}
    whole = finish("prompt_lookup", params)
    monkeypatch.setattr(lossless_check, name, failing)
    trace = finish("prompt_lookup", params)
    assert trace.outputs == whole.outputs
    assert trace.notes == (f"{says}: IndexError was raised.",)
    report = trace.steps[-1].detail.report
    assert name != "first_parting" or report.checked == 0


def test_the_metrics(monkeypatch):
    monkeypatch.setattr(metrics, "compute_metrics", failing)
    trace = finish("prompt_lookup", {"max_new_tokens": 4})
    assert trace.outputs
    assert trace.metrics == {}
    assert trace.notes == ("The list of metrics is missing: IndexError was raised.",)


def test_a_cancel_goes_through_and_only_own_messages_are_repeated():
    additions = OptionalMeasurements()

    def leave():
        raise Cancelled

    def stop():
        raise DecodeError("Every token was removed.")

    with pytest.raises(Cancelled):
        additions.measure("It", leave, None)
    assert additions.notes == []
    assert additions.measure("It", stop, 7) == 7
    assert additions.measure("It", lambda: 5, 7) == 5
    assert additions.notes == ["It is missing: Every token was removed."]
