"""What is told without running again is what a run with the same seed and these settings does."""

from __future__ import annotations

import math
import random
import threading

import pytest

from engine import DecodeRequest, load
from engine.errors import Cancelled, EngineError, ParameterError
from engine.inspection.processors import NEEDS_RERUN, OFF_VALUES
from engine.inspection.step_ref import step_ref_in_run
from engine.inspection.what_if import (
    SettingsChange,
    apply_change,
    refusal_reason,
    scan_run,
    to_parameters,
)
from engine.inspection.what_if_report import build_what_if_report
from engine.strategies import STRATEGIES
from tests.helpers.asking import foretold, kept, random_settings, rerun
from tests.helpers.models import golden_model
from tests.helpers.runs import finished
from tests.helpers.sentences import clean

PROMPT = [1, 5, 6, 7, 5, 6, 7, 8]
STORY = "Once upon a time, there was a little frog who"
RUNS = (
    ("greedy", {}),
    ("greedy", {"repetition_penalty": 1.3}),
    ("sampling", {"num_return_sequences": 3, "top_k": 20}),
    ("sampling", {"temperature": 1.2, "top_p": 0.9, "min_new_tokens": 5}),
    ("watermark", {"top_k": 0}),
    ("watermark", {"scheme": "synthid", "num_return_sequences": 2}),
    ("dola", {"do_sample": True, "num_return_sequences": 2}),
    ("dola", {"dola_layers": [2], "repetition_penalty": 1.2}),
)
SEEDS = (0, 1, 2, 3, 4, 5, 26, 7)
"""Of the random settings for each run: some of them change a late step."""
FEW, MANY = 8, 10


def request(strategy, params, model="llama", new=14, seed=4, **more):
    loaded = golden_model(model)
    values = {"max_new_tokens": new, **params, **more}
    return DecodeRequest(strategy, loaded, input_ids=PROMPT, params=values, seed=seed)


def compared(count, source, asked):
    """Ask a run about so many random settings, run again with each, and compare what comes out."""
    run = kept(asked({}))
    assert foretold(run, SettingsChange()) is None
    outcomes = []
    for _ in range(count):
        other = random_settings(run, source)
        outcomes.append(rerun(run, asked(other)))
        assert foretold(run, SettingsChange(other)) == outcomes[-1], other
    return outcomes


@pytest.mark.by_day(3)
@pytest.mark.parametrize("number", range(len(RUNS)))
def test_the_first_step_that_changes_is_that_of_a_rerun(number):
    strategy, params = RUNS[number]

    def asked(other):
        return request(strategy, params, **other)

    outcomes = compared(FEW, random.Random(SEEDS[number]), asked)
    late = [found for found in outcomes if isinstance(found, tuple) and found[0] > 0]
    assert late, "nothing late was tried"


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(len(RUNS)))
def test_the_first_step_that_changes_is_that_of_a_rerun_of_the_embedded_model(number):
    strategy, params = RUNS[number]

    def asked(other):
        layers = {"dola_layers": [10]} if "dola_layers" in params else {}
        values = {"max_new_tokens": 30, **params, **layers, **other}
        return DecodeRequest(strategy, prompt=STORY, params=values, seed=9)

    compared(MANY, random.Random(100 + number), asked)


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("strategy", "params", "other"),
    [
        ("greedy", {}, {"repetition_penalty": 1.4, "no_repeat_ngram_size": 2}),
        ("greedy", {}, {"dry_multiplier": 3.0, "dry_allowed_length": 1}),
        ("sampling", {}, {"temperature": 1.5, "top_p": 0.8, "min_p": 0.02}),
        ("sampling", {"num_return_sequences": 3}, {"typical_p": 0.7}),
        ("sampling", {"xtc_probability": 0.5, "xtc_threshold": 0.02}, {"temperature": 1.2}),
        ("sampling", {"top_k": 0}, {"xtc_probability": 0.7, "xtc_threshold": 0.01}),
        ("watermark", {"top_k": 0}, {"bias": 6.0}),
        ("dola", {}, {"do_sample": True, "top_k": 5}),
    ],
)
def test_a_step_is_reported_as_a_rerun_records_it(strategy, params, other):
    """Until something changes both see the same text, so every number of these steps must agree."""
    run, trace = kept(request(strategy, params)), finished(request(strategy, params, **other))
    first = foretold(run, SettingsChange(other))
    last = len(run.steps) - 1 if first is None else first[0]
    for step in range(last + 1):
        told, real = (
            build_what_if_report(
                step_ref_in_run(run, step), apply_change(run, SettingsChange(other))
            ),
            trace.steps[step],
        )
        assert (told.token_id,) == real.emit
        assert (told.recorded,) == run.steps[step].emit
        assert [(s.name, s.kept) for s in told.stages] == [(s.name, s.kept) for s in real.stages]
        assert [s.mass for s in told.stages] == pytest.approx([s.kept_mass for s in real.stages])
        assert [s.entropy for s in told.stages] == pytest.approx([s.entropy for s in real.stages])
        assert told.entropy == pytest.approx(real.entropy, abs=1e-5)
        by_id = {c.token_id: c for c in real.candidates}
        for option in told.options:
            if option.token_id in by_id:
                candidate = by_id[option.token_id]
                assert option.raw == pytest.approx(math.exp(candidate.raw_logprob), rel=1e-4)
                assert option.used == pytest.approx(math.exp(candidate.processed_logprob), rel=1e-4)
                assert option.removed_by == candidate.removed_by


def test_a_processor_that_is_off_is_a_run_without_its_parameter():
    params = {"temperature": 1.7, "top_k": 12, "top_p": 0.8, "repetition_penalty": 1.5}
    run = kept(request("sampling", params))
    for name in ("Temperature", "TopK", "TopP", "RepetitionPenalty"):
        change = SettingsChange(off=[name])
        settings = to_parameters(apply_change(run, change))
        parameter, neutral = OFF_VALUES[name]
        assert settings == {parameter: neutral}
        assert foretold(run, change) == rerun(run, request("sampling", {**params, **settings}))
        stages = build_what_if_report(step_ref_in_run(run, 3), apply_change(run, change)).stages
        assert [s.name for s in stages if not s.on] == [name]
        assert len(stages) == 4


def test_every_processor_that_can_be_off_is_off_in_a_run_without_its_parameter():
    for name, (parameter, neutral) in OFF_VALUES.items():
        known = [s for s in STRATEGIES.values() if hasattr(s.config(), parameter)]
        assert known, name
        type(known[0].config())(**{parameter: neutral}).check()


def test_another_order_is_another_distribution_and_no_parameters_say_it():
    run = kept(request("sampling", {"temperature": 3.0, "top_k": 0, "top_p": 0.7}))
    usual = build_what_if_report(step_ref_in_run(run, 2), apply_change(run, SettingsChange()))
    asked = apply_change(run, SettingsChange(order=["TopP", "Temperature"]))
    swapped = build_what_if_report(step_ref_in_run(run, 2), asked)
    assert [s.name for s in usual.stages] == ["Temperature", "TopP"]
    assert [s.name for s in swapped.stages] == ["TopP", "Temperature"]
    # Heat spreads the mass: a nucleus of the model's own distribution is smaller.
    assert swapped.kept < usual.kept
    assert to_parameters(asked) is None
    assert to_parameters(apply_change(run, SettingsChange(order=["Temperature", "TopP"]))) == {}


def test_kept_mass_entropy_and_cuts_by_hand():
    run = kept(request("sampling", {"top_k": 5}))
    step, found = (
        run.steps[1],
        build_what_if_report(step_ref_in_run(run, 1), apply_change(run, SettingsChange())),
    )
    kept_by_hand = sorted((math.exp(c.raw_logprob) for c in step.candidates), reverse=True)[:5]
    total = sum(kept_by_hand)
    assert found.kept == 5
    assert found.mass == pytest.approx(total, rel=1e-4)
    entropy = -sum(p / total * math.log(p / total) for p in kept_by_hand)
    assert found.entropy_used == pytest.approx(entropy, rel=1e-3)
    [stage] = found.stages
    assert (stage.kept, stage.removed) == (5, run.header.model.vocab_size - 5)
    assert stage.cut == pytest.approx(kept_by_hand[-1], rel=1e-4)
    assert math.fsum(o.used for o in found.options) + found.rest_used == pytest.approx(1)
    assert math.fsum(o.raw for o in found.options) + found.rest_raw == pytest.approx(1)
    assert [o.removed_by for o in found.options][-1] == "TopK"


def test_more_than_a_step_is_not_changed_by_asking():
    run = kept(request("sampling", {"top_k": 5}))
    before = [one.logits.clone() for one in run.passes]
    build_what_if_report(
        step_ref_in_run(run, 4),
        apply_change(run, SettingsChange({"temperature": 2.0}, off=["TopK"])),
    )
    assert all((a == one.logits).all() for a, one in zip(before, run.passes, strict=True))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_can_be_asked_or_says_why_not(strategy):
    reason = refusal_reason(STRATEGIES[strategy])
    if strategy in ("greedy", "sampling", "watermark", "dola"):
        assert reason == ""
    else:
        assert clean(reason).startswith(STRATEGIES[strategy].title)


def test_what_cannot_be_asked_is_refused_in_a_sentence():
    search = kept(request("beam_search", {"num_beams": 2}))
    with pytest.raises(EngineError, match="its beams depend on each other"):
        apply_change(search, SettingsChange())
    guided = kept(request("sampling", {"guidance_scale": 2.0, "negative_prompt_ids": [5, 9]}))
    with pytest.raises(
        ParameterError, match=r"guidance_scale = 2\.0 is not allowed.*guidance asks"
    ):
        apply_change(guided, SettingsChange())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            SettingsChange({"temperature": -1}),
            "temperature = -1 is not allowed: it must be a number",
        ),
        (
            SettingsChange({"top_p": float("nan")}),
            "top_p = nan is not allowed: it must be a number above 0",
        ),
        (
            SettingsChange({"top_k": "many"}),
            "top_k = 'many' is not allowed: it must be a whole number",
        ),
        (
            SettingsChange({"warmth": 1}),
            "warmth = 1 is not allowed: sampling has no such parameter",
        ),
        (SettingsChange({"suppress_tokens": [97]}), "token ids of this model go from 0 to 96"),
        (SettingsChange({"bad_words_ids": ["bear"]}), "the model has no tokenizer"),
        (SettingsChange(off="TopK"), "off = 'TopK' is not allowed: it must be a list"),
        (SettingsChange(off=["Magic"]), "off = 'Magic' is not allowed: it must be one of"),
        (SettingsChange(order=[1]), "order = [1] is not allowed: it must be a list"),
        *(
            (SettingsChange({name: 3}), f"{name} = 3 is not allowed")
            for name in ("max_new_tokens",)
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_questions(change, said):
    run = kept(request("sampling", {}))
    with pytest.raises(ParameterError) as error:
        apply_change(run, change)
    assert said in clean(str(error.value))


def test_what_needs_the_model_is_named_with_its_reason():
    run = kept(request("dola", {}))
    for name, reason in NEEDS_RERUN.items():
        if hasattr(run.config, name):
            with pytest.raises(ParameterError, match=reason):
                apply_change(run, SettingsChange({name: 1}))


@pytest.mark.parametrize("step", [-1, 14, "1", True, None])
def test_no_such_step(step):
    run = kept(request("sampling", {}))
    with pytest.raises(ParameterError, match="the run has steps 0 to 13"):
        step_ref_in_run(run, step)


def test_a_distribution_without_a_token_is_refused():
    run = kept(request("sampling", {}))
    everything = list(range(97))
    with pytest.raises(EngineError, match="SuppressTokens would remove every token"):
        build_what_if_report(
            step_ref_in_run(run, 0),
            apply_change(run, SettingsChange({"suppress_tokens": everything})),
        )


def test_a_search_through_the_run_is_given_up():
    run, cancelled = kept(request("sampling", {})), threading.Event()
    cancelled.set()
    with pytest.raises(Cancelled):
        scan_run(run, apply_change(run, SettingsChange()), cancelled)


def test_an_encoder_decoder_run():
    run = kept(request("sampling", {}, model="t5", seed=1))
    for other in ({"temperature": 1.8}, {"encoder_repetition_penalty": 3.0, "top_k": 0}):
        assert foretold(run, SettingsChange(other)) == rerun(
            run, request("sampling", {}, model="t5", seed=1, **other)
        )


def test_words_of_a_parameter_are_spelled_by_the_model_that_wrote():
    load("storyteller")
    asked = DecodeRequest("greedy", prompt=STORY, params={"max_new_tokens": 12})
    run = kept(asked)
    word = run.get_model().tokenizer.decode(run.steps[2].emit)
    other = DecodeRequest(
        "greedy", prompt=STORY, params={"max_new_tokens": 12, "bad_words_ids": [word]}
    )
    assert foretold(run, SettingsChange({"bad_words_ids": [word]})) == rerun(run, other)


def test_an_order_that_leaves_top_h_no_token_is_refused():
    best = finished(request("sampling", {"top_k": 1}, new=1)).outputs[0].token_ids[0]
    values = {"top_k": 1, "top_h": 0.5, "bad_words_ids": [[best]]}
    run = kept(request("sampling", values, new=1))
    order = SettingsChange(order=["TopK", "NoBadWords", "TopH"])
    place = step_ref_in_run(run, 0)
    with pytest.raises(EngineError, match=r"^NoBadWords removed every token, and TopH needs"):
        build_what_if_report(place, apply_change(run, order))
