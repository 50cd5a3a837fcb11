"""The server's sentences in other languages: their templates, their values, and what the page makes of them."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from engine.declare.params import build_config
from engine.declare.weights import parse_weights
from engine.errors import EngineError, ModelError, ParameterError
from engine.loops.drafting.drafter import NAN_NOTE
from engine.messages import (
    PLACEHOLDER,
    Message,
    add_templates,
    collect_templates,
    join_messages,
    restore_templates,
)
from engine.run.progress import format_progress
from engine.sources.lora_adapters import _UNSUPPORTED_FIELDS
from engine.sources.source import Adapter, Folder, Hub
from engine.strategies.compatibility import REQUIREMENTS
from engine.strategies.shared_params import LengthParams, NextTokenParams, SamplingParams
from engine.trace.checks import read_json_strict
from engine.trace.events import Checking, Loading, Paused, Progress, Waiting
from engine.trace.json_io import step_from_dict
from playground.i18n import coverage
from playground.i18n.languages import other_languages, server_catalogue
from playground.i18n.translate import Translator, translator_for
from playground.jobs.progress import DECODING, STARTING
from tests.npm import NODE

OTHERS = other_languages()
NESTED = Message(
    "{parameter} = {got} is not allowed: {allowed}.",
    parameter="seed",
    got=1.5,
    allowed=Message("it must be {range}", range=Message("a number from {low}", low=0)),
)


def test_a_message_is_its_sentence() -> None:
    assert NESTED == "seed = 1.5 is not allowed: it must be a number from 0."
    assert str(NESTED) is NESTED
    assert f"{NESTED}" == NESTED
    assert Message("{a} only", a=1, b=2).values == {"a": "1"}


@pytest.mark.parametrize("move", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_message_keeps_its_template_when_it_is_moved(move: Callable[[Any], Any]) -> None:
    moved = move(NESTED)
    assert moved.template == NESTED.template
    assert moved.values["allowed"].template == "it must be {range}"


def test_an_error_keeps_the_template() -> None:
    error = ModelError("{name} is not here.", name="a{b}c")
    assert str(error) == "a{b}c is not here."
    assert str(error).template == "{name} is not here."
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is ModelError
    assert str(again).template == "{name} is not here."


def test_templates_travel_with_a_document() -> None:
    document = {"notes": [NESTED, "plain"], "n": 1}
    sent = json.loads(json.dumps(add_templates(document)))
    assert sent["notes"] == [str.__str__(NESTED), "plain"]
    found = restore_templates(sent)
    assert found == document
    assert found["notes"][0].values["allowed"].values["range"].template == "a number from {low}"
    assert collect_templates(found) == sent["templates"]


def test_the_order_of_templates_does_not_matter() -> None:
    inner = Message("{n} files", n=2)
    document = {"a": inner, "b": Message("{what}.", what=inner)}
    sent = add_templates(document)
    for templates in (sent["templates"], dict(reversed(sent["templates"].items()))):
        found = restore_templates({**sent, "templates": templates})
        assert found["b"].values["what"].template == "{n} files"


def test_a_document_without_messages_stays_as_it_is() -> None:
    assert add_templates({"a": ["b"]}) == {"a": ["b"]}
    with pytest.raises(ValueError, match="templates is the field"):
        add_templates({"templates": []})


@pytest.mark.parametrize(
    "entry",
    [
        {"template": "something else", "values": {}},
        {"template": "{a}" * 1000, "values": {"a": "x" * 1000}},
        {"template": "{a}", "values": {"a": 7}},
        {"template": "plain", "values": {"unused": "more"}},
        {"template": 7, "values": {}},
        ["{a}", {"a": "plain"}],
        None,
    ],
)
def test_a_template_that_does_not_give_its_sentence_is_ignored(entry: Any) -> None:
    found = restore_templates({"note": "plain", "templates": {"plain": entry}})
    assert found == {"note": "plain"}
    assert type(found["note"]) is str


def test_messages_are_restored_within_one_another_a_few_levels_deep() -> None:
    # Each sentence contains the one after it.
    entries = {
        "x" * (n + 1): {"template": "x{a}", "values": {"a": "x" * n}} for n in range(2000, 0, -1)
    }
    sentences = ["x" * n for n in range(1, 2002)]
    found = restore_templates({"notes": sentences, "templates": entries})["notes"]
    assert found == sentences
    deepest = max(len(collect_templates(one)) for one in found)
    assert 1 < deepest <= 8


def test_joined_messages_are_translated_one_by_one() -> None:
    both = join_messages([Message("{n} files", n=2), "", "No more."])
    assert both == "2 files No more."
    german = Translator({"{n} files": "{n} Dateien", "No more.": "Mehr nicht."})
    assert german.translate(both) == "2 Dateien Mehr nicht."
    assert join_messages(["", "One."]) == "One."


def test_templates_are_found_in_the_code() -> None:
    templates = coverage.message_templates()
    assert len(templates) > 500
    for known in (
        "The file is empty.",
        "The queue is full: {wait} already. Try again later.",
        "{parameter} = {got} is not allowed: {allowed}.",
        # What is allowed, a template by its name, and one of two.
        "it must be text",
        "All {count} tokens in {wanted} sequences are equal.",
        "it must be {range}, or null for off",
    ):
        assert known in templates, known
    assert all(any(p.startswith(n) for p in coverage._modules()) for n in coverage.NOT_ON_PAGE)


def test_a_missing_and_a_left_over_text_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage.languages, "server_catalogue", lambda language: {"Gone.": "Weg."})
    gaps = {gap.text for gap in coverage.find_gaps("de")}
    assert "The file is empty." in gaps
    assert "Gone." in {gap.text for gap in coverage.find_unused("de")}


@pytest.mark.nightly
@pytest.mark.parametrize("language", OTHERS)
def test_a_language_lacks_nothing(language: str) -> None:
    assert coverage.find_gaps(language) == []
    assert coverage.find_unused(language) == []


@pytest.mark.parametrize("language", OTHERS)
def test_the_page_translates_like_the_server(language: str) -> None:
    known = server_catalogue(language)
    messages = [
        Message(english, **{name: f"<{name}>" for name in PLACEHOLDER.findall(english)})
        for english in known
    ]
    messages += [NESTED, Message("{unknown} thing", unknown=Message("{n} files", n=2))]
    document = add_templates({"messages": messages})
    code = (
        f'import {{ addTemplates, createTranslator }} from "{_SCRIPT}";'
        'import { readFileSync } from "node:fs";'
        'const [texts, { messages, templates }] = JSON.parse(readFileSync(0, "utf8"));'
        "addTemplates(templates);"
        "console.log(JSON.stringify(messages.map(createTranslator(texts))));"
    )
    answer = subprocess.run(
        [NODE, "--input-type=module", "-e", code],
        input=json.dumps([dict(known), document]),
        capture_output=True,
        text=True,
        check=True,
    )
    own = translator_for(language)
    assert json.loads(answer.stdout) == [own.translate(message) for message in messages]
    assert sum(own.translate(message) != message for message in messages) > 500


_SCRIPT = (coverage.ROOT / "visualizers" / "shared" / "server_text.mjs").as_uri()


@pytest.mark.parametrize("language", OTHERS)
def test_values_keep_their_names(language: str) -> None:
    for english, other in server_catalogue(language).items():
        names = PLACEHOLDER.findall(english)
        assert len(set(names)) == len(names), english
        assert set(names) == set(PLACEHOLDER.findall(other)), english
        assert other.strip(), english


@pytest.mark.nightly
@pytest.mark.parametrize("language", OTHERS)
def test_every_reason_is_said(language: str) -> None:
    for reason in (
        *(why for _, why in REQUIREMENTS.values()),
        *_UNSUPPORTED_FIELDS.values(),
        NAN_NOTE,
    ):
        assert server_catalogue(language).get(reason), reason


@pytest.mark.parametrize(
    ("act", "german"),
    [
        (
            lambda: build_config(SamplingParams, {"temperature": -1}, "sampling"),
            "temperature = -1 ist nicht erlaubt: möglich ist eine Zahl von 0.001 bis 100.",
        ),
        (
            lambda: build_config(SamplingParams, {"top_p": 0}, "sampling"),
            "top_p = 0 ist nicht erlaubt: möglich ist eine Zahl über 0, höchstens 1.",
        ),
        (
            lambda: build_config(SamplingParams, {"min_p": "a; b"}, "sampling"),
            "min_p = 'a; b' ist nicht erlaubt: möglich ist eine Zahl von 0 bis 1, oder null für aus.",
        ),
        (
            lambda: build_config(SamplingParams, {"temperatur": 1}, "sampling"),
            "temperatur = 1 ist nicht erlaubt: sampling hat keinen solchen Parameter; meintest du temperature.",
        ),
        (
            lambda: build_config(
                LengthParams, {"max_new_tokens": 4, "min_new_tokens": 5}, "greedy"
            ),
            "min_new_tokens = 5 ist nicht erlaubt: höchstens max_new_tokens = 4 ist erlaubt.",
        ),
        (
            lambda: build_config(NextTokenParams, {"stop_strings": 7}, "greedy"),
            "stop_strings = 7 ist nicht erlaubt: möglich ist eine Liste von bis zu 8 Texten mit 1 bis 64 Zeichen, "
            "oder null für aus.",
        ),
        (
            lambda: parse_weights({"dtype": "int8"}, "greedy", False),
            "dtype = 'int8' ist nicht erlaubt: möglich ist eins von float32, bfloat16, float16, oder null für aus.",
        ),
        (
            lambda: parse_weights({"max_memory": {"cpu": "1GB"}}, "greedy", False),
            "max_memory = {'cpu': '1GB'} ist nicht erlaubt: es braucht device_map = auto.",
        ),
        (lambda: read_json_strict(b" ", 10), "Die Datei ist leer."),
        (
            lambda: read_json_strict(b'{"a": 1, "a": 2}', 100),
            "Der Schlüssel 'a' kommt in einem Objekt doppelt vor.",
        ),
        (
            lambda: read_json_strict(b"[", 10),
            "Die Datei ist kein gültiges JSON: ein Wert fehlt in Zeile 1, Spalte 2.",
        ),
        (lambda: step_from_dict({"index": "x"}), "step fehlt das Feld 'keep'."),
    ],
)
def test_what_is_raised_is_german_from_end_to_end(act: Callable[[], Any], german: str) -> None:
    with pytest.raises(EngineError) as raised:
        act()
    assert translator_for("de").translate(str(raised.value)) == german


@pytest.mark.parametrize(
    ("error", "german"),
    [
        (
            Adapter("/a", Folder("/a")).missing_base_error(
                "owner/b", Hub("owner/b").download_hint()
            ),
            "/a ist ein LoRA-Adapter von 'owner/b', das nicht auf diesem Rechner ist: hf download owner/b bringt "
            'es, wo der Hub zu erreichen ist, oder nenne seine Basis, wie in "/a on BASE".',
        ),
        (
            ModelError("{name} does not exist on the hub, or is private.", name="a: b"),
            "a: b gibt es auf dem Hub nicht, oder es ist privat.",
        ),
        (
            ParameterError(
                "prompt",
                Message("{n} characters", n=9001),
                Message("at most {n} characters", n=8000),
            ),
            "prompt = '9001 Zeichen' ist nicht erlaubt: höchstens 8000 Zeichen.",
        ),
        (
            ParameterError(
                "top_k", "[", Message("a whole number from {low} to {high}", low=1, high=4)
            ),
            "top_k = '[' ist nicht erlaubt: eine ganze Zahl von 1 bis 4.",
        ),
    ],
)
def test_what_was_made_is_german(error: EngineError, german: str) -> None:
    assert translator_for("de").translate(str(error)) == german


@pytest.mark.parametrize(
    ("event", "german"),
    [
        (Waiting(1, None), "Warten: 1 Lauf vor deinem"),
        (Waiting(3, 12.4), "Warten: 3 Läufe vor deinem, etwa 12 s"),
        (
            Paused(1, 2.6),
            "Pause, während jemand anderes an der Reihe ist. Dein Lauf geht in etwa 3 s weiter…",
        ),
        (Loading("a/b"), "a/b wird geladen…"),
        (
            Loading("a/b", left_memory=("c", "d"), left_disk=("e",)),
            "a/b wird geladen; aus dem Speicher entfernt: c und d; von der Festplatte entfernt: e…",
        ),
        (
            Loading("a/b", converting="openvino"),
            "a/b wird einmal für openvino umgewandelt…",
        ),
        (Loading("a/b", 12_000_000, 300_000_000), "a/b wird geholt: 12 von 300 MB…"),
        (
            Loading("a/b", 12_000_000, 300_000_000, 4e6, left_disk=("c",)),
            "a/b wird geholt: 12 von 300 MB, 4.0 MB/s, noch 72 s; von der Festplatte entfernt: c…",
        ),
        (
            Checking(3, 20, "tokens against the main model alone"),
            "Prüfung 3 von 20: Tokens gegen das Hauptmodell allein",
        ),
    ],
)
def test_progress_is_german(event: Progress, german: str) -> None:
    assert translator_for("de").translate(format_progress(event)) == german


@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("phase", [STARTING, DECODING], ids=lambda phase: phase["phase"])
def test_the_start_of_a_run_is_translated(phase: dict[str, str], language: str) -> None:
    assert translator_for(language).translate(phase["says"]) != phase["says"]
