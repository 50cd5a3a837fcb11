"""The run as a pipeline: run in a fresh process it prints the recorded tokens; or one sentence says why not."""

from __future__ import annotations

import dataclasses
import json

import pytest

from engine import DecodeRequest, load
from engine.cli.main import main
from engine.errors import ExportError, ParameterError
from engine.export import verify as checks
from engine.export.files import PIPELINE, export_files, pipeline_files, pipeline_refusal
from engine.export.pipeline import pipeline_call
from engine.export.plan import plan_export
from engine.export.verify import verify_export
from engine.strategies import STRATEGIES
from engine.trace import json_io
from tests.helpers.exported import run_exports
from tests.helpers.models import golden_model
from tests.helpers.runs import finished
from tests.helpers.sentences import clean
from tests.helpers.strategies import OURS

PROMPT = "Once upon a time, a bear"
SPELLED = "Once upon a time<|endoftext|> a bear"
# By day the strategies whose code differs in kind, and settings that make other code: the other strategies
# differ in the values of their calls alone. By night these, and what each can be asked for beyond its defaults.
BY_DAY = (
    *("greedy", "sampling", "diverse_beam_search", "early_exit", "universal_assisted"),
    "watermark",
)
CASES = [(name, {}) for name in BY_DAY] + [
    ("greedy", {"prefix_allowed_tokens_fn": [" ran away", " sat down"]}),
    ("greedy", {"stop_strings": ["the"]}),
    ("sampling", {"guidance_scale": 1.5, "negative_prompt_ids": [8, 30], "min_p": 0.02}),
]
MORE_CASES = [(name, {}) for name in OURS if name not in BY_DAY] + [
    ("greedy", {"repetition_penalty": 1.3, "bad_words_ids": [" bear"], "no_repeat_ngram_size": 3}),
    ("sampling", {"temperature": 1.7, "top_k": 0, "top_p": 0.9, "num_return_sequences": 3}),
    ("beam_search", {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 2.0}),
    ("beam_search", {"num_beams": 4, "force_words_ids": [" dragon"]}),
    ("diverse_beam_search", {"num_beams": 4, "num_beam_groups": 4, "num_return_sequences": 4}),
    ("dola", {"do_sample": True, "num_return_sequences": 2}),
    ("speculative", {"do_sample": True, "top_k": 0, "num_assistant_tokens": 4}),
    ("prompt_lookup", {"do_sample": True, "temperature": 0.4, "max_matching_ngram_size": 3}),
    ("early_exit", {"assistant_early_exit": 3, "do_sample": True}),
    ("universal_assisted", {"do_sample": True, "num_assistant_tokens": 4}),
    ("watermark", {"scheme": "synthid", "top_k": 0}),
    ("watermark", {"seeding_scheme": "selfhash", "do_sample": False}),
]


def record(name, params, prompt=PROMPT):
    strategy = STRATEGIES[name]
    request = DecodeRequest(
        name,
        load("storyteller"),
        prompt,
        params={"max_new_tokens": 9, **params},
        assistant=load(strategy.default_assistant) if strategy.default_assistant else None,
        seed=7,
    )
    return finished(request)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Record the cases of the day, then run all pipelines in one fresh process."""
    traces = [record(name, params) for name, params in CASES]
    traces.append(record("greedy", {}, SPELLED))
    return run_exports(traces, tmp_path_factory.mktemp("exports"), PIPELINE)


@pytest.fixture(scope="module")
def more_runs(tmp_path_factory):
    """Record the cases of the night, then run all pipelines in another fresh process."""
    traces = [record(name, params) for name, params in MORE_CASES]
    return run_exports(traces, tmp_path_factory.mktemp("exports"), PIPELINE)


def check_short(run):
    trace, said = run.trace, run.shortly
    own_words = trace.config.get("stop_strings") and "custom_generate" in str(said)
    if trace.config.get("prefix_allowed_tokens_fn") or own_words:
        assert said is None, "these are no plain lines"
        return
    assert said
    assert "Traceback" not in said, said
    assert said.startswith(trace.prompt)
    for output in trace.outputs:
        assert output.text.strip() in said


@pytest.mark.parametrize("number", range(len(CASES) + 1))
def test_the_pipeline_prints_the_recorded_tokens(runs, number):
    runs[number].check_printed()


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_pipeline_in_short_writes_the_same(runs, number):
    check_short(runs[number])


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(len(MORE_CASES)))
def test_the_pipeline_with_more_settings_prints_the_recorded_tokens(more_runs, number):
    more_runs[number].check_printed()
    check_short(more_runs[number])


def test_a_pipeline_would_choose_what_it_is_not_given(runs):
    greedy = export_files(runs[0].trace)[PIPELINE]
    assert "config.do_sample = False" in greedy
    assert "config.temperature" not in greedy
    sampled = export_files(record("sampling", {"max_new_tokens": 2}))[PIPELINE]
    assert "config.temperature = 1.0" in sampled


def test_the_notebook_ends_with_the_pipeline(runs):
    for trace in (run.trace for run in runs[:3]):
        files = export_files(trace)
        last = json.loads(files["run.ipynb"])["cells"][-1]
        assert "".join(last["source"]) == pipeline_call(plan_export(trace))
        assert "".join(last["source"]) in files[PIPELINE]


def test_what_no_pipeline_can_do_is_said_in_one_sentence(tmp_path, capsys):
    fixer = finished(
        DecodeRequest("greedy", load("storyfixer"), "hello", params={"max_new_tokens": 3})
    )
    ids = finished(
        DecodeRequest(
            "greedy", golden_model("llama"), input_ids=[5, 9], params={"max_new_tokens": 3}
        )
    )
    ids = dataclasses.replace(ids, model=dataclasses.replace(ids.model, id="storyteller"))
    for trace, reason in ((fixer, "removed text2text-generation"), (ids, "began with token ids")):
        assert reason in clean(pipeline_refusal(trace), most=200)
        files = export_files(trace)
        assert PIPELINE not in files
        assert reason in json.dumps(json.loads(files["run.ipynb"])["cells"][-1])
        with pytest.raises(ExportError, match=reason):
            pipeline_files(trace)
        path = tmp_path / "run.json"
        json_io.save(trace, path)
        assert main(["export", str(path), "--as", "pipeline", "--to", str(tmp_path / "out")]) == 2
        assert reason in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_a_form_that_does_not_exist_is_refused(runs):
    with pytest.raises(ParameterError, match="generate, pipeline"):
        verify_export(runs[0].trace, form="diffusers")


@pytest.mark.nightly
def test_the_commands_write_and_check_a_pipeline(tmp_path, capsys):
    path = tmp_path / "run.json"
    json_io.save(record("contrastive_search", {}), path)
    assert main(["export", str(path), "--as", "pipeline", "--to", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / PIPELINE).is_file()
    assert (tmp_path / "out" / "contrastive_search_loop" / "README.md").is_file()
    assert not (tmp_path / "out" / "run.py").exists()
    capsys.readouterr()
    assert main(["verify", str(path), "--form", "pipeline"]) == 0
    assert "All 9 tokens are equal." in capsys.readouterr().out


@pytest.mark.parametrize("in_a_process", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_changed_run_is_not_what_the_pipeline_makes(runs, monkeypatch, in_a_process):
    trace, said = runs[0].trace, runs[0].said
    if not in_a_process:
        monkeypatch.setattr(checks, "_run_script", lambda *call: (0, said, ""))
    output = trace.outputs[0]
    other = dataclasses.replace(
        output, token_ids=(*output.token_ids[:-1], output.token_ids[-1] + 1)
    )
    found = verify_export(dataclasses.replace(trace, outputs=(other,)), form="pipeline")
    assert not found.equal
    assert f"from token {len(output.token_ids)} on" in found.message
