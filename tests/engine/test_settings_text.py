"""Settings from elsewhere: they choose the strategy, and what does not apply is named."""

from __future__ import annotations

import pytest

from engine import DecodeRequest
from engine.errors import EngineError, ParameterError
from engine.export.settings_text import read_settings_text
from engine.run.request import check_request
from tests.helpers.sentences import clean

READ = [
    (
        "num_beams=4, do_sample=True, max_length=50",
        "beam_sampling",
        {"num_beams": 4},
        {"max_length": "set max_new_tokens"},
    ),
    ("max_new_tokens=20,\ntemperature=0.7,", "sampling", {"max_new_tokens": 20, "temperature": 0.7}, {}),
    ("{'penalty_alpha': 0.6, 'top_k': 4}", "contrastive_search", {"penalty_alpha": 0.6, "top_k": 4}, {}),
    ('{"num_beams": 3, "num_beam_groups": 3}', "diverse_beam_search", {"num_beams": 3, "num_beam_groups": 3}, {}),
    (
        "outputs = model.generate(\n    **inputs,  # the prompt\n    num_beams=4,\n"
        "    pad_token_id=tokenizer.eos_token_id,\n)\nprint(outputs)",
        "beam_search",
        {"num_beams": 4},
        {"pad_token_id": "not a plain value"},
    ),
    ("GenerationConfig(do_sample=False, top_p=0.9)", "greedy", {}, {"top_p": "nothing is drawn"}),
    (
        "do_sample=True, temperature=0.5, num_beems=4, top_p=7",
        "sampling",
        {"temperature": 0.5},
        {"num_beems": "did you mean num_beams", "top_p": "at most 1"},
    ),
    ("do_sample=True, length_penalty=2.0", "sampling", {}, {"length_penalty": "in the tabs Beams, "}),
    ('generate(**{"dola_layers": "high"})', "dola", {"dola_layers": "high"}, {}),
    (
        '{"top_p": 0.5, "decoding_playground": {"strategy": "sampling", "params": {"min_p": 0.1}}}',
        "sampling",
        {"top_p": 0.5, "min_p": 0.1},
        {},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "strategy", "params", "left_out"), READ)
def test_settings_choose_the_strategy_and_what_does_not_apply_is_named(
    text, strategy, params, left_out
):
    found = read_settings_text(text, "sampling")
    assert found.strategy == strategy
    assert dict(found.params) == params
    assert {*found.left_out} == {*left_out}
    for field, words in left_out.items():
        assert words in clean(str(found.left_out[field]))


def test_a_tab_that_fits_the_settings_stays():
    text = "do_sample=True, temperature=0.7"
    assert read_settings_text(text, "watermark").strategy == "watermark"
    assert read_settings_text(text, "greedy").strategy == "sampling"
    assert read_settings_text("max_new_tokens=9", "dola").strategy == "dola"


@pytest.mark.parametrize(
    "text",
    ["", "hello world", "{", "num_beams=", "(" * 500, "x" * 200_000, "custom_generate='a/b'",
     "custom_generate=load()", "f()", '{"decoding_playground": {"strategy": "none"}}', "=" * 9],
)  # fmt: skip
def test_what_is_no_settings_is_refused_with_one_sentence(text):
    with pytest.raises(EngineError) as caught:
        read_settings_text(text, "sampling")
    clean(str(caught.value))


def test_a_parameter_of_another_strategy_names_its_tab():
    with pytest.raises(ParameterError, match="greedy has no such parameter; it is in the tab DoLa"):
        check_request(DecodeRequest("greedy", prompt="Once", params={"dola_layers": "high"}))
