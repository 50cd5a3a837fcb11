"""Every hostile grammar gets one sentence, the next run works, and one that is huge ends within its limits."""

from __future__ import annotations

import dataclasses
import json

import pytest

from engine import decode
from engine.errors import ParameterError
from engine.models import structured_outputs
from engine.models.structured_outputs import compile_structured_outputs
from engine.processors.grammar import FILTER
from engine.trace.events import Failed
from tests.helpers.grammars import CHOICE, ask
from tests.helpers.hostile_grammars import HUGE, UNUSABLE
from tests.helpers.runs import failed, finished

PARAM = FILTER.params["structured_outputs"].metadata["param"]
BY_DAY = 5
"""Hostile grammars that are tried in a run by day, evenly among all of them."""


def test_each_of_sixty_is_refused_in_one_sentence():
    assert len(UNUSABLE) >= 60
    for spec, part in UNUSABLE:
        with pytest.raises(ParameterError) as caught:
            compile_structured_outputs(PARAM.check("structured_outputs", spec))
        sentence = str(caught.value)
        assert part in sentence, sentence
        assert "structured_outputs" in sentence
        assert "\n" not in sentence


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(i, marks=() if i % (len(UNUSABLE) // BY_DAY) == 0 else pytest.mark.nightly)
        for i in range(len(UNUSABLE))
    ],
)
def test_the_run_after_a_refused_one_works(number):
    spec, part = UNUSABLE[number]
    error = failed(ask("greedy", spec))
    assert error.code == "parameter"
    assert part in str(error)
    assert finished(ask("greedy", CHOICE)).outputs[0].text in CHOICE["choice"]


@pytest.mark.parametrize(
    "spec", [HUGE[0], *(pytest.param(spec, marks=pytest.mark.nightly) for spec in HUGE[1:])]
)
def test_a_huge_one_ends_with_a_sentence_or_a_note(spec):
    *_, last = decode(ask("greedy", spec, max_new_tokens=5))
    sentences = [str(last.error)] if isinstance(last, Failed) else last.trace.notes
    assert any("structured_outputs" in sentence for sentence in sentences)
    assert not any("\n" in sentence for sentence in sentences)
    assert finished(ask("greedy", CHOICE)).outputs[0].text in CHOICE["choice"]


@pytest.mark.parametrize(
    ("public", "most"), [(True, "max_public_grammar_s"), (False, "max_template_s")]
)
def test_a_public_space_gives_a_grammar_less_time(monkeypatch, public, most):
    settings = dataclasses.replace(structured_outputs.SETTINGS, public=public)
    monkeypatch.setattr(structured_outputs, "SETTINGS", settings)
    given = []

    def compile_late(spec, limit_s):
        given.append(limit_s)
        raise TimeoutError

    monkeypatch.setattr(structured_outputs, "compile_grammar", compile_late)
    with pytest.raises(ParameterError, match="takes longer than"):
        compile_structured_outputs({"regex": f"only for {json.dumps(public)}"})
    assert given == [getattr(settings, most)]
    assert settings.max_public_grammar_s < settings.max_template_s
