"""The page's words in other languages: none is missing, none is left over, and values keep their names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from playground.languages import chosen, others, texts

ROOT = Path(__file__).parents[1]
_CALL = re.compile(r'\btr\(\s*"((?:[^"\\]|\\.)*)"')
_ANY = re.compile(r"\btr\(\s*(?!\")\S")
_NAMED = re.compile(r"\{(\w+)\}")
OTHERS = others()
_NOTES = re.compile(r"/\*.*?\*/|(?<!\S)//[^\n]*", re.DOTALL)
_TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
_OF_MARKUP = re.compile(
    r'\b(?:class|className|d|style|viewBox|querySelector\w*|closest|matches|import|from|term)[:(]?\s*"[^"]*"'
)
_VALUE = re.compile(r"\$\{[^}]*\}")
_SENTENCE = re.compile(
    r"^(?!M\d|translate|rgb|var\(|calc|[.#\[]|[a-z]{2}-|.*(?:px|=>|aria-|dp-)).*[A-Za-z]{3,} [A-Za-z]{2,}"
)
UNTRANSLATED = {
    "tree.mjs": ("p em strong s ul ol", "math mrow mi mn", "noopener noreferrer"),
    "python.mjs": ("and as assert async", "True False None"),
    "method_edit.mjs": ("python -m engine method push",),
    "tab.mjs": ("Once upon a time,",),
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


@pytest.mark.parametrize("language", OTHERS)
def test_a_language_has_every_text_and_no_other(language: str) -> None:
    assert set(texts(language)) == asked()


@pytest.mark.parametrize("language", OTHERS)
def test_a_text_keeps_the_names_of_its_values_and_its_signs(language: str) -> None:
    for english, other in texts(language).items():
        assert set(_NAMED.findall(english)) == set(_NAMED.findall(other)), english
        assert other.strip(), english
        assert other.startswith(" ") == english.startswith(" "), english


@pytest.mark.parametrize("path", list(modules()), ids=lambda path: path.stem)
def test_no_sentence_of_a_script_is_in_one_language_only(path: Path) -> None:
    text = _CALL.sub("", _NOTES.sub("", path.read_text("utf-8")))
    found = {match[1] or match[2] for match in _TEXT.finditer(_OF_MARKUP.sub("", text))}
    sentences = {words for words in found if words and _SENTENCE.search(_VALUE.sub("", words))}
    others = UNTRANSLATED.get(path.name, ())
    assert not [words for words in sentences if not words.startswith(others or "\0")]


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
        ("", "fr,en;q=0.8,de;q=0.5", "en"),
        ("", "fr;q=0.9, de;q=0.7, en;q=0.2", "de"),
        ("", "fr,zh", "en"),
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
    assert chosen(query, accepted) == language


def test_a_language_that_is_not_there_has_no_texts() -> None:
    assert texts("xx") == {}
    assert texts("../gallery/index") == {}
    assert texts("en") == {}
