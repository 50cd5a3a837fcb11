"""Texts match their grammar under every strategy, and a grammar that cannot be used gives one sentence."""

from __future__ import annotations

import json
import math
from functools import cache

import jsonschema
import pytest
import torch

from engine import DecodeRequest, load
from engine.analysis.fork import branch_point, branch_request, make_branch
from engine.errors import EngineError
from engine.export.verify import verify_export
from engine.grammar.processor import read_token_bytes
from engine.inspection.trace_logits import run_from_trace
from engine.inspection.what_if import SettingsChange, apply_change
from engine.models.structured_outputs import make_grammar_processor
from tests.helpers.grammars import BALL, CHOICE, COUNT, PROMPT, TOY, ask, matches
from tests.helpers.real import real_model
from tests.helpers.runs import failed, finished
from tests.helpers.strategies import NEXT_TOKEN

EMBEDDED = ("storyteller", "storyteller-draft", "foreign-draft", "storyfixer")
SLOW = pytest.mark.nightly
EVERY = [pytest.param(name, marks=SLOW if name == "custom" else ()) for name in NEXT_TOKEN]


@pytest.mark.by_day("sampling", "prompt_lookup", "mtp")
@pytest.mark.parametrize("strategy", EVERY)
def test_every_strategy_writes_a_text_that_matches(strategy):
    [first, *_] = finished(ask(strategy, BALL)).outputs
    assert first.finish_reason == "eos"
    assert matches(BALL, first.text)


@pytest.mark.nightly
@pytest.mark.parametrize("spec", [CHOICE, COUNT, {"json": TOY}], ids=["choice", "lark", "json"])
def test_every_kind_of_grammar_is_kept_by_draws(spec):
    for seed in range(6):
        trace = finished(ask("sampling", spec, seed, temperature=1.5, num_return_sequences=2))
        for output in trace.outputs:
            assert output.finish_reason == "eos"
            assert matches(spec, output.text), output.text


@pytest.mark.nightly
def test_the_mask_of_a_choice_is_that_of_an_enumeration():
    loaded = load("storyteller")
    texts = [text.encode() for text in CHOICE["choice"]]
    written = read_token_bytes(loaded.tokenizer, loaded.vocab_size)
    [end] = loaded.eos_token_ids
    ids = loaded.tokenizer(PROMPT)["input_ids"]
    processor = make_grammar_processor(CHOICE, loaded, ids, [end])

    def check(prefix, so_far):
        goes_on = {
            i
            for i, more in enumerate(written)
            if more and any(text.startswith(so_far + more) for text in texts)
        }
        ends = {end} if so_far in texts else set()
        allowed = processor.allowed(prefix, loaded.vocab_size)
        assert set(allowed.nonzero()[0].tolist()) == goes_on | ends
        for token_id in goes_on:
            check((*prefix, token_id), so_far + written[token_id])

    check((), b"")


def test_a_step_shows_the_models_own_probability_of_what_is_allowed():
    trace = finished(ask("greedy", CHOICE))
    loaded = load("storyteller")
    processor = make_grammar_processor(CHOICE, loaded, trace.prompt_ids, loaded.eos_token_ids)
    with torch.no_grad():
        for step in trace.steps:
            ids = [*trace.prompt_ids, *trace.outputs[0].token_ids[: step.keep]]
            p = loaded.model(torch.tensor([ids])).logits[0, -1].double().softmax(-1)
            mask = torch.from_numpy(
                processor.allowed(tuple(ids[len(trace.prompt_ids) :]), loaded.vocab_size)
            )
            [stage] = [one for one in step.stages if one.name == "Grammar"]
            assert stage.kept == int(mask.sum())
            assert stage.kept_mass == pytest.approx(float(p[mask].sum()), abs=1e-5)


@pytest.mark.parametrize("name", EMBEDDED)
def test_bytes_of_tokens_are_what_the_tokenizer_decodes(name):
    loaded = load(name)
    text = "The big dog said: “Hello, café!” It ran home. 7 balls\n\tand 3 dolls 🙂."
    ids = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
    written = read_token_bytes(loaded.tokenizer, loaded.vocab_size)
    known = [i for i in ids if i not in loaded.tokenizer.all_special_ids]
    decoded = loaded.tokenizer.decode(known, clean_up_tokenization_spaces=False)
    joined = b"".join(written[i] for i in known).decode("utf-8", "replace")
    assert joined.removeprefix(" ") == decoded.removeprefix(" ")


def test_an_encoder_decoder_model_keeps_to_its_grammar():
    spec = {"choice": ["He ran.", "She sat."]}
    request = DecodeRequest(
        "beam_search", "storyfixer", prompt="he runned", params={"structured_outputs": spec}
    )
    assert {output.text for output in finished(request).outputs} <= set(spec["choice"])


@pytest.mark.parametrize(
    ("params", "part"),
    [
        ({"min_new_tokens": 20}, "forbids its end"),
        ({"suppress_tokens": [14]}, "forbids"),
    ],
)
def test_a_setting_that_contradicts_the_grammar_is_named(params, part):
    ball = {"choice": [" big ball."]}
    loaded = load("storyteller")
    if "suppress_tokens" in params:
        written = read_token_bytes(loaded.tokenizer, loaded.vocab_size)
        params = {"suppress_tokens": [i for i, text in enumerate(written) if text == b"."]}
    error = failed(ask("greedy", ball, **params))
    assert error.code == "decode"
    assert part in str(error)


def test_a_text_that_the_token_limit_cuts_is_called_incomplete():
    trace = finished(ask("greedy", {"json": TOY}, max_new_tokens=3))
    assert any("not complete under structured_outputs: the token limit" in n for n in trace.notes)
    assert not any("complete" in n for n in finished(ask("greedy", {"json": TOY})).notes)


def test_white_space_without_end_is_named():
    endless = {"regex": r" *\t{40,}x"}
    trace = finished(ask("greedy", endless))
    assert any("ends in white space" in note for note in trace.notes)


def test_a_prompt_that_ends_in_a_space_is_warned_of():
    def notes(prompt, pattern):
        params = {"structured_outputs": {"regex": pattern}, "max_new_tokens": 4}
        return finished(DecodeRequest("greedy", prompt=prompt, params=params)).notes

    assert any("ends in a space" in note for note in notes("She had a ", "[a-z]+"))
    assert not any("ends in a space" in note for note in notes("She had a ", " ?[a-z]+"))
    assert not any("ends in a space" in note for note in notes("She had a", "[a-z]+"))


@pytest.mark.nightly
def test_a_branch_continues_with_the_text_that_it_continues():
    trace = finished(ask("greedy", CHOICE))
    [red] = load("storyteller").pieces.by_text[" red"]
    once = finished(branch_request(trace, make_branch(branch_point(trace, 0), token_id=red)))
    assert once.outputs[0].text == " ball."
    # A branch of the branch belongs to the same text.
    [ball] = load("storyteller").pieces.by_text[" b"]
    twice = finished(branch_request(once, make_branch(branch_point(once, 0), token_id=ball)))
    assert twice.parent.written == len(twice.prompt_ids) - len(trace.prompt_ids) == 2
    assert twice.outputs[0].text == "all."
    assert not twice.notes
    assert verify_export(twice).equal


def test_a_branch_that_leaves_the_grammar_is_refused():
    trace = finished(ask("greedy", CHOICE))
    tokenizer = load("storyteller").tokenizer
    made = make_branch(branch_point(trace, 1), text=" zebra", tokenizer=tokenizer)
    with pytest.raises(EngineError, match="begins like the one you continue"):
        finished(branch_request(trace, made))


def first_logprob(trace):
    """Return the model's own log-probability of the first token written."""
    [first, *_] = trace.steps
    [own] = [one for one in first.candidates if one.token_id == first.emit[0]]
    return own.raw_logprob


@pytest.mark.parametrize("parameter", ["structured_outputs", "prefix_allowed_tokens_fn"])
def test_dola_contrasts_the_allowed_tokens_only(parameter):
    """The last layer gives them too little to be among the plausible tokens of all."""
    texts = [" zebra.", " yellow hat."]
    spec = {"choice": texts} if parameter == "structured_outputs" else texts
    params = {parameter: spec, "max_new_tokens": 20}
    trace = finished(DecodeRequest("dola", prompt=PROMPT, params=params))
    assert trace.outputs[0].text in texts
    # What it takes is at least a tenth as probable as the most probable allowed token.
    plain = finished(DecodeRequest("greedy", prompt=PROMPT, params=params))
    assert first_logprob(trace) >= first_logprob(plain) + math.log(0.1) - 1e-4
    # The same contrast follows from the text alone.
    again = run_from_trace(trace, model=load("storyteller"))
    change = SettingsChange({"repetition_penalty": 1.0})
    assert apply_change(again, change).names[0] == "LayerContrast"
    with pytest.raises(EngineError, match="run it again to change"):
        apply_change(again, SettingsChange({parameter: None}))


def test_a_dola_run_with_guidance_can_still_be_asked_about():
    """Guidance needs the model at every step, but the contrast before it does not depend on it."""
    params = {"guidance_scale": 1.5, "structured_outputs": CHOICE, "max_new_tokens": 8}
    trace = finished(DecodeRequest("dola", prompt=PROMPT, params=params))
    again = run_from_trace(trace, model=load("storyteller"))
    [first, *_] = again.passes
    kept = {int(i) for i in (first.contrast[0] > -math.inf).nonzero()}
    assert trace.steps[0].emit[0] in kept
    assert len(kept) == trace.steps[0].stages[0].kept


@cache
def exportable(strategy):
    return finished(ask(strategy, BALL, 3))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("strategy", "form"),
    [
        ("sampling", "generate"),
        pytest.param("sampling", "pipeline", marks=SLOW),
        pytest.param("dola", "generate", marks=SLOW),
        pytest.param("beam_search", "generate", marks=SLOW),
        pytest.param("speculative", "generate", marks=SLOW),
        pytest.param("watermark", "pipeline", marks=SLOW),
    ],
)
def test_exported_code_writes_the_same_tokens(strategy, form):
    assert verify_export(exportable(strategy), form=form).equal


@pytest.mark.real
@pytest.mark.parametrize(
    "strategy", ["greedy", pytest.param("sampling", marks=SLOW), pytest.param("dola", marks=SLOW)]
)
def test_a_chat_model_answers_in_json(strategy):
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "population": {"type": "integer", "minimum": 0, "maximum": 99_999_999},
        },
        "required": ["city", "population"],
        "additionalProperties": False,
    }
    request = DecodeRequest(
        strategy,
        real_model(),
        messages=[{"role": "user", "content": "Name a big city and its population as JSON."}],
        params={"structured_outputs": {"json": schema}, "max_new_tokens": 60},
    )
    [output] = finished(request).outputs
    assert output.finish_reason == "eos"
    jsonschema.validate(json.loads(output.text), schema)
