"""The strategy of custom methods: what a request may say, what is recorded of it, and how it ends."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from engine import DecodeRequest, decode, load
from engine.errors import EngineError, ExportError, StoppedError, TraceError
from engine.export.plan import plan_export
from engine.export.verify import verify_export
from engine.run import sandboxed_run
from engine.run.teacher_forced_check import count_mismatches
from engine.sandbox import prewarmed_process
from engine.sandbox.folder import read_method
from engine.sandbox.trust import trust_code
from engine.strategies import STRATEGIES
from engine.trace import json_io
from engine.trace.details import ForwardDetail
from engine.trace.events import Failed, Finished, Loading, Started, StepRecorded
from engine.trace.records import replay_ids
from tests.helpers.method_processes import shared_processes
from tests.helpers.methods import PLAIN, write_method
from tests.helpers.models import golden_model
from tests.helpers.runs import failed, finished
from tests.helpers.sentences import clean

PROMPT = "Once upon a time, there was"
NEW = 8


def asked(method="mirostat", prompt=PROMPT, seed=3, **params):
    return DecodeRequest(
        "custom",
        None,
        prompt,
        params={"method": method, "do_sample": True, "max_new_tokens": NEW, **params},
        seed=seed,
    )


@pytest.fixture(scope="module", autouse=True)
def _processes():
    """Let all runs of this file share one process for each model."""
    with shared_processes():
        yield


@pytest.fixture
def own_process(monkeypatch):
    """Give every run of a test a process of its own, as the playground does."""
    monkeypatch.setattr(sandboxed_run, "acquire_process", prewarmed_process.acquire_process)
    yield
    prewarmed_process.end_prewarmed_process()


@pytest.fixture(scope="module")
def trace():
    return finished(asked(tau=2.0, num_return_sequences=2))


def own_method(folder, source, **more):
    """Write a method of one's own and confirm its code."""
    write_method(folder, source, **more)
    trust_code(read_method(folder).sha256)
    return str(folder)


def test_a_run_says_which_code_decided_and_all_that_was_seen(trace):
    assert (trace.method.name, trace.method.source) == ("mirostat", "shipped")
    assert trace.config["arguments"] == {"tau": 2.0}
    assert len(trace.outputs) == len(trace.emitted) == 2
    for number, output in enumerate(trace.outputs):
        steps = trace.steps_of(number)
        assert replay_ids(steps) == list(output.token_ids)
        assert [len(step.candidates) for step in steps] == [20] * len(output.token_ids)
        assert all(isinstance(step.detail, ForwardDetail) for step in steps)
        for step, token in zip(steps, trace.emitted[number], strict=True):
            own = next(c for c in step.candidates if c.token_id == step.emit[0])
            assert own.raw_logprob == pytest.approx(token.logprob, abs=1e-3)
            assert own.rank == token.rank
    # Only the first row of a batch is followed; the passes are of all rows.
    assert {stage.name for step in trace.steps_of(0) for stage in step.stages} == {"TopK"}
    assert not any(step.stages for step in trace.steps_of(1))
    assert sum(step.forward_passes for step in trace.steps) == NEW
    assert trace.notes == ()
    assert json_io.loads(json_io.dumps(trace)) == trace


def test_its_figures_are_those_of_one_pass_over_the_text(trace):
    logprobs = [token.logprob for token in trace.emitted[0]]
    assert trace.metrics["mean_logprob"] == pytest.approx(sum(logprobs) / len(logprobs), abs=1e-6)
    entropies = [token.entropy for token in trace.emitted[0]]
    assert trace.metrics["mean_entropy"] == pytest.approx(sum(entropies) / len(entropies), abs=1e-6)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"tau": "x"}, "tau = 'x' is not allowed: it must be a finite number."),
        (
            {"foo": 1},
            "foo = 1 is not allowed: the method does not have it: its arguments are tau, eta.",
        ),
        (
            {"max_new_token": 3},
            "max_new_token = 3 is not allowed: the method does not have it; did you mean max_new_tokens.",
        ),
        ({"arguments": [1]}, "arguments = [1] is not allowed: it must be an object of"),
        ({"arguments": {"tau": float("nan")}}, "arguments = {'tau': nan} is not allowed"),
        ({"method": 3}, "method = 3 is not allowed: it must be the name of a built-in method"),
        ({"method": ""}, "method = '' is not allowed: it must be the name of a built-in method"),
        (
            {"method": "no such"},
            "method = 'no such' is not allowed: it must be built in",
        ),
        ({"num_beams": 0}, "num_beams = 0 is not allowed: it must be a whole number from 1"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(params, said):
    error = failed(asked(**params))
    assert isinstance(error, EngineError)
    assert clean(str(error)).startswith(said)


def test_a_method_of_ones_own_is_asked_for_once_for_each_hash(tmp_path):
    # Code of its own: what another test confirms stays confirmed.
    source = f"{PLAIN}\n# {tmp_path}\n"
    folder = write_method(tmp_path / "own", source)
    said = str(failed(asked(str(folder))))
    assert read_method(folder).sha256 in said
    assert "python -m engine method trust" in said
    trust_code(read_method(folder).sha256)
    made = finished(asked(str(folder), do_sample=False))
    greedy = finished(DecodeRequest("greedy", None, PROMPT, params={"max_new_tokens": NEW}))
    assert made.outputs[0].token_ids == greedy.outputs[0].token_ids
    assert made.metrics["perplexity"] == pytest.approx(greedy.metrics["perplexity"], rel=1e-4)
    with pytest.raises(ExportError, match="runs only in the sandbox"):
        verify_export(made)
    (folder / "custom_generate" / "generate.py").write_text(source + "\n")
    assert "method trust" in str(failed(asked(str(folder))))
    with pytest.raises(ExportError, match="has changed since the run"):
        plan_export(made)


def test_an_error_points_at_the_line_and_the_next_run_works(tmp_path):
    source = PLAIN.replace("    return ids", "    return ids / 0 + unknown")
    said = str(failed(asked(own_method(tmp_path / "broken", source))))
    line = 1 + source.splitlines().index("    return ids / 0 + unknown")
    assert said.startswith(f"custom_generate/generate.py, line {line}: NameError")
    again = own_method(tmp_path / "mended", PLAIN)
    assert len(finished(asked(again)).outputs[0].token_ids) == NEW


def test_a_method_that_reads_another_text_is_distinguished_from_the_model(tmp_path):
    """Its candidates are what it gave the model to read, and not what the model says of the text."""
    other = PLAIN.replace(
        "model(input_ids=ids)", "model(input_ids=torch.cat([ids[:, :-1], ids[:, -2:-1]], -1))"
    )
    made = finished(asked(own_method(tmp_path / "other", other)))
    scored = load("storyteller")
    ids = [*made.prompt_ids, *made.outputs[0].token_ids]
    with torch.no_grad():
        logprobs = torch.log_softmax(scored.model(torch.tensor([ids])).logits[0], -1)
    start = len(made.prompt_ids)
    wanted = [float(logprobs[start + at - 1, i]) for at, i in enumerate(made.outputs[0].token_ids)]
    assert [token.logprob for token in made.emitted[0]] == pytest.approx(wanted, abs=1e-4)


def test_a_wrong_record_is_counted(trace):
    steps = list(trace.steps_of(0))
    assert count_mismatches(steps, trace.emitted[0], torch.float32) == 0
    wrong = dataclasses.replace(
        steps[2].candidates[0], token_id=steps[2].emit[0], raw_logprob=-50.0
    )
    steps[2] = dataclasses.replace(steps[2], candidates=(wrong,))
    assert count_mismatches(steps, trace.emitted[0], torch.float32) == 1
    # What was taken back and written anew is judged by what stands.
    steps.append(dataclasses.replace(trace.steps_of(0)[2], keep=2))
    assert count_mismatches(steps, trace.emitted[0], torch.float32) == 0


def test_a_function_runs_in_this_process_and_is_watched_alike():
    seen = {}

    def mine(
        model,
        input_ids,
        logits_processor,
        stopping_criteria,
        generation_config,
        least=0.5,
        **kwargs,
    ):
        seen["least"] = least
        ids = input_ids
        while not stopping_criteria(ids, None).all():
            scores = logits_processor(ids, model(ids).logits[:, -1])
            ids = torch.cat([ids, scores.argmax(-1, keepdim=True)], -1)
        return ids

    params = {"do_sample": False, "least": 0.2}
    made = finished(asked(mine, **params))
    greedy = finished(DecodeRequest("greedy", None, PROMPT, params={"max_new_tokens": NEW}))
    assert seen == {"least": 0.2}
    assert made.outputs[0].token_ids == greedy.outputs[0].token_ids
    for ours, theirs in zip(made.steps, greedy.steps, strict=True):
        assert (ours.keep, ours.emit) == (theirs.keep, theirs.emit)
        near = pytest.approx(theirs.candidates[0].raw_logprob, abs=1e-3)
        assert ours.candidates[0].raw_logprob == near
    assert (made.method.source, made.method.name, made.method.sha256) == ("function", "mine", None)
    assert "most = 1" in str(failed(asked(mine, most=1)))
    with pytest.raises(ExportError, match="method was a Python object"):
        plan_export(made)


def test_a_function_that_fails_is_one_sentence():
    def broken(model, input_ids, **kwargs):
        raise KeyError("lost")

    line = broken.__code__.co_firstlineno + 1
    assert str(failed(asked(broken))) == f"broken, line {line}: KeyError: 'lost'."


@pytest.mark.nightly
def test_a_model_without_a_folder_is_handed_over():
    model = golden_model("llama")
    ids = [5, 9, 11, 4]
    params = {"method": "next_token", "max_new_tokens": NEW, "do_sample": False, "penalty": 0.0}
    made = finished(DecodeRequest("custom", model, input_ids=ids, params=params))
    greedy = DecodeRequest("greedy", model, input_ids=ids, params={"max_new_tokens": NEW})
    assert made.outputs[0].token_ids == finished(greedy).outputs[0].token_ids
    assert made.model.id == model.name


def test_a_model_that_a_method_cannot_serve_is_refused_before_it_runs():
    error = failed(DecodeRequest("custom", "storyfixer", "the bear"))
    assert str(error) == "storyfixer cannot be used with mirostat: it needs a decoder-only model."


@pytest.mark.usefixtures("own_process")
def test_a_stopped_run_keeps_what_was_seen(tmp_path):
    run = decode(asked(own_method(tmp_path / "long", PLAIN), max_new_tokens=400))
    steps, last = 0, None
    for event in run:
        if isinstance(event, StepRecorded):
            steps += 1
            run.cancel()
        last = event
    assert isinstance(last, Finished)
    assert last.trace.outputs[0].finish_reason == "cancelled"
    assert 1 <= len(last.trace.steps) == steps < 400
    assert len(last.trace.emitted[0]) == len(last.trace.outputs[0].token_ids)


@pytest.mark.usefixtures("own_process")
def test_a_run_that_is_stopped_before_its_process_is_ready_has_not_begun():
    run = decode(asked())
    events = []
    for event in run:
        events.append(event)
        if isinstance(event, Loading):
            run.cancel()
    assert not any(isinstance(event, Started) for event in events)
    assert isinstance(events[-1], Failed)
    assert isinstance(events[-1].error, StoppedError)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["method"].update(source="elsewhere"), "trace.method.source must be one of"),
        (lambda d: d["method"].update(sha256="00"), "trace.method.sha256 is no SHA-256."),
        (lambda d: d["method"].update(name=""), "trace.method.name must have 1 to"),
        (lambda d: d["emitted"].pop(), "trace.emitted lists 1 texts, and there are 2."),
        (lambda d: d["emitted"][0].pop(), f"trace.emitted[0] lists {NEW - 1} tokens of {NEW}."),
        (
            lambda d: d["emitted"][1][2].update(logprob=1.0),
            "trace.emitted[1][2] has impossible numbers.",
        ),
        (
            lambda d: d["emitted"][0][0]["top"].append([0, 2.0]),
            "trace.emitted[0][0] has probabilities",
        ),
        (
            lambda d: d["emitted"][0][0]["top"].append([999, 0.0]),
            "trace.emitted[0][0] names a token",
        ),
    ],
)
def test_a_file_that_says_what_cannot_be_is_refused(trace, change, said):
    data = json_io.trace_to_dict(trace)
    change(data)
    with pytest.raises(TraceError) as caught:
        json_io.trace_from_dict(data)
    assert clean(str(caught.value)).startswith(said)


def of_preset(name):
    preset = next(p for p in STRATEGIES["custom"].presets if p.name == name)
    return finished(
        DecodeRequest("custom", None, preset.prompt, params=preset.params, seed=preset.seed)
    )


def plain(strategy, name, **params):
    preset = next(p for p in STRATEGIES["custom"].presets if p.name == name)
    params = {"max_new_tokens": preset.params["max_new_tokens"], **params}
    return finished(DecodeRequest(strategy, None, preset.prompt, params=params))


def dropped(trace):
    return sum(p.dropped for _, detail in trace.details(ForwardDetail) for p in detail.passes)


def test_the_preset_that_goes_back_leaves_the_loop_of_greedy_search():
    name = "Back out of a loop"
    back, greedy = of_preset(name), plain("greedy", name)
    assert back.metrics["rep_3"] == 0 < greedy.metrics["rep_3"]
    assert dropped(back) > 0
    assert back.metrics["forward_passes"] > len(back.outputs[0].token_ids)


@pytest.mark.nightly
def test_the_preset_of_mirostat_is_nearer_to_its_surprise_than_plain_sampling():
    name = "Surprise kept level"
    bits = [
        -trace.metrics["mean_logprob"] / math.log(2)
        for trace in (of_preset(name), plain("sampling", name, top_k=0))
    ]
    assert abs(bits[0] - 2) < 0.5 < abs(bits[1] - 2)


@pytest.mark.nightly
def test_the_hot_preset_writes_what_the_model_finds_probable():
    name = "Hot and yet careful"
    kept, hot = of_preset(name), plain("sampling", name, top_k=0, temperature=5.0)
    assert kept.metrics["perplexity"] < 10 < hot.metrics["perplexity"] / 100
    assert max(token.rank for token in kept.emitted[0]) < 100


@pytest.mark.nightly
def test_the_preset_that_looks_ahead_pays_for_it_and_finds_a_likelier_text():
    name = "Looking ahead when unsure"
    ahead, greedy = of_preset(name), plain("greedy", name)
    assert ahead.metrics["forward_passes"] > len(ahead.outputs[0].token_ids)
    assert ahead.metrics["perplexity"] < greedy.metrics["perplexity"]
    assert max(p.rows for _, d in ahead.details(ForwardDetail) for p in d.passes) == 3


@pytest.mark.nightly
def test_the_preset_with_an_amateur_takes_other_words_for_two_passes_a_token():
    name = "Against an amateur"
    against, greedy = of_preset(name), plain("greedy", name)
    assert against.outputs[0].token_ids != greedy.outputs[0].token_ids
    assert any(token.rank > 0 for token in against.emitted[0])
    # Expert and amateur are rows of one batch.
    assert {p.rows for _, d in against.details(ForwardDetail) for p in d.passes} == {2}


def test_the_preset_of_draws_returns_one_of_eight():
    drawn = of_preset("The draw most like the others")
    assert {p.rows for _, d in drawn.details(ForwardDetail) for p in d.passes} == {8}
    assert len(drawn.outputs) == 1
    assert drawn.notes == ()


def test_what_fills_up_a_row_that_has_ended_is_no_part_of_its_text():
    def padded(model, input_ids, **kwargs):
        ids = input_ids.repeat(2, 1)
        for number in range(4):
            token = model(ids).logits[:, -1].argmax(-1)
            token[0] = (
                token[0] if number == 0 else 0
            )  # Storyteller's end, and what it is padded with
            ids = torch.cat([ids, token[:, None]], -1)
        return ids

    made = finished(asked(padded, max_new_tokens=4))
    first, second = made.outputs
    assert (len(first.token_ids), first.finish_reason) == (2, "eos")
    assert (len(second.token_ids), second.finish_reason) == (4, "length")
    assert replay_ids(made.steps_of(0)) == list(first.token_ids)
    assert sum(step.forward_passes for step in made.steps) == 4
    assert made.steps_of(0)[-1].emit == ()
    assert json_io.loads(json_io.dumps(made)) == made


def test_what_a_file_says_of_its_method_lets_nothing_run(tmp_path):
    """A trace can be anybody's: neither its word for where code is from nor a name in it becomes code."""
    made = finished(asked(own_method(tmp_path / "foreign", PLAIN), do_sample=False))
    claimed = dataclasses.replace(made, method=dataclasses.replace(made.method, source="shipped"))
    with pytest.raises(ExportError, match="runs only in the sandbox"):
        verify_export(claimed)
    config = {**made.config, "arguments": {"x=print()); exec('1') #": 1}}
    with pytest.raises(ExportError, match=r"arguments = .* is not allowed"):
        plan_export(dataclasses.replace(made, config=config))
