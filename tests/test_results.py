"""The page of results: every figure with its spread, its goal and where it was measured."""

import importlib
import json
from importlib.util import find_spec

from benchmarks import nightly, results
from benchmarks.about import ROOT, Goal
from benchmarks.figures import Figure, tell

ABOUT = {
    "date": "2026-11-23T12:00:00+00:00",
    "commit": "abc",
    "machine": {"cores": 2, "memory_gb": 24.1, "load_average": [0.1, 0.2, 0.3]},
    "versions": {"python": "3.11.7", "torch": "2.13.0"},
}


def told(capsys, name, figures, **more):
    tell(name, figures, **more)
    return {**json.loads(capsys.readouterr().out), **ABOUT}


def test_a_figure_is_reported_with_spread_goal_and_place(capsys):
    good = Figure("greedy: recorded ÷ generate()", [1.0, 0.9, 1.2], Goal(0.97, at_least=True))
    bad = Figure("a trace, kB", [310.0], Goal(300), digits=1)
    page = results.page_of([told(capsys, "recording", [good, bad, Figure("told", [2.0])])])
    assert "Of 2 figures with a goal 1 reach it." in page
    assert "| greedy: recorded ÷ generate() | 1 | 0.9–1.2 | 3 | ≥ 0.97: met |" in page
    assert "| a trace, kB | 310 |  | 1 | ≤ 300: **not met** |" in page
    assert "| told | 2 |  | 1 |  |" in page
    assert "`python -m benchmarks.recording`, 2026-11-23T12:00:00+00:00, commit abc" in page


def test_what_could_not_be_measured_says_so(capsys):
    page = results.page_of([told(capsys, "gpu", [], nothing="There was no GPU.")])
    assert "There was no GPU." in page
    assert "| figure |" not in page


def test_a_device_and_a_note_stand_with_the_figures(capsys):
    more = {"device": "NVIDIA H100", "note": "Some cases are missing."}
    page = results.page_of([told(capsys, "gpu", [Figure("x", [1.0])], **more)])
    assert "`python -m benchmarks.gpu` on NVIDIA H100, 2026" in page
    assert "Some cases are missing." in page


def test_a_new_result_takes_the_place_of_the_last(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    for name, value in (("page", 3.0), ("recording", 1.0), ("page", 4.0)):
        results.write(told(capsys, name, [Figure("x", [value])]))
    page = (tmp_path / "docs/results.md").read_text("utf-8")
    assert page.index("The record beside") < page.index("## The page")
    assert "| x | 4 |" in page
    assert "| x | 3 |" not in page


def test_a_benchmark_that_fails_keeps_its_last_figures(monkeypatch, capsys):
    monkeypatch.setattr(results.sys, "executable", "/bin/false")
    assert results.measured("recording", []) is None
    assert "recording failed with status 1" in capsys.readouterr().out


def test_every_benchmark_of_the_page_is_there():
    assert results.TITLES
    assert not [name for name in results.TITLES if find_spec(f"benchmarks.{name}") is None]


def test_the_nightly_tests_are_read_from_what_they_print():
    printed = "...\n2 failed, 1234 passed, 9000 deselected in 1800.00s\n111 of 113 caught\n"
    values = {figure.what: figure.values[0] for figure in nightly.figures_of(printed, 41.0)}
    assert values == {
        "minutes": 41.0,
        "tests passed": 1234,
        "tests failed": 2,
        "planted defects found": 111,
        "planted defects missed": 2,
    }
    green = nightly.figures_of("77 passed in 3s\n113 of 113 caught\n", 41.0)
    assert all(figure.told().get("met", True) for figure in green)
    errors = nightly.figures_of("1 failed, 3 passed, 9 deselected, 2 errors in 3s", 1.0)
    assert {figure.what: figure.values[0] for figure in errors}["tests failed"] == 3
    broken = {figure.what: figure.told() for figure in nightly.figures_of("make: error", 1.0)}
    assert not broken["tests failed"]["met"]
    assert not broken["planted defects missed"]["met"]


def test_the_page_is_that_of_the_figures_kept():
    data, page = (ROOT / name for name in results.FILES)
    assert page.read_text("utf-8") == results.page_of(json.loads(data.read_text("utf-8")))


def test_no_gpu_is_said_and_not_a_failure(monkeypatch, capsys):
    gpu = importlib.import_module("benchmarks.gpu")
    monkeypatch.setattr("sys.argv", ["gpu"])
    monkeypatch.setattr(gpu.torch.cuda, "is_available", lambda: False)
    gpu.main()
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["figures"] == []
    assert "no GPU" in last["nothing"]
