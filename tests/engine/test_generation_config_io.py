"""generation_config.json: what is saved is read back, and a file never says more than it may."""

from __future__ import annotations

import json

import pytest
from transformers import GenerationConfig

from engine.declare.params import build_config
from engine.errors import EngineError
from engine.export import generation_config as io
from engine.sources.source import Source
from engine.strategies import STRATEGIES
from tests.helpers.bad_configs import NOT_OFFERED, REFUSED
from tests.helpers.sentences import clean

PRESETS = [(s.name, p.params) for s in STRATEGIES.values() for p in s.presets]


@pytest.mark.parametrize("number", range(len(PRESETS)))
def test_every_preset_is_saved_and_read_back(number):
    name, params = PRESETS[number]
    config = STRATEGIES[name].config
    text = io.format_config(name, params)
    for again in (io.parse_config(text, name), io.parse_config(text.encode())):
        assert again.strategy == name
        assert not again.left_out
        assert build_config(config, again.params, name) == build_config(config, params, name)


def test_transformers_reads_what_is_saved(tmp_path):
    params = {
        "temperature": 0.7,
        "top_p": 0.9,
        "sequence_bias": [[[3, 4], 1.0]],
        "max_new_tokens": 9,
    }
    (tmp_path / "generation_config.json").write_text(io.format_config("sampling", params))
    loaded = GenerationConfig.from_pretrained(tmp_path)
    assert (loaded.temperature, loaded.top_p, loaded.do_sample) == (0.7, 0.9, True)
    assert loaded.sequence_bias == [[[3, 4], 1.0]]
    marked = tmp_path / "marked"
    marked.mkdir()
    (marked / "generation_config.json").write_text(io.format_config("watermark", {"bias": 3.0}))
    assert GenerationConfig.from_pretrained(marked).watermarking_config.bias == 3.0


def test_words_that_are_no_ids_yet_are_kept():
    params = {
        "num_beams": 3,
        "force_words_ids": [" dragon", [[7], [8]]],
        "bad_words_ids": ["x", [4]],
    }
    text = io.format_config("beam_search", params)
    assert "force_words_ids" not in {k: v for k, v in json.loads(text).items() if k != io.BLOCK_KEY}
    again = io.parse_config(text, "beam_search").params
    assert again["force_words_ids"][0] == " dragon"


def test_the_strategy_follows_from_a_file_of_transformers():
    files = {
        "greedy": {"repetition_penalty": 1.2},
        "sampling": {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "eos_token_id": [2, 3]},
        "beam_search": {"num_beams": 4},
        "beam_sampling": {"num_beams": 4, "do_sample": True},
        "diverse_beam_search": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
        "contrastive_search": {"penalty_alpha": 0.6, "top_k": 4},
        "dola": {"dola_layers": "low"},
        "prompt_lookup": {"prompt_lookup_num_tokens": 5},
        "early_exit": {"assistant_early_exit": 2},
        "watermark": {"do_sample": True, "watermarking_config": {"bias": 4.0}},
    }
    for name, fields in files.items():
        found = io.parse_config(json.dumps(fields))
        assert found.strategy == name
        params = json.loads(json.dumps(dict(found.params)))
        if name == "watermark":
            assert params == {"do_sample": True, "scheme": "greenlist", "bias": 4.0}
        else:  # what chooses the mode is not named again
            assert params == {k: v for k, v in fields.items() if k != "do_sample"}


def test_what_belongs_to_the_model_or_has_no_effect_is_left_out_with_a_note():
    fields = {"bos_token_id": 0, "pad_token_id": 0, "temperature": 0.6, "transformers_version": "9"}
    found = io.parse_config(json.dumps(fields), "greedy")
    assert not found.params
    assert [sentence.split()[0] for sentence in found.left_out] == [
        "bos_token_id",
        "pad_token_id",
        "temperature",
    ]


def test_what_transformers_writes_for_a_feature_that_is_off_is_passed_over():
    off = {"num_beams": 1, "use_cache": True, "output_scores": False, "num_beam_groups": 1}
    found = io.parse_config(json.dumps(off), "greedy")
    assert (dict(found.params), found.left_out) == ({}, ())
    with pytest.raises(EngineError, match="num_beams"):
        io.parse_config(json.dumps({**off, "num_beams": 2}), "greedy")


def test_null_is_what_transformers_writes_for_nothing():
    assert io.parse_config(b'{"do_sample": true, "max_new_tokens": null}', "sampling").params == {}


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_a_malformed_file_is_refused_with_one_sentence(number):
    given, said = REFUSED[number]
    data = given if isinstance(given, bytes) else json.dumps({"do_sample": True, **given}).encode()
    with pytest.raises(EngineError) as caught:
        io.parse_config(data, "sampling")
    assert said in clean(str(caught.value), most=400)


def test_other_strategies_refuse_by_name():
    for name, fields, said in (
        ("greedy", {"do_sample": True}, "one for sampling"),
        ("watermark", {"watermarking_config": {"evil": 1}}, "evil"),
        ("watermark", {"watermarking_config": 3}, "object"),
        ("watermark", {"watermarking_config": {"greenlist_ratio": 2}}, "greenlist_ratio"),
        ("no such", {}, "no strategy"),
    ):
        with pytest.raises(EngineError, match=said):
            io.parse_config(json.dumps(fields), name)
    with pytest.raises(EngineError, match="temperature"):
        io.format_config("sampling", {"temperature": -1})


def test_a_models_own_defaults_are_shown_and_not_used(tmp_path):
    assert io.model_defaults(Source.parse("storyteller")) == {}
    assert io.model_defaults(Source.parse("someone/unknown")) == {}
    assert io.model_defaults(Source.find("not a name")) == {}
    fields = {"temperature": 0.6, "top_p": 0.9, "do_sample": True, "eos_token_id": 2}
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "generation_config.json").write_text(json.dumps(fields))
    shown = io.model_defaults(Source.parse(str(tmp_path)))
    assert shown == {"temperature": 0.6, "top_p": 0.9, "do_sample": True}
    assert io.parse_config(json.dumps(shown), "sampling").params == {
        "temperature": 0.6,
        "top_p": 0.9,
    }
    (tmp_path / "generation_config.json").write_text("{")
    with pytest.raises(EngineError, match="not valid JSON"):
        io.model_defaults(Source.parse(str(tmp_path)))


@pytest.mark.parametrize(("field", "value"), NOT_OFFERED)
def test_what_is_not_offered_is_named_and_the_rest_of_the_file_is_used(field, value):
    found = io.parse_config(json.dumps({"top_k": 7, "do_sample": True, field: value}))
    assert (found.strategy, found.params) == ("sampling", {"top_k": 7})
    why = (
        "counts the prompt, too; set max_new_tokens."
        if field == "max_length"
        else "is not offered here."
    )
    assert found.left_out == (f"{field} = {value!r} {why}",)
