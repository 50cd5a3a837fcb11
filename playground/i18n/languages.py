"""The page's languages: choosing one for a visitor, and the translation catalogues.

A language is a folder of ``assets/text``, such as ``de``. Its files map the English text in the code
to the translation; a text, or a whole file, that it lacks stays English.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from html import escape
from pathlib import Path
from urllib.parse import parse_qs

from visualizers.page import to_script_json

FOLDER = Path(__file__).resolve().parents[2] / "assets" / "text"
ENGLISH = "en"
QUERY_PARAMETER = "lang"


@cache
def all_languages() -> tuple[str, ...]:
    """Return the codes of all languages, English first."""
    return (ENGLISH, *sorted(path.name for path in FOLDER.glob("[a-z][a-z]") if path.is_dir()))


def other_languages() -> tuple[str, ...]:
    """Return the codes of all languages except English."""
    return all_languages()[1:]


@cache
def _read_catalogue(language: str, name: str) -> Mapping[str, str]:
    path = FOLDER / language / name
    there = language in other_languages() and path.exists()
    return json.loads(path.read_text("utf-8")) if there else {}


def client_catalogue(language: str) -> Mapping[str, str]:
    """Return the catalogue of the page's scripts (English -> translation); empty for English."""
    return _read_catalogue(language, "page.json")


def server_catalogue(language: str) -> Mapping[str, str]:
    """Return the catalogue of the server's sentences, values as ``{name}``; empty for English."""
    return _read_catalogue(language, "messages.json")


def spec_catalogue(language: str) -> Mapping[str, str]:
    """Return the catalogue for ``playground.i18n.translate_spec``; empty for English."""
    return _read_catalogue(language, "declared.json")


def catalogue_elements(language: str, is_met: Callable[[str], bool] = bool) -> str:
    """Return HTML elements with the catalogues of scripts and server sentences, as JSON.

    Args:
        language: the page's language.
        is_met: returns whether the page may need an English text.
    """
    parts = []
    for place, words in (
        ("dp-texts", client_catalogue(language)),
        ("dp-told", server_catalogue(language)),
    ):
        met = {text: other for text, other in words.items() if is_met(text)}
        inside = to_script_json(met, ensure_ascii=False)
        parts.append(
            f'<script type="application/json" id="{place}" lang="{escape(language)}">{inside}</script>'
        )
    return "".join(parts)


def choose_language(query: str, accepted: str) -> str:
    """Return the language code of a page: from its address, else from the browser, else English.

    Args:
        query: the address's query string.
        accepted: the Accept-Language header, as in ``de-CH,de;q=0.9,en;q=0.8``.
    """
    requested = parse_qs(query).get(QUERY_PARAMETER, [""])[0][:2].lower()
    if requested in all_languages():
        return requested
    weighed = []
    # Clients choose this header, so its length is bounded.
    for part in accepted[:200].split(","):
        name, _, quality = part.strip().partition(";q=")
        weighed.append((_parse_quality(quality), name[:2].lower()))
    # The sort is stable: equal weights keep the order of the header.
    weighed.sort(key=lambda one: -one[0])
    return next(
        (name for weight, name in weighed if weight > 0 and name in all_languages()), ENGLISH
    )


def _parse_quality(text: str) -> float:
    try:
        return float(text or 1)
    except ValueError:
        return 0.0
