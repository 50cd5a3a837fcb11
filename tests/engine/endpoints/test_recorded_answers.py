"""Recorded answers of llama.cpp and vLLM become traces whose figures are those of the answers."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest

from engine.cli.main import main
from engine.endpoints import import_answer, open_recording
from engine.errors import EngineError, TraceError
from engine.export.steps_csv import steps_csv
from engine.statistics.metrics import compute_metrics
from engine.trace import json_io
from engine.trace.served import is_invented_id
from tests.helpers.endpoint_answers import (
    ANSWERS,
    OTHER_CALLS,
    list_completions,
    read,
    read_request_of,
)
from visualizers import list_visuals, summarize_trace

VOCABULARY = 49_152
FIGURES = {
    # tokens, probability unseen in the first step, bits of entropy there, perplexity
    "llamacpp/chat_stream.sse": (8, 0.13457, (1.477, 3.098), 1.68017),
    "llamacpp/chat_temp.json": (4, 0.13457, (1.477, 3.098), 2.04962),
    "llamacpp/chat_top100.json": (1, 0.02593, (1.876, 2.097), 1.24110),
    "llamacpp/cmpl_5.json": (6, 0.03306, (0.559, 0.978), 4.43317),
    "llamacpp/native_pre.json": (3, 0.03306, (0.559, 0.978), 5.79374),
    "vllm/chat_end.json": (7, 0.62729, (3.159, 11.314), 1.75332),
    "vllm/chat_everything.json": (2, 0.10105, (0.874, 2.149), 2.05363),
    "vllm/chat_stream.sse": (8, 0.14392, (1.564, 3.309), 1.67915),
    "vllm/cmpl_tempT.json": (4, 0.03824, (0.615, 1.096), 5077.23793),
    "vllm/one12.json": (12, 0.04807, (0.587, 1.204), 3.28334),
}


def opened(name, **more):
    return import_answer(read(name), read_request_of(name), **more)


def entries_of(name):
    """Yield (log-probability of the chosen token, log-probabilities of the list) of an answer."""
    text = read(name).decode()
    lines = [line[5:] for line in text.splitlines() if line.startswith("data: {")] or [text]
    for chunk in map(json.loads, lines):
        whole = chunk.get("choices", [chunk])
        for fields in whole:
            logs = fields.get("logprobs") or {"content": fields.get("completion_probabilities")}
            for entry in logs.get("content") or []:
                yield entry["logprob"], [one["logprob"] for one in entry["top_logprobs"]]
            for value, top in zip(
                logs.get("token_logprobs", ()), logs.get("top_logprobs", ()), strict=True
            ):
                yield value, [*top.values()]


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", list_completions())
def test_every_recorded_completion_is_a_trace_that_passes_its_checks(name):
    trace = opened(name)
    again = json_io.loads(json_io.dumps(trace))
    assert (again.steps, again.served, again.notes) == (trace.steps, trace.served, trace.notes)
    assert trace.served.server == name.split("/")[0]
    assert trace.served.measured
    assert "draw" not in list_visuals(trace)
    assert "xray" not in list_visuals(trace)
    for step in trace.steps:
        detail = step.detail
        assert step.entropy is None
        assert step.logsumexp is None
        assert not step.stages
        seen = math.fsum(math.exp(c.raw_logprob) for c in step.candidates)
        assert detail.unseen_low <= max(0, 1 - seen) <= detail.unseen_high
        assert detail.entropy_low <= detail.entropy_high


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_those_that_are_computed_from_the_answer_by_hand(name):
    tokens, unseen, (low, high), perplexity = FIGURES[name]
    trace = opened(name, vocab_size=VOCABULARY)
    entries = [*entries_of(name)]
    assert len(trace.steps) == tokens == len(entries)
    detail = trace.steps[0].detail
    assert detail.unseen_low == pytest.approx(unseen, abs=8e-6)
    assert detail.entropy_low / math.log(2) == pytest.approx(low, abs=6e-4)
    assert detail.entropy_high / math.log(2) == pytest.approx(high, abs=6e-4)
    numbers = compute_metrics(trace)
    assert numbers["perplexity"] == pytest.approx(perplexity, rel=1e-5)
    mean = sum(own for own, _ in entries) / tokens
    assert numbers["mean_logprob"] == pytest.approx(mean, abs=1e-6)
    assert numbers["mean_entropy_low"] < numbers["mean_entropy_high"]
    assert "mean_entropy" not in numbers
    assert "forward_passes" not in numbers
    for step, (own, top) in zip(trace.steps, entries, strict=True):
        listed = sorted({*top, own}, reverse=True)
        assert [c.raw_logprob for c in step.candidates] == pytest.approx(
            sorted((c.raw_logprob for c in step.candidates), reverse=True)
        )
        assert {c.raw_logprob for c in step.candidates} == set(listed)


@pytest.mark.parametrize("name", OTHER_CALLS)
def test_an_answer_to_another_call_and_an_error_get_one_sentence_each(name):
    with pytest.raises(TraceError, match=OTHER_CALLS[name]) as refused:
        import_answer(read(name))
    assert str(refused.value).count("\n") == 0
    with pytest.raises(TraceError, match=OTHER_CALLS[name]):
        open_recording(ANSWERS / name)


def test_merged_characters_are_one_token_whose_own_probability_is_unknown():
    trace = opened("llamacpp/chat_emoji.json")
    merged = [step for step in trace.steps if step.detail.merged]
    assert [trace.pieces[step.emit[0]] for step in merged] == [" 🦙", "🌿"]
    assert all(is_invented_id(step.emit[0]) for step in merged)
    assert trace.served.completion_tokens == 12
    assert len(trace.steps) == 8
    assert "The server counted 12 new tokens and reported 8." in trace.notes
    assert "perplexity" not in trace.metrics
    kinds = [shown["sentence"]["kind"] for shown in summarize_trace(trace, list_visuals(trace))]
    assert kinds.count("served_part") == 2


def test_parts_of_characters_that_are_written_as_empty_texts_stay_different_tokens():
    trace = opened("vllm/chat_emoji.json")
    assert len(trace.steps) == 12
    assert trace.outputs[0].text == "🦙🌿 Naïve 日本"
    second = trace.steps[1]
    assert len({c.token_id for c in second.candidates}) == 3
    assert [trace.pieces[c.token_id] for c in second.candidates] == ["", "", ""]


def test_ids_that_stand_in_place_of_texts_are_ids_and_their_bytes_are_not_read():
    trace = opened("vllm/chat_everything.json")
    assert [step.emit[0] for step in trace.steps] == [504, 2988]
    assert trace.pieces[504] == "The"
    assert trace.pieces[1195] == "�1195"
    assert len(trace.prompt_ids) == 36
    legacy = opened("vllm/cmpl_ids.json")
    assert [step.emit[0] for step in legacy.steps] == [28, 260, 2240]
    assert legacy.outputs[0].text == ", the city"
    assert legacy.prompt_ids == (6403, 1980, 253, 655)


def test_an_echoed_prompt_is_no_text_of_the_model():
    trace = opened("vllm/cmpl_echo.json")
    assert [trace.pieces[i] for i in trace.prompt_ids] == ["Once", " upon", " a", " time"]
    assert [trace.pieces[step.emit[0]] for step in trace.steps] == [","]


def test_a_repeated_beginning_is_left_out_and_said():
    trace = opened("llamacpp/chat_prefix.json")
    assert trace.outputs[0].text == " our planet's atmosphere reflects"
    assert any("repeated the beginning" in note for note in trace.notes)


def test_the_token_that_ends_a_text_is_known_as_such():
    for name in ("vllm/chat_end.json", "llamacpp/chat_end.json"):
        trace = opened(name)
        assert trace.outputs[0].text == "The answer is 4."
        assert trace.outputs[0].finish_reason == "eos"
        assert trace.eos_token_ids == trace.steps[-1].emit


def test_several_texts_are_several_outputs():
    trace = opened("vllm/chat_n2.json")
    assert [output.text for output in trace.outputs] == ["The answer to this", "The Sky Above:"]
    assert [step.sequence for step in trace.steps] == [0] * 4 + [1] * 4


def test_probabilities_after_the_filters_are_marked_and_give_no_perplexity():
    trace = opened("llamacpp/native_post.json")
    assert {step.detail.distribution for step in trace.steps} == {"sampled"}
    assert "perplexity" not in trace.metrics
    assert trace.served.choice == "sampling"
    assert trace.prompt == "Once upon a time"
    assert trace.timing.total_s == pytest.approx(0.101911)


def test_what_needs_the_model_is_refused_and_the_table_leaves_unknown_cells_empty(tmp_path, capsys):
    path = tmp_path / "run.json.gz"
    answer = str(ANSWERS / "llamacpp/native_pre.json")
    assert main(["import", answer, "--trace", str(path), "--vocab-size", "49152"]) == 0
    assert "3 tokens" in capsys.readouterr().out
    assert main(["replay", str(path)]) == 0
    assert "seed" not in capsys.readouterr().out
    refusals = (
        ["export", str(path), "--to", str(tmp_path / "code")],
        ["verify", str(path)],
        ["attention", str(path), "--step", "0"],
        ["compare-models", str(path)],
        ["detect", "--trace", str(path)],
    )
    for words in refusals:
        assert main(words) == 2, words
        assert "A server decoded this run" in capsys.readouterr().err
    row = next(csv.DictReader(io.StringIO(steps_csv(json_io.load(path)))))
    assert row["distribution"] == "model"
    for name in ("model_entropy_bits", "logsumexp", "elapsed_s", "used_logprob_nats"):
        assert row[name] == ""
    assert float(row["entropy_low_bits"]) < float(row["entropy_high_bits"])


def test_a_vocabulary_that_is_too_small_for_the_ids_is_refused():
    with pytest.raises(EngineError, match="vocab_size = 100"):
        import_answer(read("llamacpp/chat_top5.json"), vocab_size=100)
    wide = import_answer(read("llamacpp/chat_top5.json")).steps[0].detail
    tight = import_answer(read("llamacpp/chat_top5.json"), vocab_size=VOCABULARY).steps[0].detail
    assert wide.entropy_low == tight.entropy_low
    assert wide.entropy_high > tight.entropy_high
