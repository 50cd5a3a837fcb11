"""Exported code, run in a fresh process without this project, prints the recorded tokens."""

from __future__ import annotations

import json
import re

import pytest

from engine import DecodeRequest, load
from engine.errors import ExportError
from engine.export.files import PIPELINE, export_files, pipeline_refusal
from engine.models.loading import LoadedModel
from engine.strategies import STRATEGIES
from tests.helpers.exported import run_exports
from tests.helpers.heads import with_heads
from tests.helpers.models import fresh_model
from tests.helpers.runs import finished
from tests.helpers.sentences import clean
from tests.helpers.strategies import NEXT_TOKEN
from tests.helpers.zoo import KINDS, made

PROMPT = [5, 9, 11, 4, 5, 9, 11]
HARD_TEXT = 'Quotes " and \' and """ and \\ and \n a new line {braces} <b>'
# By day the strategies whose code differs in kind, and settings that make other code; by night the other
# strategies, and what each can be asked for beyond its defaults.
BY_DAY = (
    *("greedy", "sampling", "contrastive_search", "early_exit", "mtp", "custom"),
    *("speculative", "watermark"),
)
CASES = [(name, {}) for name in BY_DAY] + [
    ("greedy", {"prefix_allowed_tokens_fn": [[7, 8, 9], [7, 20]]}),
    ("sampling", {"guidance_scale": 1.5, "negative_prompt_ids": [8, 30], "min_p": 0.02}),
    (
        "sampling",
        {
            "temperature": 1.5,
            "min_p": 0.002,
            "typical_p": 0.99,
            "xtc_probability": 0.5,
            "xtc_threshold": 0.01,
            "num_return_sequences": 2,
        },
    ),
    ("beam_search", {"num_beams": 3, "dry_multiplier": 2.0, "dry_allowed_length": 1}),
    ("beam_search", {"num_beams": 4, "force_words_ids": [[[40, 41], [33]], [21]]}),
    ("dola", {"do_sample": True, "mirostat_tau": 1.0, "num_return_sequences": 2}),
    ("speculative", {"do_sample": True, "top_n_sigma": 1.5, "num_assistant_tokens": 4}),
    ("universal_assisted", {"stop_strings": ["little"]}),
    ("watermark", {"scheme": "synthid", "top_k": 0}),
]
MORE_CASES = [(name, {}) for name in NEXT_TOKEN if name not in BY_DAY] + [
    (
        "greedy",
        {"repetition_penalty": 1.3, "bad_words_ids": [[9, 11], [4]], "no_repeat_ngram_size": 3},
    ),
    ("sampling", {"temperature": 1.7, "top_k": 0, "top_p": 0.9, "num_return_sequences": 3}),
    ("sampling", {"eos_token_id": [10, 56], "sequence_bias": [[[10], -2.0]], "typical_p": 0.8}),
    ("sampling", {"temperature": 2.0, "top_k": 0, "top_n_sigma": 1.2}),
    ("sampling", {"mirostat_tau": 2.0, "mirostat_eta": 0.5, "top_p": 0.95}),
    ("sampling", {"adaptive_target": 0.3, "min_p": 0.05, "num_return_sequences": 2}),
    ("watermark", {"xtc_probability": 0.5, "xtc_threshold": 0.01}),
    ("dola", {"do_sample": True, "xtc_probability": 0.5, "xtc_threshold": 0.005}),
    ("greedy", {"dry_multiplier": 2.0, "dry_allowed_length": 1, "dry_sequence_breakers": [40]}),
    (
        "prompt_lookup",
        {"do_sample": True, "top_k": 9, "dry_multiplier": 2.0, "dry_allowed_length": 1},
    ),
    ("beam_sampling", {"num_beams": 3, "top_k": 0, "top_n_sigma": 1.0}),
    ("prompt_lookup", {"do_sample": True, "top_n_sigma": 1.5}),
    ("beam_search", {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 2.0}),
    ("beam_sampling", {"num_beams": 3, "temperature": 1.5, "top_k": 0}),
    ("diverse_beam_search", {"num_beams": 4, "num_beam_groups": 4, "num_return_sequences": 4}),
    ("contrastive_search", {"penalty_alpha": 0.4, "top_k": 6, "repetition_penalty": 1.1}),
    ("dola", {"dola_layers": [1, 3], "do_sample": True, "num_return_sequences": 2}),
    (
        "speculative",
        {"do_sample": True, "top_k": 0, "suppress_tokens": [0], "num_assistant_tokens": 4},
    ),
    ("prompt_lookup", {"do_sample": True, "temperature": 0.4, "max_matching_ngram_size": 3}),
    ("early_exit", {"assistant_early_exit": 3, "do_sample": True, "suppress_tokens": [0]}),
    ("universal_assisted", {"do_sample": True, "top_k": 0, "num_assistant_tokens": 4}),
    ("watermark", {"seeding_scheme": "selfhash", "do_sample": False}),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Tiny models as folders, loaded from nowhere else."""
    place = tmp_path_factory.mktemp("models")
    models = {}
    for name in ("llama", "llama_draft", "t5", "RecurrentGemma", "Qwen3Next"):
        model = made(name) if name in KINDS else fresh_model(name)
        model = with_heads(model, place / name) if name == "llama" else model
        model.save_pretrained(place / name)
        models[name] = LoadedModel(model, None, str(place / name))
    return models


def record(folders, name, params, model="llama"):
    """Decode and return the trace; drafting across tokenizers needs models that have one."""
    params = {"max_new_tokens": 9, **params}
    if STRATEGIES[name].assistant == "any_tokenizer":
        target, draft = load("storyteller"), load("foreign-draft")
        request = DecodeRequest(name, target, "Once upon a", params=params, assistant=draft, seed=7)
    else:
        target, draft = folders[model], folders["llama_draft"]
        request = DecodeRequest(
            name, target, input_ids=PROMPT, params=params, assistant=draft, seed=7
        )
    return finished(request)


@pytest.fixture(scope="module")
def runs(folders, tmp_path_factory):
    """Record the cases of the day, and run what they export."""
    traces = [record(folders, name, params) for name, params in CASES]
    traces.append(record(folders, "sampling", {}, model="t5"))
    traces.append(record(folders, "beam_search", {}, model="t5"))
    traces.append(record(folders, "beam_search", {}, model="RecurrentGemma"))
    return run_exports(traces, tmp_path_factory.mktemp("exports"))


@pytest.fixture(scope="module")
def more_runs(folders, tmp_path_factory):
    """Record the cases of the night, and run what they export."""
    traces = [record(folders, name, params) for name, params in MORE_CASES]
    return run_exports(traces, tmp_path_factory.mktemp("exports"))


def test_what_was_read_again_is_read_again_by_the_code(runs):
    assert ["use_cache=True" in run.script.read_text() for run in runs[-2:]] == [True, False]


def test_what_generate_refuses_is_not_written_as_code(folders):
    trace = record(folders, "prompt_lookup", {}, model="Qwen3Next")
    with pytest.raises(ExportError, match="generate\\(\\) refuses to draft for such a model"):
        export_files(trace)


def check_short(run):
    trace, script, said = run.trace, run.script, run.shortly
    if any(trace.config.get(name) for name in ("prefix_allowed_tokens_fn", "stop_strings")):
        assert said is None, "these are no plain lines"
        return
    lines = script.read_text().split("in_short():\n")[1].split("\n\n\n")[0]
    # What is imported, tokenizer, model, perhaps a draft with its fixed threshold, the seed, the call,
    # what is printed.
    # The class of a filter that transformers does not have comes on top.
    rest = re.sub(r"\n    class .*?(?=\n    \S)", "", lines, flags=re.DOTALL)
    assert len([line for line in rest.splitlines() if line.strip()]) <= 15
    assert said
    assert "Traceback" not in said, said
    if trace.prompt is not None:
        assert said.startswith(trace.prompt)
        assert trace.outputs[0].text.rstrip() in said
        return
    start = 1 if trace.model.is_encoder_decoder else len(trace.prompt_ids)
    rows = [row[start:] for row in json.loads(said.splitlines()[-1])]
    for row, output in zip(rows, trace.outputs, strict=True):
        assert tuple(row[: len(output.token_ids)]) == output.token_ids


@pytest.mark.parametrize("number", range(len(CASES) + 3))
def test_the_script_prints_the_recorded_tokens(runs, number):
    runs[number].check_printed()


@pytest.mark.parametrize("number", range(len(CASES) + 3))
def test_the_run_in_short_writes_the_same(runs, number):
    check_short(runs[number])


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(len(MORE_CASES)))
def test_the_script_with_more_settings_prints_the_recorded_tokens(more_runs, number):
    more_runs[number].check_printed()
    check_short(more_runs[number])


def test_no_pipeline_makes_the_run_of_a_custom_method(runs):
    trace = next(run.trace for run in runs if run.trace.method is not None)
    assert clean(pipeline_refusal(trace)).startswith(
        "A pipeline reads a method's result differently"
    )
    assert PIPELINE not in export_files(trace)
