"""Comparison of a run with another model: both score the run's text, or a model here scores a server's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.analysis.score_with_other_model import compare_models, models_to_load
from engine.analysis.server_comparison import compare_with_server
from engine.errors import ModelError
from engine.export.model_comparison_csv import model_comparison_csv, server_comparison_csv
from engine.run.preparation import ModelLoader
from engine.run.scheduler import ignore_event
from engine.run.weights import read_single_weights
from engine.sources.source import Source
from engine.trace.records import Trace
from playground.forms.form import single_model_weights
from playground.jobs.registry import JOBS, QUESTION_WAIT_S, JobKind

# One comparison at a time: each holds two models in memory.
_KIND = JobKind(
    "beside",
    slots=1,
    wait_s=QUESTION_WAIT_S,
    busy="Somebody else compares two models; try again in a moment.",
)


def act(payload: Mapping[str, Any], trace: Trace) -> dict[str, Any]:
    """Return both models' scores, as ``ModelComparison.to_dict``, and the table as ``csv``.

    Of a run that a server decoded: what ``ServerComparison.to_dict`` returns, and the table.

    Args:
        payload: ``model``, the other model's name (empty for the run's own), and ``weights``, its
            precision and placement as control values; ``press``, the id that stops it.
        trace: the run; its steps may be missing where it was decoded here.

    Raises:
        EngineError: a value is not valid, the request was stopped, or another comparison is
            running.
    """
    model, weights = payload.get("model") or None, payload.get("weights") or {}
    if model is not None and not isinstance(model, str):
        raise ModelError(
            "Name the model to compare with: a name of the list, a hub id or a folder."
        )
    if trace.served is not None:
        return _compare_with_server(trace, model, weights, payload.get("press"))
    own, other = models_to_load(trace, model, single_model_weights(weights))
    if own == other:
        raise ModelError(
            "That is the run's own model in the same number format; choose another one."
        )
    with JOBS.run(_KIND, payload.get("press")) as job:
        models = ModelLoader(job.cancelled, ignore_event)
        loaded = [models(Source.parse(name), held) for name, held in (own, other)]
        found = compare_models(trace, loaded[0], loaded[1], job.cancelled)
        return {**found.to_dict(), "csv": model_comparison_csv(found)}


def _compare_with_server(
    trace: Trace, model: str | None, weights: Mapping[str, Any], press: Any
) -> dict[str, Any]:
    """Return the scores of a server and of a model here on the server's text."""
    if model is None:
        raise ModelError("Name the model here that reads the server's text.")
    held = read_single_weights(single_model_weights(weights), "beside")
    with JOBS.run(_KIND, press) as job:
        loaded = ModelLoader(job.cancelled, ignore_event)(Source.parse(model), held)
        found = compare_with_server(trace, loaded, job.cancelled)
        return {**found.to_dict(), "csv": server_comparison_csv(found)}
