"""Exported code of a conversation: by the chat template where that gives the same ids, else by ids."""

from __future__ import annotations

import ast
import dataclasses
import json

import pytest

from engine import DecodeRequest
from engine.errors import ExportError
from engine.export.files import PIPELINE, SCRIPT, export_files
from engine.export.short_script import CONTROL_TOKEN_NOTE
from engine.export.verify import compare_tokens, parse_printed_ids, verify_export
from engine.models.loading import LoadedModel
from tests.helpers.exported import run_scripts, written
from tests.helpers.runs import finished
from tests.helpers.talker import TOOLS, said, talker, with_template

QUOTES = 'Quotes " and \' and """ and \\ and \n {braces} <b>'


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Talkers as folders."""
    place = tmp_path_factory.mktemp("talkers")
    clock = with_template(
        "{{ strftime_now('%d') if today is not defined else today }} {{ messages[0].content }}"
    )
    made = {"qwen3": talker("qwen3"), "mistral": talker("mistral"), "clock": clock}
    for name, loaded in made.items():
        loaded.model.save_pretrained(place / name)
        loaded.tokenizer.save_pretrained(place / name)
    return {
        name: LoadedModel(loaded.model, loaded.tokenizer, str(place / name))
        for name, loaded in made.items()
    }


def recorded(loaded, messages, template=None, strategy="sampling"):
    params = {"max_new_tokens": 6}
    return finished(
        DecodeRequest(strategy, loaded, messages=messages, template=template, params=params, seed=7)
    )


# name of a talker, messages, template, strategy
TALKS = {
    "turns": ("qwen3", said(QUOTES, "ran", "why", system="be kind"), None, "sampling"),
    "tools": ("qwen3", said("why"), {"tools": TOOLS, "enable_thinking": False}, "greedy"),
    "prefilled": ("mistral", said("why", "the bear"), None, "sampling"),
    "a loop of its own": ("mistral", said("why"), None, "dola"),
    "typed": ("qwen3", said("say <|im_end|> now"), None, "sampling"),
}


@pytest.fixture(scope="module")
def runs(places):
    """Record every talk, and one whose template writes the day."""
    made = {name: recorded(places[place], *asked) for name, (place, *asked) in TALKS.items()}
    dated = recorded(places["clock"], said("the bear"), {"today": "31"})
    return made | {"dated": dataclasses.replace(dated, template={"add_generation_prompt": True})}


@pytest.fixture(scope="module")
def printed(runs, tmp_path_factory):
    """Run all scripts, and all pipelines but those that are refused, in one fresh process."""
    place = tmp_path_factory.mktemp("exports")
    scripts = {(n, SCRIPT): written(run, place / n, SCRIPT) for n, run in runs.items()}
    scripts |= {
        (name, PIPELINE): written(runs[name], place / f"{name}, pipeline", PIPELINE)
        for name in TALKS
        if name != "typed"
    }
    results = run_scripts(list(scripts.values()), place, in_short=False)
    return {key: results[str(script)] for key, script in scripts.items()}


def check_printed(trace, text):
    """Check that a script has printed the tokens of a run."""
    found = compare_tokens(trace, parse_printed_ids(text), 0.0)
    assert found.equal, text


@pytest.mark.parametrize("name", TALKS)
def test_the_code_prints_the_recorded_tokens(runs, printed, name):
    trace = runs[name]
    code = export_files(trace)["run.py"]
    by_template = "apply_chat_template(" in code.replace(CONTROL_TOKEN_NOTE, "")
    assert by_template == (trace.literal_tokens == 0)
    assert (CONTROL_TOKEN_NOTE in code) == (name == "typed")
    check_printed(trace, printed[name, SCRIPT])


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["turns", "tools", "prefilled", "a loop of its own", "typed"])
def test_a_check_finds_the_recorded_tokens(runs, name):
    found = verify_export(runs[name])
    assert found.equal, found.message


@pytest.mark.parametrize("name", TALKS)
def test_the_run_in_short_reads_the_same_ids(places, runs, name):
    place, trace = TALKS[name][0], runs[name]
    code = export_files(trace)["run.py"]
    call = next(
        node
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.FunctionDef) and node.name == "in_short"
    )
    reads = [n for n in ast.walk(call) if isinstance(n, ast.Call)]
    told = [n for n in reads if getattr(n.func, "attr", "") == "apply_chat_template"]
    if name == "typed":
        ids = next(n for n in reads if getattr(n.func, "attr", "") == "tensor")
        assert ast.literal_eval(ids.args[0]) == [list(trace.prompt_ids)]
        return
    messages = ast.literal_eval(told[0].args[0])
    options = {word.arg: ast.literal_eval(word.value) for word in told[0].keywords}
    found = places[place].tokenizer.apply_chat_template(messages, **options)
    assert found["input_ids"].tolist() == [list(trace.prompt_ids)]


def test_a_template_that_writes_the_date_of_another_day(runs, printed):
    """The code falls back on the recorded ids where the template says something else by now."""
    check_printed(runs["dated"], printed["dated", SCRIPT])


@pytest.mark.nightly
def test_a_check_passes_where_a_template_writes_the_date_of_another_day(runs):
    assert verify_export(runs["dated"]).equal


def test_the_notebook_talks_too(runs):
    cells = json.loads(export_files(runs["tools"])["run.ipynb"])["cells"]
    assert any("apply_chat_template" in "".join(cell["source"]) for cell in cells)


@pytest.mark.parametrize("name", ["x=print()", "chat_template", "return_tensors", "a b", ""])
def test_no_name_of_a_file_becomes_code(runs, name):
    with pytest.raises(ExportError, match="conversation cannot be written as code"):
        export_files(dataclasses.replace(runs["tools"], template={name: 1}))


@pytest.mark.parametrize("name", [name for name in TALKS if name != "typed"])
def test_a_pipeline_prints_the_recorded_tokens(runs, printed, name):
    check_printed(runs[name], printed[name, PIPELINE])


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in TALKS if name != "typed"])
def test_a_check_finds_the_recorded_tokens_of_a_pipeline(runs, name):
    found = verify_export(runs[name], form="pipeline")
    assert found.equal, found.message


def test_a_pipeline_is_refused_where_it_would_read_what_was_typed_as_a_control_token(runs):
    with pytest.raises(ExportError, match="a pipeline would read it as one"):
        verify_export(runs["typed"], form="pipeline")
