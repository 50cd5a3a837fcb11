"""A dial map: each interval is the text of a real run, the limits are said, and it gives way."""

from __future__ import annotations

import itertools
import json
import random
import threading
from pathlib import Path

import jsonschema
import pytest
import torch
import transformers as t

from engine import DecodeRequest, map_dial
from engine.analysis.dial_map import build
from engine.analysis.dial_map.decisions import with_column
from engine.analysis.dial_map.dials import DIALS, EDGE_WIDTH
from engine.cli.main import main
from engine.errors import EngineError, ParameterError, TraceError
from engine.loops.recorder import run_processors
from engine.loops.tolerance import find_uncertain_rows
from engine.models import slots
from engine.run.scheduler import RUN_QUEUE
from engine.trace import json_io
from engine.trace.dial_map_json import (
    dial_map_schema,
    dial_map_to_dict,
    dump_dial_map,
    load_dial_map,
)
from tests.helpers.models import golden_model
from tests.helpers.real import real_model
from tests.helpers.runs import finished, finished_together

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "dial_map.schema.json"
PROMPT = "One day, a little boy found a"
STORYTELLER = {"model": None, "prompt": PROMPT}
TINY = {"model": "llama", "input_ids": [1, 5, 6, 7, 8, 9]}
# Each dial with its range, and other settings.
CASES = (
    ("temperature", 0.1, 3.0, {}),
    ("temperature", 0.1, 3.0, {"top_k": 20, "top_p": 0.9, "min_p": 0.02}),
    ("temperature", 0.2, 2.0, {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3}),
    ("temperature", 0.2, 2.0, {"encoder_repetition_penalty": 1.2, "top_n_sigma": 2.0}),
    ("temperature", 0.2, 2.0, {"epsilon_cutoff": 0.02}),
    ("top_k", 1, 90, {}),
    ("top_p", 0.05, 1.0, {"temperature": 1.5, "top_k": 40}),
    ("min_p", 0.0, 0.9, {"temperature": 1.5}),
    ("top_n_sigma", 0.1, 3.0, {"temperature": 1.5, "top_p": 0.9}),
    ("top_h", 0.05, 1.0, {"temperature": 1.5}),
    ("typical_p", 0.05, 1.0, {"temperature": 1.5}),
    ("epsilon_cutoff", 0.0, 0.5, {"temperature": 1.5, "top_k": 40}),
    ("eta_cutoff", 0.0, 0.5, {"temperature": 1.5}),
    ("repetition_penalty", 0.5, 2.0, {"no_repeat_ngram_size": 4, "top_p": 0.95}),
    ("dry_multiplier", 0.0, 3.0, {"dry_allowed_length": 1, "sequence_bias": [[[6], 5.0]]}),
)


def request(source=TINY, seed=3, tokens=8, **params):
    model, prompt = source["model"], {k: v for k, v in source.items() if k != "model"}
    return DecodeRequest(
        "sampling",
        golden_model(model) if model in ("llama", "t5") else model,
        params={"top_k": 0, "max_new_tokens": tokens, **params},
        seed=seed,
        top_candidates=1,
        **prompt,
    )


def last_map(asked, *args, **more):
    *_, found = map_dial(asked, *args, **more)
    return found


def is_near_edge(found, value):
    """Return whether a value is within the stated width of an edge."""
    edges = [one.low for one in found.intervals[1:]] if found.stops is None else []
    return any(abs(value - edge) <= EDGE_WIDTH * edge for edge in edges)


def differing_runs(found, source, runs, drawn, seed=3, tokens=8, together=False, **params):
    """Return the values at which a real run differs from the map, of so many runs."""
    values = [
        drawn.choice(found.stops) if found.stops else drawn.uniform(found.low, found.high)
        for _ in range(runs)
    ]
    asked = [request(source, seed, tokens, **{**params, found.dial: value}) for value in values]
    traces = finished_together(asked) if together else map(finished, asked)
    wrong = []
    for value, trace in zip(values, traces, strict=True):
        one = found.interval_at(value)
        written = trace.outputs[0].token_ids
        if one.end == "not_followed":
            written = written[: len(one.token_ids)]
        if written != one.token_ids and not is_near_edge(found, value):
            wrong.append((found.dial, params, seed, value))
    return wrong


@pytest.mark.by_day(6)
@pytest.mark.parametrize(("dial", "low", "high", "params"), CASES)
def test_a_real_run_writes_the_text_of_its_interval(dial, low, high, params):
    found = last_map(request(**params), dial, low, high)
    assert found.complete
    assert len(found.intervals) > 1
    assert differing_runs(found, TINY, 4, random.Random(1), **params) == []
    tokens = [one.token_ids for one in found.intervals]
    assert all(a != b for a, b in itertools.pairwise(tokens))
    for before, one in zip(found.intervals, found.intervals[1:], strict=False):
        assert before.high < one.low
        shared = one.first_change
        assert before.token_ids[:shared] == one.token_ids[:shared]
        assert before.token_ids[shared : shared + 1] != one.token_ids[shared : shared + 1]


def test_every_dial_has_a_case():
    assert {dial for dial, *_ in CASES} == set(DIALS)


def test_the_storyteller_writes_the_texts_of_its_map():
    found = last_map(request(STORYTELLER, tokens=10), "temperature", 0.1, 2.0)
    assert found.proven
    assert len(found.intervals) > 5
    assert differing_runs(found, STORYTELLER, 4, random.Random(2), tokens=10) == []
    assert all(one.ranks[0] >= 1 and one.logprobs[0] < 0 for one in found.intervals)
    # Warmer never makes a step return to a likelier token, as long as what came before is the same.
    ranks = [one.ranks[0] for one in found.intervals]
    assert ranks == sorted(ranks)


@pytest.mark.nightly
def test_bisection_is_wrong_for_temperature_with_epsilon(monkeypatch):
    stops = [round(0.1 + 0.04 * i, 2) for i in range(60)]
    asked = [request(seed=seed, epsilon_cutoff=0.06, tokens=6) for seed in range(4)]
    exact = [last_map(one, "temperature", 0.1, 3.0, stops=stops) for one in asked]
    assert not any(found.proven for found in exact)
    assert all("Epsilon cutoff" in found.reason for found in exact)
    monkeypatch.setattr(build, "unproven_reason", lambda dial, config: "")
    bisected = [last_map(one, "temperature", 0.1, 3.0, stops=stops) for one in asked]
    wrong = [
        (seed, stop)
        for seed, (one, other) in enumerate(zip(exact, bisected, strict=True))
        for stop in stops
        if one.interval_at(stop).token_ids != other.interval_at(stop).token_ids
    ]
    assert wrong
    for seed, stop in wrong[:3]:
        run = finished(request(seed=seed, epsilon_cutoff=0.06, tokens=6, temperature=stop))
        assert run.outputs[0].token_ids == exact[seed].interval_at(stop).token_ids


def test_an_uncertain_step_is_decided_by_a_pass_alone(monkeypatch):
    usual = last_map(request(), "temperature", 0.1, 3.0)
    monkeypatch.setattr(slots, "measure_margin", lambda loaded: 0.05)
    careful = last_map(request(), "temperature", 0.1, 3.0)
    assert careful.decided_alone > usual.decided_alone
    assert careful.forward_rows > usual.forward_rows
    texts = [[one.token_ids for one in found.intervals] for found in (usual, careful)]
    assert texts[0] == texts[1]


def test_a_column_of_values_is_judged_as_each_value_alone():
    random_ = torch.Generator().manual_seed(5)
    logits = 3 * torch.randn(60, 40, generator=random_)
    noise = torch.empty(1, 40).exponential_(1, generator=random_)
    ids = torch.tensor([[3, 7, 1]])
    for dial, low, high in (("temperature", 0.2, 3), ("top_p", 0.2, 0.99), ("min_p", 0.01, 0.5)):
        values = torch.linspace(low, high, 60).double().tolist()
        [made] = build_processors(dial)
        column = with_column(made, dial, values)
        _, stages = run_processors([column], ids.expand(60, -1), logits)
        together = find_uncertain_rows(stages, logits, [column], noise, 0.02).tolist()
        alone = []
        for i, value in enumerate(values):
            one = with_column(made, dial, [value])
            _, own = run_processors([one], ids, logits[i : i + 1])
            alone += find_uncertain_rows(own, logits[i : i + 1], [one], noise, 0.02).tolist()
        assert together == alone
        assert 0 < sum(alone) < 60


def build_processors(dial):
    return {
        "temperature": [t.TemperatureLogitsWarper(0.5)],
        "top_p": [t.TopPLogitsWarper(0.5)],
        "min_p": [t.MinPLogitsWarper(0.5)],
    }[dial]


def test_only_the_widest_texts_are_followed():
    whole = last_map(request(), "temperature", 0.1, 3.0)
    found = last_map(request(), "temperature", 0.1, 3.0, max_texts=4)
    lost = [one for one in found.intervals if one.end == "not_followed"]
    assert lost
    # The texts that are lost take no other's place.
    assert sum(one.end == "length" for one in found.intervals) >= 4
    assert f"{len(lost)} narrow stretches" in found.notes[-1]
    for one in lost:
        own = whole.interval_at((one.low + one.high) / 2)
        assert own.token_ids[: len(one.token_ids)] == one.token_ids


@pytest.mark.nightly
def test_a_long_text_is_mapped_up_to_64_tokens():
    found = last_map(request(tokens=80), "top_p", 0.9, 0.95)
    assert found.steps == 64
    assert {one.end for one in found.intervals} <= {"cut", "eos"}
    assert "first 64 tokens" in found.notes[-1]


def test_it_grows_step_by_step_and_stops_within_one():
    cancelled = threading.Event()
    growing = map_dial(request(), "temperature", 0.1, 3.0, cancelled=cancelled)
    first, second = next(growing), next(growing)
    assert (first.steps, second.steps) == (1, 2)
    assert not second.complete
    assert len(second.intervals) >= len(first.intervals)
    cancelled.set()
    assert list(growing) == []
    assert len(RUN_QUEUE) == 0


def test_a_map_in_the_background_takes_no_turn_while_anyone_waits():
    cancelled, steps = threading.Event(), []
    growing = map_dial(request(), "temperature", 0.1, 3.0, cancelled=cancelled, background=True)
    steps.append(next(growing).steps)
    done = threading.Event()

    def go_on():
        steps.extend(found.steps for found in growing)
        done.set()

    with RUN_QUEUE.open_ticket(threading.Event()) as place, place.release_turn():
        thread = threading.Thread(target=go_on)
        thread.start()
        # It may only see that the queue is not empty: a run is as fast as without it.
        assert finished(request(tokens=2)).outputs[0].token_ids
        assert steps == [1]
    thread.join()
    assert done.is_set()
    assert steps == list(range(1, 9))


@pytest.mark.parametrize(
    ("given", "args", "message"),
    [
        ({}, ("seed", 0, 1), "dial = 'seed'"),
        ({}, ("temperature", 2.0, 0.1), "it must be below high = 0.1"),
        ({}, ("temperature", 0.0, 1.0), "temperature = 0"),
        ({}, ("top_k", 0, 5), "values at which the filter is on"),
        ({"num_return_sequences": 2}, ("top_p", 0.1, 1.0), "num_return_sequences"),
        ({"guidance_scale": 1.5}, ("top_p", 0.1, 1.0), "guidance_scale"),
        ({"max_time": 3}, ("top_p", 0.1, 1.0), "max_time"),
        ({"stop_strings": ["x"]}, ("top_p", 0.1, 1.0), "stop_strings"),
        ({"source": {**TINY, "model": "t5"}}, ("top_p", 0.1, 1.0), "encoder"),
        ({"epsilon_cutoff": 0.1}, ("temperature", 0.1, 90.0), "at most 400 stops"),
    ],
)
def test_what_has_no_map_is_refused_in_one_sentence(given, args, message):
    with pytest.raises(EngineError, match=message) as refused:
        last_map(request(**given), *args)
    assert str(refused.value).count(". ") == 0


def test_a_model_in_half_precision_is_refused(monkeypatch):
    monkeypatch.setattr(slots, "can_share_passes", lambda loaded: False)
    with pytest.raises(EngineError, match="float32 on a CPU"):
        last_map(request(), "temperature", 0.1, 1.0)


def test_unordered_stops_are_refused():
    with pytest.raises(ParameterError, match="ascending"):
        last_map(request(), "temperature", 0.1, 1.0, stops=[0.5, 0.2])


def test_its_json_is_described_and_read_again():
    found = last_map(request(tokens=3, epsilon_cutoff=0.01), "temperature", 0.5, 1.0)
    schema = dial_map_schema()
    assert json.loads(SCHEMA_FILE.read_text()) == json.loads(json.dumps(schema)), (
        "write it again: python -m engine schema --dial-map > docs/dial_map.schema.json"
    )
    data = json.loads(dump_dial_map(found))
    jsonschema.validate(data, schema)
    assert load_dial_map(json.dumps(data).encode()) == found
    for place, value in (("schema", "decoding-dial-map/2"), ("intervals", []), ("low", "x")):
        with pytest.raises(TraceError):
            load_dial_map(json.dumps({**data, place: value}).encode())
    broken = dial_map_to_dict(found)
    broken["intervals"][0]["ranks"] = []
    with pytest.raises(TraceError, match="does not fit together"):
        load_dial_map(json.dumps(broken).encode())


def test_the_command_prints_a_table_or_json(tmp_path, capsys):
    path = tmp_path / "run.json.gz"
    json_io.save(finished(request(STORYTELLER, tokens=4, temperature=0.9)), path)
    assert main(["dial", str(path), "--low", "0.1", "--high", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("temperature from 0.1 to 2: ")
    assert sum(line.startswith(">") for line in lines) == 1
    assert (
        main(["dial", str(path), "--dial", "top_p", "--low", "0.5", "--high", "1", "--json"]) == 0
    )
    jsonschema.validate(json.loads(capsys.readouterr().out), dial_map_schema())
    assert main(["dial", str(path), "--dial", "seed", "--low", "1", "--high", "2"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def check_many(source, first, maps, runs, tokens):
    """Return what differs among real runs at random values of maps, whose cases begin with a number."""
    drawn, wrong = random.Random(first), []
    for number in range(first, first + maps):
        dial, low, high, params = CASES[number % len(CASES)]
        seed = drawn.randrange(1000)
        found = last_map(request(source, seed, tokens, **params), dial, low, high)
        wrong += differing_runs(found, source, runs, drawn, seed, tokens, together=True, **params)
    return wrong


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(0, 40, 2))
def test_800_runs_of_the_storyteller_are_on_their_maps(first):
    assert check_many(STORYTELLER, first, maps=2, runs=20, tokens=9) == []


@pytest.mark.nightly
@pytest.mark.real
@pytest.mark.parametrize("first", range(len(CASES)))
def test_200_runs_of_a_real_model_are_on_their_maps(first):
    source = {"model": real_model(), "prompt": PROMPT}
    assert check_many(source, first, maps=1, runs=15, tokens=7) == []
