"""What the server tells in other languages: every sentence of an error, with any values in it.

The sentences are read off the code, ``tests/helpers/raised.py``; what finds their words here
says the same as ``visualizers/shared/server_text.mjs`` does in the page.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from engine.declare.config import LengthParams, NextTokenParams, SamplingParams
from engine.declare.params import build_config, params_of
from engine.declare.weights import parse_weights, weights_params
from engine.errors import EngineError, ModelError, ParameterError
from engine.loops.drafting.drafter import NAN_NOTE
from engine.models.files import missing_base_error
from engine.run.progress import format_progress
from engine.sources.lora_adapters import _UNSUPPORTED_FIELDS
from engine.strategies import STRATEGIES
from engine.strategies.compatibility import REQUIREMENTS
from engine.trace.checks import read_json_strict
from engine.trace.events import Checking, Loading, Progress, Waiting
from engine.trace.json_io import step_from_dict
from playground.i18n.languages import other_languages, server_catalogue
from playground.i18n.translate import PLACEHOLDER, Translator
from tests.helpers.raised import ROOT, Told, all_told, errors
from tests.npm import NODE

OTHERS = other_languages()
UNMET = {
    "engine/cli/": "a terminal shows them",
    "engine/analysis/gallery.py": "only the command line makes the gallery",
    "engine/export/push.py": "only the command line uploads",
    "engine/export/push_method.py": "only the command line uploads",
    "engine/export/hub_upload.py": "only the command line uploads",
}
"""Modules, or folders of them, whose sentences no visitor of the page meets, and why."""
MADE_OF = {
    "⟨0⟩ must be ⟨1⟩.": (
        "trace.seed must be a whole number.",
        "trace.steps[0].entropy must be a number.",
        "trace.prompt must be text.",
        "trace.whole must be true or false.",
    ),
    "the run was stopped after ⟨0⟩ of ⟨1⟩ ⟨2⟩.": (
        "the run was stopped after 3 of 20 tokens.",
        "the run was stopped after 3 of 200 runs.",
    ),
    "⟨0⟩the method called sys.exit(⟨1⟩).": (
        "the method called sys.exit(1).",
        "custom_generate/generate.py, line 4: the method called sys.exit(1).",
    ),
    "⟨0⟩the method needed more memory than the ⟨1⟩ GB that it may take beyond its model.": (
        "the method needed more memory than the 2 GB that it may take beyond its model.",
        "generate.py, line 4: the method needed more memory than the 2 GB that it may take beyond its model.",
    ),
    "method = ⟨0⟩ is not allowed: it must be one that comes along (⟨1⟩)⟨2⟩.": (
        "method = 'a' is not allowed: it must be one that comes along (b, c).",
        "method = 'a' is not allowed: it must be one that comes along (b, c) or one that is offered here (d).",
    ),
}
"""Sentences that have a word of ours for a value, and what they really are."""
HANDED_ON = {
    "engine/export/generation_config.py": ("The file is empty.",),
    "engine/lessons/answer_key.py": (
        "Card 2, bet: two of the things to order are equal.",
        "Card 2: step = 9 is not there, the run cold has 4.",
    ),
    "engine/sandbox/method_lookup.py": ("owner/name does not exist on the hub, or is private.",),
    "engine/sandbox/outcome.py": (
        "The method returned a list; it must return token ids, one row for each sequence.",
    ),
    "engine/models/meta_model.py": ("tiny has a damaged weights file: model.safetensors.",),
    "engine/models/hub_lookup.py": ("The hub answered 502 for owner/name; try again later.",),
    "engine/run/preflight.py": ("a.gguf cannot be converted: KeyError.",),
    "engine/run/preparation.py": (
        "tiny cannot be used with Early exit: its layers cannot be left early.",
        "tiny cannot be used as a draft with Speculative: its layers cannot be left early.",
    ),
    "playground/tabs/lessons.py": ("Card 2, bet: two of the things to order are equal.",),
    "playground/rooms/routes.py": (
        "The request is not valid JSON: Expecting value at line 1, column 1.",
        "The request is empty.",
    ),
}
"""Modules that hand on what was said elsewhere, with an example of it."""
ALSO = (
    "temperature = -1 is not allowed: it must be text.",
    "owner/name could not be merged: the file is damaged or was cut off.",
    "The plain run is left out: the run was stopped after 3 of 20 tokens.",
    "The list of metrics is missing: KeyError was raised.",
    "The queue is full: 1 run waits already. Try again later.",
)
_VALUE = re.compile(r"⟨\d+⟩")
_WORDS = re.compile(r"(?!`|python -m ).*[A-Za-z]{2}.* .*[A-Za-z]{2}", re.DOTALL)
"""More than a name, a unit or a command."""
_LETTERS = re.compile(r"[A-Za-z]{2}")


class Heard(Translator):
    """Says sentences as the page does; ``left`` keeps the parts with words that have none."""

    def __init__(self, language: str) -> None:
        super().__init__(server_catalogue(language))
        self.left: list[str] = []

    def translate_unknown(self, sentence: str, depth: int) -> str:
        whole = depth == 0 and _LETTERS.search(sentence)
        if whole or _WORDS.match(_VALUE.sub("", sentence)):
            self.left.append(sentence)
        return sentence


def met() -> list[Told]:
    return [place for place in all_told() if not place.path.startswith(tuple(UNMET))]


def test_the_sentences_of_the_code_are_found() -> None:
    places = met()
    assert len(places) > 500
    assert {"ParameterError", "TraceError", "RoomError", "MeasurementStopped"} <= errors()
    every = {sentence for place in places for sentence in place.sentences or ()}
    for known in (
        "The file is empty.",
        "it must be at most max_new_tokens = ⟨0⟩",
        "sampling returns several",
        "The queue is full: 1 run waits already. Try again later.",
        "The model has no safetensors weights; other formats are not loaded.",
    ):
        assert known in every, known


def test_every_module_that_is_left_has_sentences() -> None:
    paths = [place.path for place in all_told()]
    for unmet in UNMET:
        assert any(path.startswith(unmet) for path in paths), unmet


def test_what_code_cannot_tell_has_an_example() -> None:
    assert {place.path for place in met() if place.sentences is None} == set(HANDED_ON)
    every = {sentence for place in met() for sentence in place.sentences or ()}
    assert set(MADE_OF) <= every


@pytest.mark.nightly
@pytest.mark.parametrize("language", OTHERS)
def test_every_sentence_of_an_error_is_said(language: str) -> None:
    """And no word of ours is left in its values."""
    sayer, missing = Heard(language), []
    for place in met():
        for sentence in place.sentences or ():
            for one in MADE_OF.get(sentence, (sentence,)):
                sayer.left.clear()
                sayer.translate(one)
                if sayer.left:
                    missing.append(f"{place.path}:{place.line}: {one} (left: {sayer.left})")
    assert not missing, "\n".join(missing)


@pytest.mark.nightly
@pytest.mark.parametrize("language", OTHERS)
def test_what_is_handed_on_is_said(language: str) -> None:
    sentences = [*ALSO, *(one for some in HANDED_ON.values() for one in some)]
    sayer = Heard(language)
    missing = [sentence for sentence in sentences if sayer.translate(sentence) == sentence]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("language", OTHERS)
def test_the_page_says_the_same(language: str) -> None:
    sentences = [s for place in met() for s in place.sentences or ()]
    sentences += [
        *ALSO,
        *(one for some in HANDED_ON.values() for one in some),
        *server_catalogue(language),
    ]
    # The page takes sentences in a row apart, which is its own affair.
    single = sorted({sentence for sentence in sentences if not re.search(r"\. ", sentence)})
    module = (ROOT / "visualizers" / "shared" / "server_text.mjs").as_uri()
    code = (
        f'import {{ createTranslator }} from "{module}"; import {{ readFileSync }} from "node:fs";'
        'const [texts, all] = JSON.parse(readFileSync(0, "utf8"));'
        "console.log(JSON.stringify(all.map(createTranslator(texts))));"
    )
    answer = subprocess.run(
        [NODE, "--input-type=module", "-e", code],
        input=json.dumps([dict(server_catalogue(language)), single]),
        capture_output=True,
        text=True,
        check=True,
    )
    own = Translator(server_catalogue(language))
    page = dict(zip(single, json.loads(answer.stdout), strict=True))
    assert {s: said for s, said in page.items() if said != own.translate(s)} == {}
    assert sum(said != sentence for sentence, said in page.items()) > 500


@pytest.mark.parametrize("language", OTHERS)
def test_values_keep_their_names(language: str) -> None:
    for english, other in server_catalogue(language).items():
        names = PLACEHOLDER.findall(english)
        assert len(set(names)) == len(names), english
        assert set(names) == set(PLACEHOLDER.findall(other)), english
        assert other.strip(), english


@pytest.mark.parametrize("language", OTHERS)
def test_no_pattern_is_without_words(language: str) -> None:
    """It would match whatever is said, and take it to pieces."""
    for english in server_catalogue(language):
        assert len(re.findall(r"[^\W\d_]", PLACEHOLDER.sub("", english))) >= 2, english
        assert "}{" not in english, english


@pytest.mark.parametrize("language", OTHERS)
def test_no_pattern_takes_long_where_it_fails(language: str) -> None:
    for english in server_catalogue(language):
        assert len(PLACEHOLDER.findall(english)) <= 8, english


@pytest.mark.nightly
@pytest.mark.parametrize("language", OTHERS)
def test_every_range_of_a_parameter_is_said(language: str) -> None:
    sayer = Heard(language)
    kinds = [*weights_params(True).values()]
    kinds += [kind for s in STRATEGIES.values() for kind in params_of(s.config).values()]
    for kind in kinds:
        for rest in ("", ", or null for off"):
            sayer.left.clear()
            sayer.translate(f"it must be {kind.describe_range()}{rest}")
            # Names that may be chosen are values.
            assert not any(kind.describe_range() in left for left in sayer.left), kind


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
    assert Heard("de").translate(str(raised.value)) == german


@pytest.mark.parametrize(
    ("error", "german"),
    [
        (
            missing_base_error(
                "/a", "owner/b", "hf download owner/b brings it where the hub is reached"
            ),
            "/a ist ein LoRA-Adapter von 'owner/b', das nicht auf diesem Rechner ist: hf download owner/b bringt "
            'es, wo der Hub zu erreichen ist, oder nenne seine Basis, wie in "/a on BASE".',
        ),
        (
            ModelError("a: b does not exist on the hub, or is private."),
            "a: b gibt es auf dem Hub nicht, oder es ist privat.",
        ),
        (
            ParameterError("prompt", "9001 characters", "at most 8000 characters"),
            "prompt = '9001 Zeichen' ist nicht erlaubt: höchstens 8000 Zeichen.",
        ),
        (
            ParameterError("logits", "[", "it is not valid JSON; a whole number from 1 to 4"),
            "logits = '[' ist nicht erlaubt: it is not valid JSON; eine ganze Zahl von 1 bis 4.",
        ),
    ],
)
def test_what_was_made_is_german(error: EngineError, german: str) -> None:
    # The room that reads forms says what is no JSON.
    sayer = Heard("de")
    own = german.replace("it is not valid JSON", sayer.translate("it is not valid JSON"))
    assert sayer.translate(str(error)) == own


@pytest.mark.parametrize(
    ("event", "german"),
    [
        (Waiting(1, None), "Warten: 1 Lauf vor deinem"),
        (Waiting(3, 12.4), "Warten: 3 Läufe vor deinem, etwa 12 s"),
        (Loading("a/b"), "a/b wird geladen…"),
        (
            Loading("a/b", left_memory=("c", "d"), left_disk=("e",)),
            "a/b wird geladen; c und d haben im Speicher Platz gemacht, e auf der Festplatte…",
        ),
        (
            Loading("a/b", converting="openvino"),
            "a/b wird einmal für openvino umgewandelt…",
        ),
        (Loading("a/b", 12_000_000, 300_000_000), "a/b wird geholt: 12 von 300 MB…"),
        (
            Loading("a/b", 12_000_000, 300_000_000, 4e6, left_disk=("c",)),
            "a/b wird geholt: 12 von 300 MB, 4.0 MB/s, noch 72 s; c hat auf der Festplatte Platz gemacht…",
        ),
        (
            Checking(3, 20, "tokens against the target alone"),
            "Prüfung 3 von 20: Tokens gegen das Zielmodell allein",
        ),
    ],
)
def test_what_goes_on_is_german(event: Progress, german: str) -> None:
    assert Heard("de").translate(format_progress(event)) == german
