"""The languages of the page: which one a visitor reads, and its words.

The English words stand where they are used and are the names of the others: ``assets/text/de.json`` has the
German ones, English -> German, and a test finds those that are missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from html import escape
from pathlib import Path
from urllib.parse import parse_qs

from visualizers.page import as_data

FOLDER = Path(__file__).resolve().parents[1] / "assets" / "text"
ENGLISH = "en"
PARAMETER = "lang"


@cache
def languages() -> tuple[str, ...]:
    """Return what the page can be read in, English first."""
    return (ENGLISH, *sorted(path.stem for path in FOLDER.glob("*.json")))


def others() -> tuple[str, ...]:
    """Return the same without English."""
    return languages()[1:]


@cache
def _words(folder: str, language: str) -> Mapping[str, str]:
    path = FOLDER / folder / f"{language}.json"
    return json.loads(path.read_text("utf-8")) if language in others() else {}


def texts(language: str) -> Mapping[str, str]:
    """Return English -> the same in a language for what scripts say; nothing for English."""
    return _words("", language)


def told(language: str) -> Mapping[str, str]:
    """Return English -> the same for what the server tells, with values as ``{name}``."""
    return _words("told", language)


def declared(language: str) -> Mapping[str, str]:
    """Return English -> the same for what Python declares for the page, see ``playground.translated``."""
    return _words("declared", language)


def data(language: str, is_met: Callable[[str], bool] = bool) -> str:
    """Return the elements of a page in which its scripts find its words.

    Args:
        language: of the page.
        is_met: tells of an English text whether the page may need it.
    """
    parts = []
    for place, words in (("dp-texts", texts(language)), ("dp-told", told(language))):
        met = {text: other for text, other in words.items() if is_met(text)}
        inside = as_data(met, ensure_ascii=False)
        parts.append(
            f'<script type="application/json" id="{place}" lang="{escape(language)}">{inside}</script>'
        )
    return "".join(parts)


def chosen(query: str, accepted: str) -> str:
    """Return the language of a page.

    Args:
        query: of its address, which may say one.
        accepted: what the browser asks for, as in ``de-CH,de;q=0.9,en;q=0.8``.
    """
    asked = parse_qs(query).get(PARAMETER, [""])[0][:2].lower()
    if asked in languages():
        return asked
    weighed = []
    for part in accepted[:200].split(","):
        name, _, quality = part.strip().partition(";q=")
        weighed.append((_number(quality), name[:2].lower()))
    # What is wanted alike comes in the order in which it is named.
    weighed.sort(key=lambda one: -one[0])
    return next((name for weight, name in weighed if weight > 0 and name in languages()), ENGLISH)


def _number(text: str) -> float:
    try:
        return float(text or 1)
    except ValueError:
        return 0.0
