"""A thinking section is closed at its budget and held open to its minimum, under every strategy."""

from __future__ import annotations

import copy
import dataclasses
import json

import pytest
import torch
from transformers import LogitsProcessorList

from engine import DecodeRequest, load
from engine.analysis.dial_map.build import map_dial
from engine.analysis.fork import branch_point, branch_request, make_branch
from engine.analysis.many_draws import draw_many
from engine.errors import ParameterError, TraceError
from engine.export.verify import verify_export
from engine.inspection.rerun import replay_to_step
from engine.inspection.trace_logits import run_from_trace
from engine.inspection.what_if import SettingsChange, apply_change
from engine.inspection.why import explain_token
from engine.loops.thinking import find_thinking_marks, make_thinking_processor
from engine.processors.thinking_budget import ThinkingBudgetLogitsProcessor
from engine.strategies.greedy import GreedyConfig
from engine.trace.checks import check_trace
from engine.trace.json_io import trace_from_dict, trace_to_dict
from engine.trace.thinking_records import ThinkingSection
from tests.helpers.models import native
from tests.helpers.real import real_model
from tests.helpers.runs import failed, finished
from tests.helpers.strategies import NEXT_TOKEN

PROMPT = "Once there was a fox. <think>"
MESSAGE = " That is enough."
BUDGET = {"thinking_token_budget": 6, "reasoning_budget_message": MESSAGE}
SLOW = pytest.mark.nightly
EVERY = [pytest.param(name, marks=SLOW if name == "custom" else ()) for name in NEXT_TOKEN]
MARKS = ("<think>", "</think>")


def ask(strategy="greedy", seed=1, prompt=PROMPT, model="storyteller", **params):
    extra = {"assistant": "foreign-draft"} if strategy == "universal_assisted" else {}
    if strategy == "speculative":
        extra = {"assistant": "storyteller-draft"}
    own = {"max_new_tokens": 30, **params}
    return DecodeRequest(strategy, model, prompt=prompt, params=own, seed=seed, **extra)


@pytest.mark.by_day("speculative", "prompt_lookup", "early_exit")
@pytest.mark.parametrize("strategy", EVERY)
def test_every_strategy_closes_the_section_at_its_budget(strategy):
    trace = finished(ask(strategy, **BUDGET))
    for output, [section] in zip(trace.outputs, trace.thinking.texts, strict=True):
        before, _, _ = output.text.partition(MESSAGE + "</think>")
        assert len(before) < len(output.text)
        forced = trace.thinking.forced
        assert output.token_ids[6 : 6 + len(forced)] == forced
        assert section == ThinkingSection(0, 6 + len(forced), closed=True, forced=6)


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", ["greedy", "sampling"])
def test_a_run_equals_generate_with_the_same_processor(strategy):
    loaded = load("storyteller")
    mode = {"top_k": 0} if strategy == "sampling" else {}
    trace = finished(ask(strategy, **BUDGET, **mode, min_thinking_tokens=2))
    ids, forced = list(trace.prompt_ids), trace.thinking.forced
    processor = ThinkingBudgetLogitsProcessor(loaded.tokenizer, MARKS, len(ids), forced, 6, 2)
    expected = native(
        loaded,
        ids,
        seed=1,
        do_sample=strategy == "sampling",
        top_k=0,
        max_new_tokens=30,
        logits_processor=LogitsProcessorList([processor]),
    )
    assert [list(output.token_ids) for output in trace.outputs] == expected
    assert tuple(expected[0][6 : 6 + len(forced)]) == forced


def read(ids_before, ids, budget=None, minimum=0, tokenizer=None):
    """Return the processor of a text on the embedded tokenizer, and its ids."""
    tokenizer = tokenizer or load("storyteller").tokenizer
    made = ThinkingBudgetLogitsProcessor(tokenizer, MARKS, len(ids_before), (7, 8), budget, minimum)
    return made, [*ids_before, *ids]


def encode(text):
    return load("storyteller").tokenizer(text, add_special_tokens=False)["input_ids"]


def test_sections_are_found_wherever_they_begin():
    before = encode("Say it.")
    thought = encode(" A fox ran")
    begin, end = encode("<think>"), encode("</think>")
    processor, ids = read(before, [*begin, *thought, *end, *encode(" Yes"), *begin, *thought])
    first = len(before) + len(begin)
    after = first + len(thought) + len(end)
    second = after + len(encode(" Yes")) + len(begin)
    assert processor.find_sections(ids) == [
        (first, after, True),
        (second, len(ids), False),
    ]
    # A section that the prompt has closed is not one of the text.
    processor, ids = read([*begin, *thought, *end], thought)
    assert processor.find_sections(ids) == []


def test_a_mark_of_an_earlier_turn_opens_nothing():
    [end_of_turn] = load("storyteller").eos_token_ids
    processor, ids = read([*encode("What is <think>?"), end_of_turn], encode(" A word."))
    assert processor.find_sections(ids) == []
    processor, ids = read([end_of_turn, *encode("So: <think>")], encode(" A word."))
    assert processor.find_sections(ids) == [(len(ids) - len(encode(" A word.")), len(ids), False)]


def test_a_budget_waits_for_the_last_byte_of_a_character():
    emoji = encode("🙂")
    assert len(emoji) > 1  # several tokens for one character, or this test tests nothing
    begin = encode("<think>")
    for n in range(1, len(emoji)):
        processor, ids = read(begin, emoji[:n], budget=1)
        assert processor.find_forced(ids) is None
    processor, ids = read(begin, emoji, budget=1)
    assert processor.find_forced(ids) == 7
    processor, ids = read(begin, [*emoji, 7], budget=1)
    assert processor.find_forced(ids) == 8


@pytest.mark.parametrize("n", range(len("</think>")))
def test_a_section_that_is_too_short_cannot_end_in_any_spelling(n):
    loaded = load("storyteller")
    part, rest = "</think>"[:n], "</think>"[n:]
    begin, written = encode("<think>"), encode(part) if part else []
    scores = torch.zeros(1, loaded.vocab_size)
    processor, ids = read(begin, written, minimum=len(written) + 1)
    left = processor(torch.tensor([ids]), scores)[0]
    pieces = loaded.tokenizer.convert_ids_to_tokens(range(loaded.vocab_size))
    closing = {i for i, piece in enumerate(pieces) if "</think>" in part + piece}
    assert {i for i, piece in enumerate(pieces) if piece.startswith(rest)} <= closing
    assert set(left.isinf().nonzero()[:, 0].tolist()) == closing
    # One token later it may end.
    processor, ids = read(begin, written, minimum=len(written))
    assert torch.equal(processor(torch.tensor([ids]), scores), scores)


def test_a_minimum_holds_a_section_open_that_would_end():
    # Biases of its beginnings make the model write the end mark at once.
    end = encode("</think>")
    bias = {"sequence_bias": [[end[:n], 60.0] for n in range(1, len(end) + 1)]}
    [[short]] = finished(ask(**bias, max_new_tokens=24)).thinking.texts
    assert short == ThinkingSection(0, len(end), closed=True)
    [[held]] = finished(ask(**bias, min_thinking_tokens=12, max_new_tokens=24)).thinking.texts
    assert held.end >= 12


def test_a_budget_of_zero_closes_the_section_at_once():
    trace = finished(ask(thinking_token_budget=0))
    assert trace.outputs[0].text.startswith("</think>")
    [[section]] = trace.thinking.texts
    assert section == ThinkingSection(0, len(encode("</think>")), closed=True, forced=0)


def test_a_run_without_a_budget_records_the_section_that_its_prompt_begins():
    trace = finished(ask(max_new_tokens=8))
    assert trace.thinking.texts == ((ThinkingSection(0, 8, closed=False),),)
    assert trace.thinking.forced == ()
    assert finished(ask(prompt="Once there was a fox.", max_new_tokens=8)).thinking is None


@pytest.mark.parametrize(
    ("params", "part"),
    [
        ({"reasoning_budget_message": "So."}, "thinking_token_budget, which is off"),
        (
            {"thinking_token_budget": 3, "min_thinking_tokens": 4},
            "at most thinking_token_budget = 3",
        ),
        (
            {"thinking_token_budget": 3, "structured_outputs": {"choice": ["a"]}},
            "structured_outputs is on",
        ),
        (
            {"min_thinking_tokens": 3, "prefix_allowed_tokens_fn": [[5, 6]]},
            "prefix_allowed_tokens_fn is on",
        ),
        ({"thinking_token_budget": -1}, "thinking_token_budget = -1"),
        ({"thinking_token_budget": 3, "reasoning_budget_message": "a </think>"}, "</think>"),
    ],
)
def test_what_cannot_be_is_refused_before_the_run(params, part):
    error = failed(ask(**params))
    assert error.code == "parameter"
    assert part in str(error)


def test_a_model_without_a_section_is_refused():
    error = failed(ask(prompt="Once", thinking_token_budget=3))
    assert "has no thinking section, and the prompt begins none with <think>" in str(error)
    # An encoder reads the prompt, so that a mark in it begins no section of the text.
    error = failed(ask(model="storyfixer", thinking_token_budget=3))
    assert str(error).endswith("storyfixer has no thinking section.")


def test_marks_are_those_of_the_prompt_then_of_the_tokens_then_of_the_template():
    tokenizer = copy.deepcopy(load("storyteller").tokenizer)
    assert find_thinking_marks(tokenizer, ()) is None
    tokenizer.chat_template = "{{ messages }}<seed:think></seed:think>"
    assert find_thinking_marks(tokenizer, ()) == ("<seed:think>", "</seed:think>")
    tokenizer.add_tokens(["[THINK]", "[/THINK]"])
    assert find_thinking_marks(tokenizer, ()) == ("[THINK]", "[/THINK]")
    assert find_thinking_marks(tokenizer, encode("<think>")) == MARKS


def test_a_mark_that_is_one_token_is_forced_as_this_token():
    tokenizer = copy.deepcopy(load("storyteller").tokenizer)
    tokenizer.add_tokens(["<think>", "</think>"])
    loaded = dataclasses.replace(load("storyteller"), tokenizer=tokenizer)
    made = make_thinking_processor(GreedyConfig(thinking_token_budget=2), loaded, [3, 4])
    assert made.forced == (tokenizer.convert_tokens_to_ids("</think>"),)


@pytest.mark.nightly
def test_a_branch_keeps_the_budget_of_the_whole_section():
    trace = finished(ask(**BUDGET))
    tokenizer = load("storyteller").tokenizer
    made = make_branch(branch_point(trace, 3), text=" cat", tokenizer=tokenizer)
    branch = finished(branch_request(trace, made))
    written = branch.parent.written
    forced = branch.thinking.forced
    assert branch.outputs[0].token_ids[6 - written :][: len(forced)] == forced
    [[section]] = branch.thinking.texts
    assert section == ThinkingSection(0, 6 - written + len(forced), closed=True, forced=6 - written)
    # A branch inside the message goes on with the rest of it.
    made = make_branch(branch_point(trace, 8), token_id=trace.outputs[0].token_ids[8])
    branch = finished(branch_request(trace, made))
    assert branch.outputs[0].token_ids[: len(forced) - 3] == forced[3:]
    rest = trace.outputs[0].token_ids[9:]
    assert branch.outputs[0].token_ids[: len(rest)] == rest
    assert verify_export(branch).equal


@pytest.mark.nightly
def test_many_draws_are_single_runs():
    [batch] = draw_many(ask("sampling", seed=3, **BUDGET), 3)
    for draw in batch.draws:
        alone = finished(ask("sampling", seed=draw.seed, **BUDGET))
        assert draw.token_ids == alone.outputs[0].token_ids


def test_a_map_of_a_dial_refuses_it():
    with pytest.raises(ParameterError, match="a dial map has no thinking budget"):
        next(map_dial(ask("sampling", **BUDGET), "temperature", 0.5, 1.5))


def test_why_says_that_the_budget_is_used_up():
    trace = finished(ask(**BUDGET))
    step = trace.steps[6]
    assert step.stages[-1].name == "ThinkingBudget"
    assert step.stages[-1].kept == 1
    removed = next(c for c in step.candidates if c.removed_by == "ThinkingBudget")
    answer = explain_token(replay_to_step(trace, 6, load("storyteller"), None), removed.token_id)
    assert "The thinking budget of 6 tokens is used up" in answer.sentence


def test_what_if_asks_for_another_budget():
    run = run_from_trace(finished(ask(**BUDGET)), model=load("storyteller"))
    changed = apply_change(run, SettingsChange({"thinking_token_budget": 9}))
    assert changed.names == ("ThinkingBudget",)


@pytest.mark.nightly  # A branch's code is verified above by day.
@pytest.mark.parametrize("strategy", ["greedy", "sampling", "beam_search", "speculative"])
def test_exported_code_writes_the_same_text(strategy):
    assert verify_export(finished(ask(strategy, **BUDGET))).equal


def test_a_trace_is_read_as_it_was_written_and_checked():
    trace = finished(ask(**BUDGET))
    assert trace_from_dict(json.loads(json.dumps(trace_to_dict(trace)))).thinking == trace.thinking
    wrong = ((ThinkingSection(0, 99, closed=True),),)
    with pytest.raises(TraceError, match="no part of its text"):
        check_trace(
            dataclasses.replace(trace, thinking=dataclasses.replace(trace.thinking, texts=wrong))
        )


@pytest.mark.nightly
@pytest.mark.real
def test_smollm2_stops_thinking_when_its_template_opens_a_section():
    loaded = real_model()
    tokenizer = copy.deepcopy(loaded.tokenizer)
    opened = "<|im_start|>assistant\n' }}{% endif %}"
    assert opened in tokenizer.chat_template
    tokenizer.chat_template = (
        tokenizer.chat_template.replace(opened, "<|im_start|>assistant\n<think>\n' }}{% endif %}")
        + "{# </think> #}"
    )
    thinking = dataclasses.replace(loaded, tokenizer=tokenizer)
    request = DecodeRequest(
        "greedy",
        thinking,
        messages=[{"role": "user", "content": "What is 2 + 2?"}],
        params={"max_new_tokens": 40, "thinking_token_budget": 4},
    )
    trace = finished(request)
    [[section]] = trace.thinking.texts
    assert (section.start, section.forced, section.closed) == (0, 4, True)
    assert trace.outputs[0].text.index("</think>") > 0
