"""What the page gets to decide a step by itself, and that it decides it as the engine does."""

from __future__ import annotations

import base64
import json
import random
import subprocess

import numpy as np
import pytest
import torch

from engine import DecodeRequest
from engine.inspection.logits_cache import LOGITS_CACHE
from engine.inspection.step_ref import step_ref_in_run
from engine.inspection.step_scores import PAGE_FILTERS, can_decide_in_page, compute_step_scores
from engine.inspection.what_if import SettingsChange, apply_change
from engine.inspection.what_if_report import build_what_if_report
from engine.processors import FILTERS
from engine.strategies import STRATEGIES
from playground.inspect import what_if
from tests.helpers.asking import kept, rerun
from tests.helpers.models import golden_model
from tests.npm import NODE, ROOT

STORY = "Once upon a time, there was a little frog who"
OWN = {"temperature": 1.1, "top_k": 60, "top_p": 0.97}
PENALTIES = {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "top_n_sigma": 2.5}
SETTINGS, RERUNS = 50, 100


def story(params, new=12):
    return DecodeRequest("sampling", prompt=STORY, params={"max_new_tokens": new, **params}, seed=9)


def answered(run, step):
    """Return the server's answer to a page that asks for the scores of a step."""
    LOGITS_CACHE.put("asked", run)
    return what_if.act({"action": "step_scores", "run": "asked", "step": step})


def decided(run, steps, settings):
    """Return the page's decisions by step and settings; None where it asks the server."""
    own = run.config
    values = [{f: getattr(own, f) for f in map(parameter, PAGE_FILTERS)} | s for s in settings]
    asked = [
        {"answer": answered(run, i), "recorded": run.steps[i].emit[0], "settings": values}
        for i in steps
    ]
    script = ROOT / "tests/js/decide_steps.mjs"
    done = subprocess.run(
        [NODE, script], input=json.dumps(asked), text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def parameter(name):
    return FILTERS[name].parameter


def random_sampling(source):
    """Return up to three parameters of sampling filters at random values."""
    values = {
        "temperature": round(source.uniform(0.05, 3), 2),
        "top_k": source.randint(0, 80),
        "top_p": round(source.uniform(0.05, 1), 2),
        "min_p": round(source.uniform(0, 0.4), 2),
        "typical_p": round(source.uniform(0.1, 1), 2),
        "epsilon_cutoff": round(source.uniform(0, 0.1), 4),
        "eta_cutoff": round(source.uniform(0, 0.1), 4),
    }
    return {name: values[name] for name in source.sample(sorted(values), source.randint(1, 3))}


@pytest.fixture(scope="module", params=[OWN, {**OWN, **PENALTIES}], ids=["plain", "penalties"])
def run(request):
    return kept(story(request.param))


def test_the_arrays_are_those_that_decided_the_step(run):
    for step in (0, 11):
        answer, place = answered(run, step), step_ref_in_run(run, step)
        arrays = {
            name: torch.from_numpy(np.frombuffer(base64.b64decode(text), "<f4").copy())
            for name in ("logits", "scores", "noise")
            if (text := answer[name]) is not None
        }
        assert (arrays.get("logits", arrays["scores"]) == place.passes[-1].logits[place.row]).all()
        own = apply_change(run, SettingsChange())
        assert own.names[-3:] == ("Temperature", "TopK", "TopP")
        ids, scores = place.passes[-1].input_ids, arrays["scores"][None]
        for processor in own.processors[-3:]:
            scores = processor(ids, scores)
        pace = torch.softmax(scores, -1)[0] / arrays["noise"]
        assert int(pace.argmax()) == run.steps[step].emit[0]
        assert set(answer["removed"].values()) <= {"NoRepeatNGram", "TopNSigma"}


@pytest.mark.by_day("penalties")
def test_a_step_is_decided_as_the_server_decides_it(run):
    steps, source = (2, 9), random.Random(4)
    settings = [{}, *(random_sampling(source) for _ in range(SETTINGS))]
    known = 0
    for step, decisions in zip(steps, decided(run, steps, settings), strict=True):
        for values, own in zip(settings, decisions, strict=True):
            asked = apply_change(run, SettingsChange(values))
            told = build_what_if_report(step_ref_in_run(run, step), asked)
            if own is None:
                continue
            known += 1
            assert own["chosen"] == told.token_id, values
            rows = {row["token_id"]: row for row in own["rows"]}
            assert set(rows) == {o.token_id for o in told.options}, values
            for option in told.options:
                row = rows[option.token_id]
                assert row["own"] == pytest.approx(option.raw, rel=1e-4)
                assert row["used"] == pytest.approx(option.used, rel=1e-4)
                assert row["removed"] == option.removed_by
            assert own["rest_own"] == pytest.approx(told.rest_raw, abs=1e-5)
            assert own["rest_used"] == pytest.approx(told.rest_used, abs=1e-5)
            assert 0 <= own["needle"] < 1
    assert known > 0.9 * len(steps) * len(settings), "the page leaves too much to the server"


@pytest.mark.nightly
def test_the_first_word_that_changes_is_that_of_a_real_run():
    def request(other):
        values = {"max_new_tokens": 14, **OWN, **other}
        prompt = [1, 5, 6, 7, 5, 6, 7, 8]
        return DecodeRequest(
            "sampling", golden_model("llama"), input_ids=prompt, params=values, seed=4
        )

    run, source = kept(request({})), random.Random(8)
    settings = [random_sampling(source) for _ in range(RERUNS)]
    by_step = decided(run, range(len(run.steps)), settings)
    late = 0
    for i, values in enumerate(settings):
        own = [decisions[i] for decisions in by_step]
        changed = (
            (n, d["chosen"]) for n, d in enumerate(own) if d and (d["chosen"],) != run.steps[n].emit
        )
        first = next(changed, None)
        if None in own[: len(own) if first is None else first[0]]:
            continue
        assert rerun(run, request(values)) == first, values
        late += first is None or first[0] > 0
    assert late > RERUNS / 2


def test_filters_of_the_page_come_last_and_in_the_order_of_generate():
    values = {"temperature": 0.9, "top_k": 9, "top_p": 0.9, "min_p": 0.01, "typical_p": 0.9}
    values |= {"epsilon_cutoff": 0.001, "eta_cutoff": 0.001, **PENALTIES}
    run = kept(story(values, new=2))
    assert apply_change(run, SettingsChange()).names[-len(PAGE_FILTERS) :] == PAGE_FILTERS


@pytest.mark.parametrize("params", [{"renormalize_logits": True}, {"top_h": 0.9}], ids=str)
def test_the_server_decides_where_another_filter_acts(params):
    assert answered(kept(story({**OWN, **params}, new=2)), 1) == {"scores": None}


def test_only_sampling_is_decided_in_the_page():
    assert [name for name, one in STRATEGIES.items() if can_decide_in_page(one)] == ["sampling"]
    greedy = kept(DecodeRequest("greedy", prompt=STORY, params={"max_new_tokens": 2}))
    assert compute_step_scores(step_ref_in_run(greedy, 1)) is None
