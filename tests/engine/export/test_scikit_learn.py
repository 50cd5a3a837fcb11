"""Exported drafting where scikit-learn is installed, and the check of both cases."""

from __future__ import annotations

from itertools import product

import pytest

from engine import DecodeRequest
from engine.export import verify as checks
from engine.export.plan import plan_export
from engine.export.script import IDS_PREFIX, script_text
from engine.export.short_script import short_code
from tests.helpers.drafting import install_scikit_learn
from tests.helpers.exported import written
from tests.helpers.runs import finished


@pytest.mark.nightly
def test_scikit_learn_changes_no_token_of_exported_drafting(monkeypatch, capsys):
    params = {"do_sample": True, "top_k": 0, "max_new_tokens": 30, "num_assistant_tokens": 5}
    run = finished(
        DecodeRequest("speculative", "storyteller", "The little bear saw", params=params, seed=1)
    )
    code = script_text(plan_export(run))
    fixed = "is_sklearn_available = lambda: False"

    def tokens_of(script):
        install_scikit_learn(monkeypatch)
        exec(compile(script, "run.py", "exec"), {})
        return tuple(checks.parse_printed_ids(capsys.readouterr().out)[0])

    assert tokens_of(code) == run.outputs[0].token_ids
    assert (
        tokens_of(code.replace(fixed, fixed.replace("False", "True"))) != run.outputs[0].token_ids
    ), "it could not fail"
    assert fixed in short_code(plan_export(run))


SAMPLED = {"do_sample": True, "top_k": 0}
ADAPTIVE = {"assistant_confidence_schedule": "adaptive"}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("strategy", "params"),
    [
        *product(("speculative", "early_exit", "universal_assisted"), ({}, SAMPLED)),
        ("speculative", ADAPTIVE),
        ("speculative", SAMPLED | ADAPTIVE),
    ],
)
def test_no_exported_drafting_depends_on_scikit_learn(
    strategy, params, monkeypatch, capsys, tmp_path
):
    more = {"assistant_early_exit": 2} if strategy == "early_exit" else {}
    params = {"max_new_tokens": 14, **params, **more}
    run = finished(DecodeRequest(strategy, "storyteller", "Once upon", params=params, seed=1))
    path = written(run, tmp_path / "out")
    for installed in (False, True):
        if installed:
            install_scikit_learn(monkeypatch)
        exec(compile(path.read_text(), path, "exec"), {"__file__": str(path)})
        said = capsys.readouterr().out
        assert tuple(checks.parse_printed_ids(said)[0]) == run.outputs[0].token_ids, installed


def test_drafting_code_is_checked_with_and_without_scikit_learn(monkeypatch):
    run = finished(DecodeRequest("speculative", "storyteller", "The", params={"max_new_tokens": 4}))
    right, wrong = (
        f"{IDS_PREFIX}{ids}\n" for ids in (list(run.outputs[0].token_ids), [1, 2, 3, 4])
    )
    printed = {"": right, "sklearn": wrong}
    asked = []

    def run_script(place, script, cancelled, hidden):
        asked.append(hidden)
        return 0, printed[hidden], ""

    monkeypatch.setattr(checks, "_run_script", run_script)
    monkeypatch.setattr(checks, "has_scikit_learn", lambda: True)
    found = checks.verify_export(run)
    assert not found.equal
    assert found.message.startswith("Without scikit-learn: They differ from token 1")
    printed["sklearn"] = right
    found = checks.verify_export(run)
    assert (found.equal, asked) == (True, ["", "sklearn"] * 2)
    assert found.message == "With and without scikit-learn: All 4 tokens are equal."
    free = {"max_new_tokens": 4, "assistant_confidence_threshold": 0.0}
    checks.verify_export(finished(DecodeRequest("speculative", "storyteller", "The", params=free)))
    monkeypatch.setattr(checks, "has_scikit_learn", lambda: False)
    checks.verify_export(run)
    assert asked[4:] == ["", ""]


def test_a_checked_script_does_not_find_a_hidden_package(tmp_path):
    (tmp_path / "run.py").write_text(
        "from importlib.util import find_spec\nprint(find_spec('colorsys'), __file__)\nimport colorsys"
    )
    place = str(tmp_path / "run.py")
    seen = checks._run_script(tmp_path, "run.py", lambda: False)
    assert (seen[0], "ModuleSpec" in seen[1]) == (0, True)
    code, said, failed = checks._run_script(tmp_path, "run.py", lambda: False, "colorsys")
    assert (code, said) == (1, f"None {place}\n")
    assert "ModuleNotFoundError" in failed
