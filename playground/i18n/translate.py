"""Translation of the server's sentences, with the same rules as ``visualizers/shared/server_text.mjs``.

The main page translates in the browser. This is for pages built on the server, and finds
untranslated sentences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from playground.i18n import languages

NAMED = re.compile(r"\{(\w+)\}")
_DEEPEST = 3
_MOST = 2000
_FEWEST_LETTERS = 4
"""Below this a pattern, as "{n} of {total}", would match anything, so its values must be numbers."""
_NUMBER = "([-−+\\d.,·⁻⁰¹²³⁴-⁹ ]+)"


class Sayer:
    """Translates sentences to another language.

    Args:
        texts: English -> translation, with values as ``{name}``. Values that are sentences are
            translated, too.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.known = texts
        # The most specific pattern is tried first.
        patterns = sorted(
            (english for english in texts if "{" in english),
            key=lambda english: -len(NAMED.sub("", english)),
        )
        self.patterns = [(_pattern_of(e), NAMED.findall(e), texts[e]) for e in patterns]

    def said(self, sentence: str, depth: int = 0) -> str:
        """Return the translation of a sentence, or the sentence itself if there is none."""
        if sentence in self.known:
            return self.known[sentence]
        if depth < _DEEPEST and len(sentence) <= _MOST:
            for pattern, names, other in self.patterns:
                if found := pattern.fullmatch(sentence):
                    parts = zip(names, found.groups(), strict=True)
                    values = {name: self.said(part, depth + 1) for name, part in parts}
                    return NAMED.sub(lambda match, own=values: own[match[1]], other)
        return self.unknown(sentence, depth)

    def unknown(self, sentence: str, depth: int) -> str:
        """Return the text for a sentence without a translation, nested ``depth`` values deep."""
        del depth
        return sentence


def _pattern_of(english: str) -> re.Pattern[str]:
    letters = len(re.findall("[a-zA-Z]", NAMED.sub("", english)))
    value = _NUMBER if letters < _FEWEST_LETTERS else "(.+?)"
    return re.compile(value.join(map(re.escape, re.split(r"\{\w+\}", english))), re.DOTALL)


@cache
def sayer(language: str) -> Sayer:
    """Return the translator for a language; English sentences stay unchanged."""
    return Sayer(languages.told(language))
