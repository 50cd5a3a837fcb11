"""Translation of the server's sentences, with the same rules as ``visualizers/shared/server_text.mjs``.

The main page translates in the browser. This is for pages built on the server, and finds
untranslated sentences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from playground.i18n import languages

PLACEHOLDER = re.compile(r"\{(\w+)\}")
_MAX_DEPTH = 3
_MAX_CHARS = 2000
_MIN_LETTERS = 4
"""Below this a pattern, as "{n} of {total}", would match anything, so its values must be numbers."""
_NUMBER_PATTERN = "([-−+\\d.,·⁻⁰¹²³⁴-⁹ ]+)"


class Translator:
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
            key=lambda english: -len(PLACEHOLDER.sub("", english)),
        )
        self.patterns = [(_compile_pattern(e), PLACEHOLDER.findall(e), texts[e]) for e in patterns]

    def translate(self, sentence: str, depth: int = 0) -> str:
        """Return the translation of a sentence, or the sentence itself if there is none."""
        if sentence in self.known:
            return self.known[sentence]
        if depth < _MAX_DEPTH and len(sentence) <= _MAX_CHARS:
            for pattern, names, other in self.patterns:
                if found := pattern.fullmatch(sentence):
                    parts = zip(names, found.groups(), strict=True)
                    values = {name: self.translate(part, depth + 1) for name, part in parts}
                    return PLACEHOLDER.sub(lambda match, own=values: own[match[1]], other)
        return self.translate_unknown(sentence, depth)

    def translate_unknown(self, sentence: str, depth: int) -> str:
        """Return the text for a sentence without a translation, nested ``depth`` values deep."""
        del depth
        return sentence


def _compile_pattern(english: str) -> re.Pattern[str]:
    letters = len(re.findall("[a-zA-Z]", PLACEHOLDER.sub("", english)))
    value = _NUMBER_PATTERN if letters < _MIN_LETTERS else "(.+?)"
    return re.compile(value.join(map(re.escape, re.split(r"\{\w+\}", english))), re.DOTALL)


@cache
def translator_for(language: str) -> Translator:
    """Return the translator for a language; English sentences stay unchanged."""
    return Translator(languages.server_catalogue(language))
