"""Masked diffusion: every pass is recorded, and the text follows from the record, the seed and the rule."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
import torch

from engine import DecodeRequest, load
from engine.analysis.fork import branch_point
from engine.cli.main import main
from engine.errors import ExportError, ModelError, ParameterError, TraceError
from engine.export.files import export_files
from engine.inspection.step_logits import find_replayed_step
from engine.inspection.why import explain_token
from engine.models.diffusion_model import load_diffusion_model
from engine.statistics.metrics import repetition_metrics
from engine.trace import json_io
from engine.trace.filling import FillDetail
from engine.trace.records import SCHEMA
from engine.trace.value_types import SECONDS, is_equal_except
from tests.helpers.models import golden_model
from tests.helpers.runs import finished
from training import masked_diffusion

PROMPT = "Once upon a time, there was a little girl named Lily. She"


def fill(prompt=PROMPT, seed=0, **params):
    values = {"max_new_tokens": 12, "steps": 6, **params}
    return finished(DecodeRequest("masked_diffusion", prompt=prompt, seed=seed, params=values))


def passes(trace):
    return [detail for _, detail in trace.details(FillDetail)]


def hidden_places(trace):
    first = passes(trace)[0]
    return [i for i in range(first.length) if i not in dict(first.given)]


def test_the_model_sees_a_text_as_it_was_trained():
    loaded = load_diffusion_model()
    ids = torch.tensor([5, 9, loaded.mask_id, 7, loaded.mask_id, 300])
    expected = masked_diffusion.logits_of(loaded.model, ids[None])[0]
    assert torch.allclose(loaded.logits(ids), expected, atol=1e-4)
    assert loaded.mask_id == masked_diffusion.MASK


@pytest.mark.by_day(1)
@pytest.mark.parametrize("steps", [3, 12])
def test_the_most_certain_places_are_written_as_in_training(steps):
    trace, loaded = fill(steps=steps), load_diffusion_model()
    prompt = torch.tensor([trace.prompt_ids])
    expected = masked_diffusion.write(loaded.model, prompt, 12, steps)[0]
    assert [*trace.prompt_ids, *trace.outputs[0].token_ids] == expected.tolist()
    assert len(trace.steps) == steps


@pytest.mark.by_day(2)
@pytest.mark.parametrize("remasking", ["low_confidence", "random", "entropy_bound"])
@pytest.mark.parametrize("block_length", [0, 5])
def test_every_place_is_written_once_and_the_record_gives_the_text(remasking, block_length):
    trace = fill(remasking=remasking, block_length=block_length, temperature=0.8)
    written = [guess for one in passes(trace) for guess in one.written]
    hidden = hidden_places(trace)
    assert sorted(guess.position for guess in written) == hidden
    assert all(one.written for one in passes(trace))
    assert len(trace.steps) <= 6
    text = {guess.position: guess.token_id for guess in written}
    assert trace.outputs[0].token_ids == tuple(text[place] for place in hidden)
    blocks = {place: number // (block_length or 12) for number, place in enumerate(hidden)}
    order = [blocks[guess.position] for guess in written]
    assert order == sorted(order)


def test_a_step_emits_what_is_whole_and_never_takes_it_back():
    trace = fill()
    known = {}
    text = []
    for step in trace.steps:
        known |= {guess.position: guess.token_id for guess in step.detail.written}
        assert step.keep == len(text)
        text += step.emit
        assert text == [known[i] for i in range(len(text))]
        assert len(text) not in known or step is trace.steps[-1]


def test_a_seed_gives_one_text_and_another_seed_another():
    settings = {"temperature": 1.0, "remasking": "random"}
    one, again, other = (fill(seed=seed, **settings) for seed in (3, 3, 4))
    assert is_equal_except(one.steps, again.steps, SECONDS)
    assert one.outputs == again.outputs
    assert one.outputs[0].text != other.outputs[0].text


def test_words_in_the_middle_stay_and_the_places_around_them_are_filled():
    trace = fill("The girl was very", infill="{2} and cried. {3} Then she smiled.", steps=5)
    text = trace.outputs[0].text
    assert " and cried." in text
    assert text.endswith(" Then she smiled.")
    assert len(hidden_places(trace)) == 5


def test_a_text_ends_at_an_end_mark_though_later_places_are_filled(monkeypatch):
    loaded = load_diffusion_model()
    end = loaded.tokenizer.eos_token_id
    usual = type(loaded).logits

    def ending(self, ids):
        found = usual(self, ids)
        found[len(ids) - 6, end] = 1e4
        return found

    monkeypatch.setattr(type(loaded), "logits", ending)
    trace = fill(steps=12)
    assert trace.outputs[0].finish_reason == "eos"
    written = {guess.position: guess.token_id for one in passes(trace) for guess in one.written}
    assert len(written) == 12
    whole = [written[place] for place in range(12)]
    assert list(trace.outputs[0].token_ids) == whole[: whole.index(end) + 1]


def test_a_step_leaves_no_more_open_than_the_entropy_bound():
    trace = fill(remasking="entropy_bound", entropy_bound=1.0, steps=12)
    for one in passes(trace)[:-1]:
        entropies = sorted(guess.entropy for guess in one.written)
        assert sum(entropies[:-1]) <= 1.0 + 1e-5
        others = [guess.entropy for guess in one.guesses if not guess.written]
        assert min(others) >= entropies[-1]
    strict = fill(remasking="entropy_bound", entropy_bound=0.0, steps=12)
    assert len(strict.steps) > len(trace.steps)


def test_random_order_writes_less_certain_tokens():
    def mean(trace):
        written = [guess.p for one in passes(trace) for guess in one.written]
        return sum(written) / len(written)

    assert mean(fill(remasking="random")) < mean(fill())


@pytest.mark.nightly
@pytest.mark.parametrize("block_length", [1, 4, 7, 9])
def test_no_more_passes_are_made_than_steps(block_length):
    blocks = -(-20 // block_length)
    for steps in range(blocks, 21, 4):
        trace = fill(max_new_tokens=20, steps=steps, block_length=block_length)
        assert blocks <= len(trace.steps) <= steps


def test_the_report_measures_both_texts_with_the_main_model():
    trace, main_model = fill(), load("storyteller")
    report = passes(trace)[-1].report
    assert all(one.report is None for one in passes(trace)[:-1])
    greedy = finished(DecodeRequest("greedy", prompt=PROMPT, params={"max_new_tokens": 12}))
    assert report.plain.token_ids == greedy.outputs[0].token_ids
    assert report.plain.passes == 12
    assert report.filled.token_ids == trace.outputs[0].token_ids
    assert report.filled.passes == 6
    for one in (report.filled, report.plain):
        ids = torch.tensor([[*trace.prompt_ids, *one.token_ids]])
        with torch.no_grad():
            logits = main_model.model(ids).logits[0].log_softmax(-1)
        start = len(trace.prompt_ids)
        read = [float(logits[i - 1, ids[0, i]]) for i in range(start, ids.shape[1])]
        assert one.perplexity == pytest.approx(math.exp(-sum(read) / len(read)), rel=1e-3)
        expected = repetition_metrics(one.token_ids)["distinct_2"]
        assert one.distinct_2 == pytest.approx(expected, abs=1e-5)


def test_a_model_without_a_partner_is_refused():
    request = DecodeRequest("masked_diffusion", golden_model("llama"), input_ids=[5, 9])
    with pytest.raises(ModelError, match="no model that fills hidden places comes with it"):
        finished(request)


def test_the_command_prints_every_step_and_a_file_replays_it(tmp_path, capsys):
    file = tmp_path / "filled.json"
    words = ["fill", "--prompt", "The dog {4} home.", "--set", "steps=2", "--seed", "5"]
    assert main([*words, "--trace", str(file)]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) == 5
    assert "left to right: 6 passes, perplexity" in said
    assert main(["fill", "--replay", str(file)]) == 0
    assert capsys.readouterr().out == said
    assert json_io.load(file).config["infill"] == "{4} home."
    json_io.save(finished(DecodeRequest("greedy", golden_model("llama"), input_ids=[5])), file)
    assert main(["fill", "--replay", str(file)]) != 0
    assert "no run of masked diffusion" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"infill": "{0}"}, "it must hide 1 to 256 tokens"),
        ({"infill": "home."}, "it must hide 1 to 256 tokens"),
        ({"infill": "{400}"}, "it must hide 1 to 256 tokens"),
        (
            {"infill": "{9} " + "word " * 390, "steps": 9, "max_new_tokens": 1},
            "fit after the prompt",
        ),
        ({"steps": 0}, "a whole number from 1"),
        ({"steps": 1, "block_length": 10}, "it must be at least 2, one for every block of 10"),
        ({"remasking": "none"}, "one of low_confidence, random, entropy_bound"),
        ({"num_beams": 3}, "no such parameter"),
    ],
)
def test_what_is_not_allowed_is_refused_in_one_sentence(params, said):
    prompt = PROMPT if params.get("max_new_tokens") is None else "word " * 700
    with pytest.raises(ParameterError, match=said):
        fill(prompt, **params)


def test_a_pass_is_explained_from_its_recording_alone():
    trace = fill()
    bare = [dataclasses.replace(step, detail=None) for step in trace.steps[:3]]
    asked = dataclasses.replace(trace, steps=(*bare, trace.steps[3]), outputs=())
    again = json_io.loads(json_io.dumps(asked))
    found = explain_token(find_replayed_step(again, 3, quick=True))
    written = len(trace.steps[3].detail.written)
    assert f"at once and wrote {written} of them" in str(found.sentence)
    with pytest.raises(ExportError, match="cannot be written as code"):
        export_files(trace)
    with pytest.raises(ParameterError, match="no branches"):
        branch_point(trace, 3)


def test_a_damaged_record_is_refused_with_its_place():
    good = {"schema": SCHEMA, **json_io.to_dict(fill())}
    for change, said in (
        (lambda steps: steps[1]["detail"]["guesses"].reverse(), "not hidden"),
        (lambda steps: steps[1]["detail"].update(length=99), "another text"),
        (lambda steps: steps[0]["detail"]["guesses"][0].update(entropy=-1), "negative entropy"),
        (lambda steps: steps[0]["detail"]["guesses"][0].update(position=-1), "not hidden"),
    ):
        bad = json.loads(json.dumps(good))
        change(bad["steps"])
        with pytest.raises(TraceError, match=said):
            json_io.loads(json.dumps(bad))
