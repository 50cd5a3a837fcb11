"""The command line as a user meets it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

from engine import STRATEGIES, DecodeRequest
from engine.analysis import examples, gallery
from engine.analysis.comparisons import available_presets
from engine.cli.argument_values import escape_controls
from engine.cli.main import main
from engine.cli.run import _RunStatus
from engine.trace import json_io
from engine.trace.events import Checking, Loading, Waiting
from tests.helpers.runs import finished

SCHEMA = Path(__file__).parents[2] / "docs" / "trace.schema.json"


def test_list(capsys):
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"greedy", "sampling"} <= {s["name"] for s in listed["strategies"]}
    assert (
        listed["strategies"][0]["params"]["max_new_tokens"]["allowed"]
        == "a whole number from 1 to 512"
    )
    assert main(["list"]) == 0


def test_run_writes_a_trace_that_replays_without_torch(tmp_path, capsys):
    path = tmp_path / "run.json.gz"
    argv = [
        "run",
        "sampling",
        "--prompt",
        "Once upon a time",
        "--max-new-tokens",
        "8",
        "--seed",
        "3",
        "--set",
        "temperature=0.7",
        "--trace",
        str(path),
    ]
    assert main(argv) == 0
    text = capsys.readouterr().out.strip("\n")
    assert text.strip()
    code = (
        "import sys; from engine.cli.main import main; status = main(sys.argv[1:]);"
        "assert not {'torch', 'transformers', 'gradio'} & set(sys.modules); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "replay", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip("\n").endswith(text.strip())
    assert main(argv[:-2]) == 0
    assert capsys.readouterr().out.strip("\n") == text


def test_several_prompts_are_printed_in_order_and_have_a_trace_each(tmp_path, capsys):
    prompts = ["The dog", "Once upon a time"]
    argv = ["run", "greedy", "--max-new-tokens", "4"]
    both = [word for prompt in prompts for word in ("--prompt", prompt)]
    assert main([*argv, *both, "--trace", str(tmp_path / "batch.json.gz")]) == 0
    traces = [json_io.load(tmp_path / f"batch-{number}.json.gz") for number in (1, 2)]
    assert [trace.prompt for trace in traces] == prompts
    one, two = (trace.outputs[0].text for trace in traces)
    assert capsys.readouterr().out == f"=== 1\n{one}\n=== 2\n{two}\n"


def test_the_effect_of_padding_is_printed(capsys):
    assert main(["padding", "--prompt", "The dog", "--prompt", "Once upon a time, a"]) == 0
    short, *lines = capsys.readouterr().out.splitlines()
    assert "tokens, " in short
    assert " 0 of padding" not in short
    alone, left, unmasked, right = lines[:4]
    assert alone.split("%")[1] == left.split("%")[1] != right.split("%")[1]
    assert unmasked.split()[:4] == ["left,", "no", "mask", unmasked.split()[3]]


def test_the_schema_is_printed_as_docs_has_it(capsys):
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(SCHEMA.read_text())


def test_the_gallery_is_written_where_it_is_wanted(tmp_path, capsys, monkeypatch):
    greedy = STRATEGIES["greedy"]
    recorded = gallery.record_preset("greedy", greedy.presets[0])
    monkeypatch.setattr("engine.strategies.STRATEGIES", {"greedy": greedy})
    monkeypatch.setattr(gallery, "record_preset", lambda strategy, preset: recorded)
    monkeypatch.setattr(examples, "_record_comparison", lambda preset: {})
    monkeypatch.setattr(examples, "_record_draws", dict)
    monkeypatch.setattr(examples, "_record_unmarked_twin", lambda: recorded)
    monkeypatch.setattr(examples.taste, "record_continuations", dict)
    assert main(["gallery", "--to", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert gallery.list_entries(tmp_path)
    for entry in gallery.list_entries(tmp_path):
        assert entry.file in said
        assert gallery.open_entry(entry.file, tmp_path) == recorded
    assert examples.load_unmarked_twin(tmp_path / examples.FOLDER.name) == recorded
    assert said.count("an example") == len(available_presets()) + 3


ASIDE = [Waiting(2, None), Waiting(1, 3.0), Loading("storyteller"), Checking(0, 2, "runs")]


def test_progress_is_printed_on_stderr_once_each(capsys):
    aside = _RunStatus()
    for event in (*ASIDE, Checking(1, 2, "runs")):
        aside.show_event(event)
    aside.end()
    said = capsys.readouterr()
    assert said.out == ""
    lines = [line for line in said.err.splitlines() if line]
    assert lines == [
        "Waiting: 2 runs before yours",
        "Loading Storyteller…",
        "Checking 0 of 2: runs",
    ]


def test_a_terminal_shows_it_in_one_line_that_is_gone_at_the_end(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    aside = _RunStatus()
    for event in ASIDE:
        aside.show_event(event)
    aside.end()
    said = capsys.readouterr().err
    assert said.startswith(
        "\r\033[KWaiting: 2 runs before yours\r\033[KWaiting: 1 run before yours, "
    )
    assert said.endswith("Checking 0 of 2: runs\r\033[K")


def test_a_terminal_is_not_steered_by_what_a_file_says(tmp_path, capsys):
    trace = finished(DecodeRequest("greedy", prompt="Once", params={"max_new_tokens": 2}))
    steering = "\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202e"
    notes = {i: steering + piece for i, piece in trace.pieces.items()}
    trace = dataclasses.replace(trace, prompt=steering, pieces=notes)
    output = dataclasses.replace(trace.outputs[0], text=steering + trace.outputs[0].text)
    path = tmp_path / "run.json"
    json_io.save(dataclasses.replace(trace, outputs=(output,)), path)
    assert main(["replay", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "\\x1b]0;owned\\x07" in printed
    assert not [c for c in printed if c != "\n" and (ord(c) < 32 or ord(c) in (0x9B, 0x202E))]


def test_text_keeps_its_lines_and_its_letters():
    assert escape_controls("a\tb\n é 🐻 \u200d") == "a\tb\n é 🐻 \u200d"
