"""The page is told what a model is, held as its form says."""

from __future__ import annotations

import pytest

from engine.declare.weights import WeightsParams
from engine.errors import EngineError
from engine.models import hub_lookup
from engine.run.preflight import preflight
from engine.sources.source import Source
from playground.inspect.questions import answer_question
from tests.helpers.seers import LANGUAGES, TASKS, listener, seer
from tests.helpers.sentences import clean

ASKED = {"action": "preflight", "strategy": "greedy", "model": "storyteller"}


def test_the_page_learns_what_the_engine_finds_for_the_weights_of_its_form():
    told = answer_question({**ASKED, "params": {"dtype": "bfloat16", "max_new_tokens": 5}})
    found = preflight(Source.parse("storyteller"), WeightsParams(dtype="bfloat16"))
    assert told == {
        "told": found.to_pairs(),
        "notes": [],
        "takes": [],
        "needs": None,
        "speech": None,
    }
    assert ("In memory", "24.1 MB as bfloat16") in told["told"]


def test_of_a_speech_model_the_page_learns_what_it_accepts(tmp_path):
    several = listener(tmp_path / "several", LANGUAGES, TASKS, times=True)
    told = answer_question({**ASKED, "model": several})
    assert (told["takes"], told["needs"]) == (["audio"], "audio")
    assert {name: sorted(told["speech"][name]) for name in ("languages", "tasks")} == {
        "languages": sorted(LANGUAGES),
        "tasks": list(TASKS),
    }
    assert told["speech"]["timestamps"] is True
    english = answer_question({**ASKED, "model": listener(tmp_path / "english", times=True)})
    assert english["speech"] == {"languages": (), "tasks": (), "timestamps": True, "seconds": 30}
    assert answer_question({**ASKED, "model": seer(tmp_path / "seer")})["speech"] is None


def test_of_a_model_that_a_form_names_only_what_is_here_is_shown(monkeypatch):
    monkeypatch.setattr(hub_lookup, "look_up_model", lambda *_: pytest.fail("the hub was asked"))
    assert answer_question({**ASKED, "here": True})["takes"] == []
    elsewhere = answer_question({**ASKED, "here": True, "model": "someone/elsewhere"})
    assert elsewhere == {"told": [], "notes": []}


@pytest.mark.parametrize(
    "odd", [{"model": 5}, {"model": ""}, {"params": [1]}, {"strategy": "none"}]
)
def test_what_is_no_question_is_one_sentence(odd):
    with pytest.raises(EngineError) as caught:
        answer_question({**ASKED, **odd})
    clean(str(caught.value), most=400)
