"""The comparison without a browser: presets, what is refused, and every number it hands over."""

from __future__ import annotations

import json
import math

import pytest

from engine import DecodeRequest
from engine.analysis import comparisons
from engine.analysis.likelihood import score_ids, score_trace
from engine.errors import ParameterError
from engine.models.loading import load
from engine.run.request import check_request
from engine.serving import decode
from playground.jobs.registry import JOBS
from playground.runs import stream
from playground.tabs import compare
from tests.helpers.gates import gate
from tests.helpers.jobs import begin, named_rows, read
from tests.helpers.runs import finished, parts_at

PROMPT = "Once upon a time, there was a little girl"
GREEDY = {"strategy": "greedy", "params": {"max_new_tokens": 6}}
HOT = {"strategy": "sampling", "params": {"max_new_tokens": 6.0, "temperature": 1.5, "top_k": 0}}


def asked(*columns, **changes):
    return {"number": 7, "prompt": PROMPT, "seed": 3, "columns": list(columns), **changes}


def test_every_preset_is_legal_and_needs_what_is_there():
    offered = comparisons.available_presets()
    assert "Greedy and three temperatures" in [p.name for p in offered]
    for preset in offered:
        columns = [{"strategy": n, "params": dict(v)} for n, v in preset.columns]
        for request in compare.read_requests(
            {"prompt": preset.prompt, "seed": 0, "columns": columns}
        ):
            check_request(request)


def outcomes(name):
    """Return the trace of every column of a preset."""
    chosen = next(p for p in comparisons.available_presets() if p.name == name)
    return [
        finished(DecodeRequest(strategy, prompt=chosen.prompt, params=params))
        for strategy, params in chosen.columns
    ]


@pytest.mark.nightly
def test_the_hotter_the_sooner_the_texts_part_and_the_less_likely_they_are():
    traces = outcomes("Greedy and three temperatures")
    greedy, *sampled = traces
    parted = [parts_at([greedy, trace]) for trace in sampled]
    assert parted == sorted(parted, reverse=True)
    assert len(set(parted)) == 3
    likely = [trace.metrics["perplexity"] for trace in traces]
    assert likely == sorted(likely)


@pytest.mark.nightly
def test_the_other_presets_show_what_they_say():
    model = load("storyteller")
    beams, greedy = (
        score_trace(t, model, model).perplexity for t in outcomes("Beam search and greedy")
    )
    assert beams < greedy
    marked, plain = outcomes("With a watermark and without")
    assert marked.metrics["perplexity"] > 1.2 * plain.metrics["perplexity"]
    speculative, alone = outcomes("Speculative and plain")
    assert speculative.outputs[0].token_ids == alone.outputs[0].token_ids
    assert speculative.metrics["forward_passes"] < alone.metrics["forward_passes"] / 2


@pytest.fixture(scope="module")
def ran():
    return list(read(compare.COMPARE, asked(GREEDY, HOT, GREEDY)))


def test_every_column_streams_under_its_own_key(ran):
    texts = [json.loads(text) for text in ran if isinstance(text, str)]
    starts = [m["strategy"] for m in texts if m["kind"] == "start"]
    assert starts == ["compare-7-0", "compare-7-1", "compare-7-2"]
    assert all(m["link"] == "" for m in texts if m["kind"] == "start")
    assert sum(m["kind"] == "finish" for m in texts) == 3


def test_the_figures_are_those_of_a_forward_of_the_base_model(ran):
    texts = [json.loads(text) for text in ran if isinstance(text, str)]
    outputs = [m["rest"]["outputs"][0]["token_ids"] for m in texts if m["kind"] == "finish"]
    figures = ran[-1]
    assert figures["kind"] == "figures"
    assert figures["notes"] == []
    base = load("storyteller")
    prompt = base.tokenizer(PROMPT, split_special_tokens=True)["input_ids"]
    [figures_of_seed] = figures["seeds"]
    assert figures_of_seed["seed"] == "3"
    for ids, row in zip(outputs, figures_of_seed["rows"], strict=True):
        named = dict(zip(figures["columns"], row, strict=True))
        scores = score_ids(base, prompt, ids)
        assert named["log-probability per token, nats"] == scores.mean_logprob
        assert named["perplexity"] == scores.perplexity
        assert named["tokens"] == named["forward passes"] == len(ids)
    parted = next(i for i, (a, b) in enumerate(zip(*outputs[:2], strict=True)) if a != b)
    last = [m["parting"] for m in texts if m["kind"] == "finish"]
    # One text cannot part; the second does where the outputs say, the third may do so earlier.
    assert last[0] is None
    assert (last[1]["common"], last[1]["at"]) == (parted, parted)
    assert last[2]["at"] <= parted
    assert [part[0] for part in figures_of_seed["diff"][1]["parts"]] == ["equal"]
    curves = figures_of_seed["curves"]
    assert [len(curve["surprise"]) for curve in curves] == [len(ids) for ids in outputs]


def test_every_column_has_a_text_for_every_seed_and_the_table_has_their_mean(monkeypatch):
    decoded = []

    def counted(request, writer):
        decoded.append((request.strategy, request.seed))
        return decode(request, writer)

    monkeypatch.setattr(stream, "decode", counted)
    told = list(read(compare.COMPARE, asked(GREEDY, HOT, seed="3, 5-6")))
    texts = [json.loads(text) for text in told if isinstance(text, str)]
    starts = [m for m in texts if m["kind"] == "start"]
    # All columns of the first seed come first, under the keys of a comparison with one seed.
    assert [m["strategy"] for m in starts] == [
        *("compare-7-0", "compare-7-1"),
        *("compare-7-0-1", "compare-7-1-1"),
        *("compare-7-0-2", "compare-7-1-2"),
    ]
    assert [m["header"]["seed"] for m in starts] == [3, 3, 5, 5, 6, 6]
    # No seed changes what greedy search writes, so it is decoded once.
    assert decoded == [("greedy", 3), *(("sampling", seed) for seed in (3, 5, 6))]
    assert len({m["run"] for m in starts}) == 6
    texts_of = {m["run"]: m["rest"]["outputs"][0]["text"] for m in texts if m["kind"] == "finish"}
    assert len({texts_of[m["run"]] for m in starts[::2]}) == 1
    figures = told[-1]
    assert [one["seed"] for one in figures["seeds"]] == ["3", "5", "6"]
    hot = [named_rows(figures, place)[1]["perplexity"] for place in range(3)]
    assert len(set(hot)) == 3
    # Texts of one seed are compared with each other, and not with those of the next seed.
    parted = [m["parting"]["pairs"] for m in texts if m["kind"] == "finish" and m["parting"]]
    assert [[(pair["a"], pair["b"]) for pair in pairs] for pairs in parted] == [[(0, 1)]] * 3
    measures = {row["name"]: row["cells"] for row in figures["measures"]}
    greedy, sampled = measures["perplexity"]
    assert [tick["value"] for tick in sampled["ticks"]] == hot
    assert sampled["mean"] == pytest.approx(math.prod(hot) ** (1 / 3))
    assert len({tick["value"] for tick in greedy["ticks"]}) == 1


def test_every_column_and_the_judge_are_loaded_as_they_say():
    rough = {**GREEDY, "params": {**GREEDY["params"], "dtype": "bfloat16"}}
    sent = {"base": "storyteller", "base_weights": {"dtype": "bfloat16", "max_memory": ""}}
    *_, figures = read(compare.COMPARE, asked(GREEDY, rough, **sent))
    assert figures["base_held"] == "bfloat16"
    named = named_rows(figures)
    assert [column["weights"] for column in named] == ["float32", "bfloat16"]
    base, prompt = load("storyteller", dtype="bfloat16"), PROMPT
    ids = base.tokenizer(prompt, split_special_tokens=True)["input_ids"]
    [trace] = (finished(DecodeRequest("greedy", prompt=prompt, params=GREEDY["params"])),)
    scores = score_ids(base, ids, list(trace.outputs[0].token_ids))
    assert named[0]["perplexity"] == scores.perplexity
    assert scores.perplexity != score_trace(trace, load("storyteller")).perplexity


def test_a_text_of_another_tokenizer_is_judged_and_said():
    foreign = {**GREEDY, "model": "foreign-draft"}
    *_, figures = read(compare.COMPARE, asked(GREEDY, foreign, base="storyteller"))
    [note] = figures["notes"]
    assert note.startswith("B: the tokenizer of storyteller split this text again")
    assert len(named_rows(figures)) == 2


def test_a_text_that_cannot_be_judged_takes_no_other_with_it(monkeypatch):
    right = compare.score_trace

    def failing(trace, *others):
        if trace.strategy == "sampling":
            raise RuntimeError("secret")
        return right(trace, *others)

    monkeypatch.setattr(compare, "score_trace", failing)
    *_, figures = read(compare.COMPARE, asked(GREEDY, HOT))
    [note] = figures["notes"]
    assert note.startswith("B was not judged: ")
    assert "secret" not in note
    named = named_rows(figures)
    assert named[0]["perplexity"] is not None
    assert named[1]["perplexity"] is None
    assert named[1]["tokens"] > 0


def test_a_stopped_comparison_judges_what_there_is():
    long = {"strategy": "greedy", "params": {"max_new_tokens": 200}}
    with gate(load("storyteller").model, free=3) as held:
        going = begin(compare.COMPARE, asked(long, GREEDY))
        held.wait()
        JOBS.stop(going.id)
        held.open()
        messages = list(going.read())
    texts = [text for text in messages if isinstance(text, str)]
    [end] = [json.loads(text) for text in texts if '"kind":"finish"' in text]
    [output] = end["rest"]["outputs"]
    assert output["finish_reason"] == "cancelled"
    assert len(output["token_ids"]) == 4
    assert messages[-1]["kind"] == "figures"
    [figures] = named_rows(messages[-1])
    assert figures["tokens"] == 4
    assert figures["perplexity"] > 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"columns": [GREEDY]}, "compare 2 to 4 columns"),
        ({"columns": [GREEDY] * 5}, "compare 2 to 4 columns"),
        ({"columns": None}, "columns"),
        ({"columns": [GREEDY, {"strategy": ["greedy"]}]}, "must be one of greedy"),
        ({"columns": [GREEDY, 5]}, "each must be an object"),
        ({"columns": [GREEDY, {"strategy": "magic"}]}, "strategy = 'magic'"),
        ({"columns": [GREEDY, {**HOT, "params": {"temperature": -1}}]}, "temperature = -1"),
        ({"columns": [GREEDY, {**HOT, "params": {"nonsense": 1}}]}, "nonsense"),
        ({"columns": [GREEDY, {**HOT, "params": [1]}]}, "params"),
        ({"seed": -1}, "seed = -1"),
        ({"seed": "0-5"}, "seed = '0-5' is not allowed: write 1 to 5 whole numbers from 0 to"),
        ({"seed": "0, x"}, "seed = '0, x'"),
        ({"seed": None}, "seed"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"base": "no-such-model"}, "no-such-model"),
        ({"base_weights": {"dtype": "int3"}}, "dtype = 'int3'"),
        ({"base_weights": {"assistant_dtype": "float16"}}, "has no draft model"),
        ({"base_weights": "4bit"}, "weights = '4bit'"),
    ],
    ids=str,
)
def test_bad_requests_get_one_sentence(changes, says):
    [message] = read(compare.COMPARE, {**asked(GREEDY, HOT), **changes})
    assert (message["kind"], message["number"]) == ("failed", 7)
    assert says in message["error"]
    assert "Something went wrong" not in message["error"]


def test_what_is_no_request_at_all():
    with pytest.raises(ParameterError):
        compare.read_requests(None)
    [message] = read(compare.COMPARE, {})
    assert (message["kind"], message["number"]) == ("failed", 0)
