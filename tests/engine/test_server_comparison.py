"""A server's probabilities compared with those of a model here: equal weights agree, others do not."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import engine
from engine.analysis import server_comparison
from engine.analysis.server_comparison import compare_with_server
from engine.cli.main import main
from engine.endpoints import import_answer
from engine.errors import EngineError
from engine.loops.teacher_forced import run_teacher_forced
from engine.models.loading import LoadedModel, load
from engine.run.decoding import decode_to_trace, trace_of
from engine.serving import decode
from engine.trace import json_io
from engine.trace.records import Step, Trace
from tests.helpers.endpoint_answers import read
from tests.helpers.llama_server import Llama, distribution_of

TOKENS = 5


@pytest.fixture(scope="module")
def here() -> LoadedModel:
    return load("storyteller")


def served_run(here: LoadedModel, warmth: float = 1.0, listed: int = 10) -> Trace:
    """Return a greedy run of a server whose model is the one here, at another temperature."""
    words = [f" {n}" for n in range(here.vocab_size)]
    with Llama(distribution_of(here, warmth), words, most=listed).serve() as server:
        asked = engine.DecodeRequest(
            "greedy", f"endpoint:{server.base}#m", "one two", params={"max_new_tokens": TOKENS}
        )
        return trace_of([*decode(asked)][-1])


def test_equal_weights_agree_at_every_listed_token(here: LoadedModel) -> None:
    found = compare_with_server(served_run(here), here)
    assert (found.same_tops, len(found.tokens), found.compared) == (TOKENS, TOKENS, 10 * TOKENS)
    assert found.largest_difference is not None
    assert found.largest_difference < 1e-3
    assert found.same_prompt is False, "the server of the test has another tokenizer"


def test_other_weights_differ_by_what_is_said(here: LoadedModel) -> None:
    equal, warm = served_run(here), served_run(here, warmth=1.5)
    found = compare_with_server(warm, here)
    assert found.same_tops == TOKENS, "temperature keeps the order"
    assert found.largest_difference is not None
    assert found.largest_difference > 0.05
    for token, step, own in zip(found.tokens, warm.steps, equal.steps, strict=True):
        there = {c.token_id: c.raw_logprob for c in step.candidates}
        known = {c.token_id: c.raw_logprob for c in own.candidates}
        expected = max(abs(there[i] - known[i]) for i in there if i in known)
        assert max(token.differences) == pytest.approx(expected, abs=1e-3)
        assert token.here == pytest.approx(known[token.token_id], abs=1e-3)
        assert token.server == pytest.approx(there[token.token_id], abs=1e-5)
    assert found.mean_difference == pytest.approx(
        math.fsum(d for t in found.tokens for d in t.differences) / found.compared, abs=1e-6
    )


@pytest.mark.parametrize("listed", [1, 5, 20])
def test_the_true_divergence_lies_between_its_bounds(here: LoadedModel, listed: int) -> None:
    trace = served_run(here, warmth=1.5, listed=listed)
    found = compare_with_server(trace, here)
    ids = [*trace.prompt_ids, *(token.token_id for token in found.tokens)]
    logits = here.model(torch.tensor([ids])).logits[0, len(trace.prompt_ids) - 1 : -1].double()
    own, warm = logits.log_softmax(-1), (logits / 1.5).log_softmax(-1)
    truth = (warm.exp() * (warm - own)).sum(-1).tolist()
    for token, value in zip(found.tokens, truth, strict=True):
        assert token.kl[0] <= value <= token.kl[1]
        assert token.kl[0] > 0 or listed == 1
    low, high = found.mean_kl
    assert low <= math.fsum(truth) / TOKENS <= high


def with_logprobs(trace: Trace, changed: dict[int, float]) -> Trace:
    """Return the run with other log-probabilities of some candidates of every step, by their place."""
    steps: list[Step] = []
    for step in trace.steps:
        candidates = [*step.candidates]
        for place, logprob in changed.items():
            candidates[place] = dataclasses.replace(candidates[place], raw_logprob=logprob)
        steps.append(dataclasses.replace(step, candidates=tuple(candidates)))
    return dataclasses.replace(trace, steps=tuple(steps))


@pytest.mark.parametrize(
    "changed", [{-1: -9999.0}, {-1: -math.inf}, {-1: -700.0}, {0: 0.0, -1: -math.inf}]
)
def test_what_a_server_finds_impossible_has_bounds_too(
    here: LoadedModel, changed: dict[int, float]
) -> None:
    found = compare_with_server(with_logprobs(served_run(here), changed), here)
    for token in found.tokens:
        assert 0 <= token.kl[0] <= token.kl[1] < math.inf
    json.dumps(found.to_dict(), allow_nan=False)


def test_tokens_that_are_impossible_here(
    here: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = served_run(here)
    listed = {c.token_id for step in trace.steps for c in step.candidates}
    never = next(i for i in range(here.vocab_size) if i not in listed)

    def ban(token_id: int) -> None:
        def read(*given: Any, **more: Any) -> Any:
            found = run_teacher_forced(*given, **more)
            found.logits[:, token_id] = -math.inf
            return found

        monkeypatch.setattr(server_comparison, "run_teacher_forced", read)

    ban(never)
    found = compare_with_server(trace, here)
    assert all(token.kl[1] < math.inf for token in found.tokens)
    ban(trace.steps[1].candidates[4].token_id)
    with pytest.raises(EngineError, match="never writes: it is another model"):
        compare_with_server(trace, here)


def test_the_first_difference_is_told(here: LoadedModel) -> None:
    trace = served_run(here)
    assert compare_with_server(trace, here).first_difference is None
    step = trace.steps[2]
    best, second, *rest = step.candidates
    # The server finds the second token likelier here.
    swapped = (
        dataclasses.replace(second, raw_logprob=best.raw_logprob),
        dataclasses.replace(best, raw_logprob=second.raw_logprob),
    )
    steps = [*trace.steps]
    steps[2] = dataclasses.replace(step, candidates=(*swapped, *rest))
    found = compare_with_server(dataclasses.replace(trace, steps=tuple(steps)), here)
    assert (found.first_difference, found.same_tops) == (2, TOKENS - 1)


def test_what_cannot_be_compared_is_one_sentence(here: LoadedModel) -> None:
    local = decode_to_trace(engine.DecodeRequest("greedy", here, "Once", params={}))
    filtered = import_answer(read("llamacpp/native_post.json"))
    nameless = import_answer(read("vllm/cmpl_5.json"))
    served = served_run(here)
    bare = dataclasses.replace(
        served, steps=tuple(dataclasses.replace(one, candidates=()) for one in served.steps)
    )
    for trace, says in (
        (local, "was decoded here"),
        (filtered, "after its filters"),
        (nameless, "lacks the token ids"),
        (bare, "lacks the token ids"),
    ):
        with pytest.raises(EngineError, match=says):
            compare_with_server(trace, here)


def test_a_model_without_the_servers_ids_is_another_one(here: LoadedModel) -> None:
    trace = served_run(here)
    small = load("storyteller")
    most = max(c.token_id for step in trace.steps for c in step.candidates)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(small), "vocab_size", property(lambda _: most))
        with pytest.raises(EngineError, match="it is another model"):
            compare_with_server(trace, small)


def test_the_command_prints_every_token(
    here: LoadedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    json_io.save(served_run(here), path)
    assert main(["compare-server", str(path), "--model", "storyteller"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == TOKENS + 5
    assert lines[-4] == f"The first choice is the same at {TOKENS} of {TOKENS} tokens."
    assert lines[-3].startswith("KL(server || here): between 0.00")
    assert lines[-1] == "The prompt has other tokens here, so the tokenizers differ."
    assert main(["compare-server", str(path), "--model", "storyteller", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compared"] == 10 * TOKENS
