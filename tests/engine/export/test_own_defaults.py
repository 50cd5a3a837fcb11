"""What a model's own generation_config.json asks for is read for a strategy, field by field, and never used unasked."""

from __future__ import annotations

import json

import pytest

from engine import DecodeRequest, load
from engine.cli.main import main
from engine.export.generation_config import ConfigError
from engine.export.own_defaults import own_defaults
from engine.sources.source import Source
from engine.strategies import STRATEGIES
from tests.helpers.models import with_settings
from tests.helpers.runs import finished
from tests.helpers.sentences import clean
from tests.helpers.strategies import NEXT_TOKEN

FIELDS = {
    "do_sample": True,
    "temperature": 0.6,
    "top_k": 50,
    "top_p": 0.95,
    "eos_token_id": [1, 2],
    "transformers_version": "4.51.0",
}


@pytest.fixture
def folder(tmp_path):
    """Return a function that makes a folder with a model and a generation_config.json of its own."""
    return lambda **fields: with_settings(tmp_path / "model", fields)


def test_differences_and_agreements_are_distinguished(folder):
    found = own_defaults(Source.parse(folder(**FIELDS)), "sampling")
    assert found.params == {"temperature": 0.6, "top_p": 0.95}
    assert found.defaults == {"temperature": 1.0, "top_p": 1.0}
    assert found.same == ("top_k",)
    assert found.left_out == {}


def test_the_strategy_is_the_one_transformers_would_choose(folder):
    assert own_defaults(Source.parse(folder(**FIELDS))).strategy == "sampling"
    assert own_defaults(Source.parse("storyteller")).strategy == "greedy"


def test_every_field_that_a_strategy_does_not_use_is_named(folder):
    found = own_defaults(Source.parse(folder(**FIELDS, repetition_penalty=1.1)), "greedy")
    assert found.params == {"repetition_penalty": 1.1}
    # 50 is what transformers gives top_k anyway.
    assert set(found.left_out) == {"do_sample", "temperature", "top_p"}
    assert "chooses Sampling" in found.left_out["do_sample"]
    assert "has no effect in greedy" in found.left_out["temperature"]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("temperature", -1, "temperature = -1 is not allowed"),
        ("max_length", 4096, "max_length = 4096 counts the prompt, too; set max_new_tokens."),
        ("custom_generate", "evil/repo", "could run code"),
        ("num_beams", 4, "chooses Beam search"),
        ("temprature", 1, "did you mean temperature"),
    ],
)
def test_a_field_that_cannot_be_used_keeps_no_other_out(folder, field, value, said):
    found = own_defaults(
        Source.parse(folder(do_sample=True, top_p=0.9, **{field: value})), "sampling"
    )
    assert found.params == {"top_p": 0.9}
    assert said in clean(found.left_out[field], most=300)


def test_values_that_do_not_go_together_are_not_both_taken(folder):
    both = {"num_beams": 4, "num_return_sequences": 6}
    found = own_defaults(Source.parse(folder(**both)), "beam_search")
    assert "num_return_sequences" in found.left_out
    assert "num_return_sequences" not in found.params


@pytest.mark.parametrize("strategy", NEXT_TOKEN)
def test_what_is_offered_is_accepted_by_the_run(folder, strategy):
    found = own_defaults(
        Source.parse(folder(**FIELDS, repetition_penalty=1.1, min_p=0.05)), strategy
    )
    config = STRATEGIES[strategy].config(**found.params)
    config.check()
    assert found.params["repetition_penalty"] == 1.1


def test_a_damaged_file_is_named(folder):
    place = folder()
    with open(f"{place}/generation_config.json", "w") as file:
        file.write("{")
    with pytest.raises(ConfigError, match="not valid JSON"):
        own_defaults(Source.parse(place))


def test_a_run_uses_them_only_where_it_asks_for_them(folder):
    place = folder(do_sample=True, repetition_penalty=2.5)
    model = load(place)
    asked = {"prompt": "Once upon a time", "params": {"max_new_tokens": 12}}
    plain = finished(DecodeRequest("greedy", model, **asked))
    assert plain.config["repetition_penalty"] == 1.0
    asked["params"] |= own_defaults(Source.parse(place), "greedy").params
    penalised = finished(DecodeRequest("greedy", model, **asked))
    assert penalised.outputs[0].token_ids != plain.outputs[0].token_ids


def test_the_list_prints_what_a_model_asks_for(folder, capsys):
    place = folder(**FIELDS, max_length=4096)
    assert main(["list", "--model", place]) == 0
    said = capsys.readouterr().out
    assert "its own settings, for Sampling: temperature = 0.6 (default here: 1.0)" in said
    assert "max_length = 4096 counts the prompt, too; set max_new_tokens." in said
    assert main(["list", "--json", "--model", place]) == 0
    models = json.loads(capsys.readouterr().out)["models"]
    own = next(m for m in models if m["name"] == place)["own_settings"]
    assert own["sampling"]["params"] == {"temperature": 0.6, "top_p": 0.95}
    assert own["greedy"]["left_out"]["do_sample"].startswith("do_sample = True chooses")


def test_the_list_names_a_damaged_file_and_continues(folder, capsys):
    place = folder()
    with open(f"{place}/generation_config.json", "w") as file:
        file.write("[]")
    assert main(["list", "--model", place]) == 0
    assert "its own settings: A generation_config.json is a JSON object" in capsys.readouterr().out
