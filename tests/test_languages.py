"""The page's words in other languages: none is missing, none is left over, and values keep their names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from playground.i18n.languages import (
    choose_language,
    client_catalogue,
    other_languages,
    server_catalogue,
    spec_catalogue,
)

ROOT = Path(__file__).parents[1]
_CALL = re.compile(r'\btr\(\s*"((?:[^"\\]|\\.)*)"')
_ANY = re.compile(r"\btr\(\s*(?!\")\S")
_NAMED = re.compile(r"\{(\w+)\}")
OTHERS = other_languages()
_NOTES = re.compile(r"/\*.*?\*/|(?<!\S)//[^\n]*", re.DOTALL)
_TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
_OF_MARKUP = re.compile(
    r'\b(?:class|className|d|style|viewBox|querySelector\w*|closest|matches|import|from|term)[:(]?\s*"[^"]*"'
)
_VALUE = re.compile(r"\$\{[^}]*\}")
_SENTENCE = re.compile(
    r"^(?!M\d|translate|rgb|var\(|calc|[.#\[]|[a-z]{2}-|.*(?:px|=>|aria-|dp-)).*[A-Za-z]{3,} [A-Za-z]{2,}"
)
_UNCLEAR = re.compile(
    r"\b(?:besides?|stands?|stood|told|tells?|held|dear|comes? along|of its own|anew|of it|whoever"
    r"|the surest first|(?:texts|runs|two|they) part|part at)\b",
    re.IGNORECASE,
)
"""Words that a reader stumbles over, see "Words on the page" in CONTRIBUTING.md."""
UNTRANSLATED = {
    "markdown.mjs": ("p em strong s ul ol", "math mrow mi mn", "noopener noreferrer"),
    "python_highlighter.mjs": ("and as assert async", "True False None"),
    "strategy_tab.mjs": ("Once upon a time,",),
}
"""How what looks like a sentence of the page and is none begins, by script."""


def modules() -> Iterator[Path]:
    for folder in ("playground/client", "visualizers"):
        yield from sorted((ROOT / folder).rglob("*.mjs"))


def asked() -> set[str]:
    found = (match[1] for path in modules() for match in _CALL.finditer(path.read_text("utf-8")))
    return {json.loads(f'"{text}"') for text in found}


def test_german_is_there() -> None:
    assert "de" in OTHERS
    assert len(asked()) > 40


@pytest.mark.nightly
def test_a_language_has_every_text_and_no_other() -> None:
    wanted = asked()
    found = [
        f"{one}: lacks {text!r}" for one in OTHERS for text in wanted - {*client_catalogue(one)}
    ]
    found += [
        f"{one}: {text!r} is not used"
        for one in OTHERS
        for text in {*client_catalogue(one)} - wanted
    ]
    assert not found, "\n".join(found)


def changed_by(english: str, other: str) -> Iterator[str]:
    """Yield what a translation changes that it must keep."""
    if set(_NAMED.findall(english)) != set(_NAMED.findall(other)):
        yield "has other values"
    if not other.strip():
        yield "is empty"
    if other.startswith(" ") != english.startswith(" "):
        yield "begins with another space"


def test_a_text_keeps_the_names_of_its_values_and_its_signs() -> None:
    found = [
        f"{language}: {english!r} {what}"
        for language in OTHERS
        for english, other in client_catalogue(language).items()
        for what in changed_by(english, other)
    ]
    assert not found, "\n".join(found)


def unclear(texts: Iterable[str]) -> list[str]:
    """Return the texts with a word that has a plainer one; names of values are no words."""
    return sorted(text for text in texts if _UNCLEAR.search(_NAMED.sub("", text)))


def test_no_text_of_the_page_has_a_word_that_readers_stumble_over() -> None:
    texts = {*asked(), *server_catalogue("de"), *spec_catalogue("de")}
    assert len(texts) > 3000
    assert not unclear(texts)


def test_an_unclear_word_is_found_and_the_name_of_a_value_is_none() -> None:
    said = [
        "It stands beside it.",
        "The texts part here.",
        "Right: {told}",
        "The part of a picture",
    ]
    assert unclear(said) == said[:2]


def untranslated(path: Path) -> list[str]:
    """Return the sentences of a script that no language but English has."""
    text = _CALL.sub("", _NOTES.sub("", path.read_text("utf-8")))
    found = {match[1] or match[2] for match in _TEXT.finditer(_OF_MARKUP.sub("", text))}
    sentences = {words for words in found if words and _SENTENCE.search(_VALUE.sub("", words))}
    allowed = UNTRANSLATED.get(path.name, ())
    return sorted(words for words in sentences if not words.startswith(allowed or "\0"))


def test_no_sentence_of_a_script_is_in_one_language_only() -> None:
    found = [f"{path.name}: {words!r}" for path in modules() for words in untranslated(path)]
    assert not found, "\n".join(found)


def test_a_sentence_without_a_translation_is_found(tmp_path: Path) -> None:
    script = tmp_path / "view.mjs"
    script.write_text('show("You see the draft here."); show(tr("You see the run."));\n')
    assert untranslated(script) == ["You see the draft here."]


def test_every_text_is_written_where_it_is_used() -> None:
    """A text that is put together elsewhere could not be looked for."""
    for path in modules():
        if path.name != "tr.mjs":
            assert not _ANY.search(path.read_text("utf-8")), path


@pytest.mark.parametrize(
    ("query", "accepted", "language"),
    [
        ("", "", "en"),
        ("", "de", "de"),
        ("", "de-CH,de;q=0.9,en;q=0.8", "de"),
        ("", "xx,en;q=0.8,de;q=0.5", "en"),
        ("", "xx;q=0.9, de;q=0.7, en;q=0.2", "de"),
        ("", "xx,yy", "en"),
        ("", "de;q=0,en", "en"),
        ("", "de;q=rubbish,en;q=0.1", "en"),
        ("", "x" * 10_000, "en"),
        ("lang=de", "en", "de"),
        ("lang=en&tab=greedy", "de", "en"),
        ("lang=xx", "de", "de"),
        ("lang=../../secret", "", "en"),
        ("lang=DE", "", "de"),
    ],
)
def test_the_address_chooses_before_the_browser(query: str, accepted: str, language: str) -> None:
    assert choose_language(query, accepted) == language


def test_a_language_that_is_not_there_has_no_texts() -> None:
    assert client_catalogue("xx") == {}
    assert client_catalogue("../gallery/index") == {}
    assert client_catalogue("en") == {}
