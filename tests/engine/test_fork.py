"""A branch begins exactly like a fresh run on its ids, and says where it came from."""

from __future__ import annotations

import dataclasses
import json

import pytest

from engine import DecodeRequest
from engine.analysis.fork import (
    BranchPoint,
    branch_point,
    branch_request,
    make_branch,
    shared_params,
)
from engine.cli.main import main
from engine.errors import EngineError, ParameterError, TraceError
from engine.models.loading import load
from engine.strategies import STRATEGIES
from engine.trace import json_io
from engine.trace.json_io import dumps, loads, trace_from_dict, trace_to_dict
from engine.trace.records import Parent, replay_ids
from tests.helpers.models import golden_model
from tests.helpers.runs import finished

PROMPT = [5, 9, 31, 7]
SAMPLED = {"max_new_tokens": 8, "temperature": 1.5, "top_k": 0}
BEAMS = {"max_new_tokens": 6, "num_beams": 3}


def parent_of(strategy="greedy", params=None, seed=0, name="llama", assistant=None):
    params = params or {"max_new_tokens": 8}
    return finished(
        DecodeRequest(
            strategy,
            golden_model(name),
            input_ids=PROMPT,
            params=params,
            seed=seed,
            assistant=assistant,
        )
    )


class Letters:
    """A tokenizer of one token a letter, told apart from the special ids; it drops spaces."""

    def __call__(self, text, **options):
        assert options == {"add_special_tokens": False, "split_special_tokens": True}
        return {"input_ids": [ord(c) - 60 for c in text if not c.isspace()]}

    def convert_ids_to_tokens(self, token_id):
        return chr(token_id + 60)

    def decode(self, ids, **options):
        return "".join(map(self.convert_ids_to_tokens, ids))


@pytest.mark.parametrize(
    ("strategy", "params", "seed"), [("greedy", {"max_new_tokens": 8}, 0), ("sampling", SAMPLED, 4)]
)
def test_a_branch_equals_a_fresh_run_on_its_ids(strategy, params, seed):
    trace = parent_of(strategy, params, seed)
    step = 3
    other = next(
        c.token_id
        for c in trace.steps[step].candidates
        if c.token_id not in (*trace.steps[step].emit, *trace.eos_token_ids)
    )
    made = make_branch(branch_point(trace, step, run_id="a"), token_id=other)
    assert made.input_ids == (*PROMPT, *trace.outputs[0].token_ids[:step], other)
    forked = finished(branch_request(trace, made, model=golden_model("llama")))
    fresh = finished(
        DecodeRequest(
            strategy,
            golden_model("llama"),
            input_ids=list(made.input_ids),
            params=params,
            seed=seed,
        )
    )
    assert forked.outputs == fresh.outputs
    assert [s.candidates for s in forked.steps] == [s.candidates for s in fresh.steps]
    assert forked.config == fresh.config == trace.config
    assert forked.parent == Parent("a", step, step, (other,))
    assert fresh.parent is None


def test_the_tokens_chosen_again_give_the_same_text():
    trace = parent_of()
    own = trace.outputs[0].token_ids
    assert len(own) == 8
    made = make_branch(branch_point(trace, 3), token_id=own[3])
    forked = finished(branch_request(trace, made, model=golden_model("llama")))
    assert forked.outputs[0].token_ids[: len(own) - 4] == own[4:]


def test_a_beam_branch_keeps_the_path_of_its_node():
    trace = parent_of("beam_search", BEAMS)
    nodes = {n.node_id: n for s in trace.steps for n in s.detail.pool}
    step = 2
    dropped = next(
        n for n in trace.steps[step].detail.pool if n.fate == "pruned" and n.token_id != 2
    )
    up = nodes[dropped.parent_id]
    path = [nodes[up.parent_id].token_id, up.token_id, dropped.token_id]
    place = branch_point(trace, step, node_id=dropped.node_id)
    made = make_branch(place, token_id=dropped.token_id)
    assert made.input_ids == (*PROMPT, *path)
    forked = finished(branch_request(trace, made, model=golden_model("llama")))
    fresh = finished(
        DecodeRequest(
            "beam_search", golden_model("llama"), input_ids=[*PROMPT, *path], params=BEAMS
        )
    )
    assert forked.outputs == fresh.outputs
    best = branch_point(trace, step)
    assert len(best.kept_ids) == step


def test_a_drafting_round_is_continued_before_its_last_token():
    trace = parent_of(
        "speculative",
        {"max_new_tokens": 8, "num_assistant_tokens": 3},
        assistant=golden_model("llama_draft"),
    )
    step = next(s for s in trace.steps if s.index)
    place = branch_point(trace, step.index)
    written = replay_ids(trace.steps[: step.index + 1])
    assert list(place.kept_ids) == written[:-1]
    request = branch_request(trace, make_branch(place, token_id=40), "greedy")
    assert request.params == {"max_new_tokens": 8}
    assert request.assistant is None


def test_each_of_two_outputs_is_continued_by_itself():
    trace = parent_of("sampling", SAMPLED | {"num_return_sequences": 2}, seed=3)
    texts = [output.token_ids for output in trace.outputs]
    assert texts[0][:2] != texts[1][:2]
    for sequence, text in enumerate(texts):
        step = trace.steps_of(sequence)[2]
        assert list(branch_point(trace, step.index).kept_ids) == list(text[:2])


def test_typed_text_is_cut_apart_from_the_ids_before():
    trace = parent_of()
    made = make_branch(branch_point(trace, 2), text="ab c", tokenizer=Letters())
    added = tuple(
        Letters()("abc", add_special_tokens=False, split_special_tokens=True)["input_ids"]
    )
    assert made.input_ids == (*PROMPT, *trace.outputs[0].token_ids[:2], *added)
    assert made.parent == Parent("", 2, 2, added, "ab c")


def test_another_strategy_takes_over_what_both_know():
    trace = parent_of("sampling", SAMPLED | {"repetition_penalty": 1.3})
    shared = shared_params(trace.config, STRATEGIES["beam_search"])
    assert shared == {"max_new_tokens": 8, "repetition_penalty": 1.3}
    assert shared_params(trace.config, STRATEGIES["sampling"]) == SAMPLED | {
        "repetition_penalty": 1.3
    }


@pytest.mark.parametrize(
    ("step", "options", "says"),
    [
        (8, {"token_id": 5}, "step = 8 is not allowed: the run has steps 0 to 7."),
        (-1, {"token_id": 5}, "steps 0 to 7"),
        (True, {"token_id": 5}, "steps 0 to 7"),
        (None, {"token_id": 5}, "steps 0 to 7"),
        (1, {"token_id": 97}, "0 to 96"),
        (1, {"token_id": -1}, "0 to 96"),
        (1, {"token_id": 1.5}, "0 to 96"),
        (1, {"token_id": 2}, "it ends the text"),
        (1, {}, "exactly one of token_id and text"),
        (1, {"token_id": 5, "text": "a"}, "exactly one of token_id and text"),
        (1, {"text": ""}, "write 1 to"),
        (1, {"text": 7}, "write 1 to"),
        (1, {"text": "\ud800"}, "surrogate"),
        (1, {"text": "a"}, "no tokenizer"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(step, options, says):
    trace = dataclasses.replace(parent_of(), eos_token_ids=(2,))
    with pytest.raises(ParameterError) as caught:
        make_branch(branch_point(trace, step), **options)
    assert says in str(caught.value)


def test_text_without_tokens_nodes_elsewhere_and_encoders_are_refused():
    trace = parent_of()
    with pytest.raises(ParameterError, match="it has no tokens"):
        make_branch(branch_point(trace, 1), text=" ", tokenizer=Letters())
    with pytest.raises(ParameterError, match="only beam searches"):
        branch_point(trace, 1, node_id=0)
    beams = parent_of("beam_search", BEAMS)
    with pytest.raises(ParameterError, match="no such node"):
        branch_point(beams, 1, node_id=10**6)
    encoder = parent_of(name="t5")
    with pytest.raises(ParameterError, match="decoder-only"):
        branch_point(encoder, 1)
    with pytest.raises(ParameterError, match="strategy = 'guess'"):
        branch_request(trace, make_branch(branch_point(trace, 1), token_id=5), "guess")


def test_a_branch_that_fills_the_context_is_refused():
    long = BranchPoint([5] * 250, [6] * 5, 5, vocab_size=97)
    made = make_branch(long, token_id=7)
    with pytest.raises(EngineError, match="context is 256 tokens"):
        finished(branch_request(parent_of(), made, model=golden_model("llama")))


def test_a_trace_carries_its_parent_and_an_old_one_has_none():
    trace = parent_of()
    made = make_branch(branch_point(trace, 2, run_id="mother"), token_id=40)
    forked = finished(branch_request(trace, made, model=golden_model("llama")))
    assert loads(dumps(forked)) == forked
    old = trace_to_dict(trace)
    del old["parent"]
    assert trace_from_dict(old) == trace
    for change in (
        {"step": -1},
        {"kept": 99},
        {"kept": -1},
        {"token_ids": [41]},
        {"token_ids": []},
        {"run_id": "x" * 65},
    ):
        bad = json.loads(dumps(forked))
        bad["parent"] |= change
        with pytest.raises(TraceError, match="parent"):
            trace_from_dict(bad)


def test_the_command_line_continues_a_trace(tmp_path, capsys):
    first, second = str(tmp_path / "first.json"), str(tmp_path / "second.json")
    argv = ["run", "greedy", "--prompt=Once upon a time,", "--max-new-tokens=6", "--trace", first]
    assert main(argv) == 0
    trace = json_io.load(first)
    fork = ["run", "--fork", first, "--at=2"]
    assert main([*fork, "--text= dog", "--trace", second]) == 0
    forked = json_io.load(second)
    tokenizer = load(trace.model.id).tokenizer
    added = tokenizer(" dog", add_special_tokens=False)["input_ids"]
    assert list(forked.prompt_ids) == [
        *trace.prompt_ids,
        *trace.outputs[0].token_ids[:2],
        *added,
    ]
    assert (forked.strategy, forked.config) == ("greedy", trace.config)
    capsys.readouterr()
    assert main([*fork, "--token=999999"]) == 2
    assert "token_id = 999999" in capsys.readouterr().err
    assert main([*fork, "--prompt=x", "--token=5"]) == 2
    assert "--fork has the prompt of its trace" in capsys.readouterr().err
