"""What the server tells, in the language of its reader, by the rule of ``visualizers/shared/said.mjs``.

The page says it itself; this is for pages without scripts of their own, and tells which sentences have words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from playground import languages

NAMED = re.compile(r"\{(\w+)\}")
_DEEPEST = 3
_MOST = 2000
_FEWEST_LETTERS = 4
"""A pattern with next to no words of its own, as "{n} of {total}", would take anything: it takes numbers."""
_NUMBER = "([-−+\\d.,·⁻⁰¹²³⁴-⁹ ]+)"


class Sayer:
    """Says sentences in another language.

    Args:
        texts: English -> the other, with values as ``{name}``; a value that is a sentence of its own is said, too.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.known = texts
        # What says more of itself is tried first.
        patterns = sorted(
            (english for english in texts if "{" in english),
            key=lambda english: -len(NAMED.sub("", english)),
        )
        self.patterns = [(_pattern_of(e), NAMED.findall(e), texts[e]) for e in patterns]

    def said(self, sentence: str, depth: int = 0) -> str:
        """Return a sentence in the language, as it came where the language does not have it."""
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
        """Return what is said for a sentence that the language does not have, ``depth`` values deep."""
        del depth
        return sentence


def _pattern_of(english: str) -> re.Pattern[str]:
    letters = len(re.findall("[a-zA-Z]", NAMED.sub("", english)))
    value = _NUMBER if letters < _FEWEST_LETTERS else "(.+?)"
    return re.compile(value.join(map(re.escape, re.split(r"\{\w+\}", english))), re.DOTALL)


@cache
def sayer(language: str) -> Sayer:
    """Return what says the server's sentences in a language; in English they stay as they are."""
    return Sayer(languages.told(language))
