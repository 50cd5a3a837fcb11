"""Translation of the server's sentences, with the same rules as ``visualizers/shared/server_text.mjs``.

The main page translates in the browser; this is for pages built on the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from engine.messages import Message, fill
from playground.i18n import languages


class Translator:
    """Translates sentences to another language.

    Args:
        texts: English template -> its translation.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts

    def translate(self, sentence: str) -> str:
        """Return the translation of a sentence, or the English where there is none."""
        if not isinstance(sentence, Message):
            return self.texts.get(sentence, sentence)
        values = {name: self.translate(value) for name, value in sentence.values.items()}
        return fill(self.texts.get(sentence.template, sentence.template), values)


@cache
def translator_for(language: str) -> Translator:
    """Return the translator for a language; English sentences stay unchanged."""
    return Translator(languages.server_catalogue(language))
