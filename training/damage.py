"""Damaged sentences for the seq2seq model: what a hurried typist makes of a story sentence."""

from __future__ import annotations

import random
import re

LONGEST, SHORTEST = 110, 12
_LOWER_SHARE = 0.85
_PUNCTUATION_LOSS = 0.8
_WORD_DAMAGE = 0.22
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_NEIGHBOURS = {
    key: around
    for row in ("qwertyuiop", "asdfghjkl", "zxcvbnm")
    for key, around in ((c, row[max(0, i - 1) : i] + row[i + 1 : i + 2]) for i, c in enumerate(row))
}
_SOUNDS = (("ee", "ea"), ("ea", "ee"), ("ie", "ei"), ("ck", "k"), ("ll", "l"), ("wh", "w"),
           ("th", "t"), ("ght", "t"), ("ou", "ow"), ("tion", "shun"), ("ph", "f"), ("ss", "s"))  # fmt: skip


def sentences(documents: list[str]) -> list[str]:
    """Return the sentences of a useful length, quotation marks straightened."""
    straight = str.maketrans("“”‘’", "\"\"''")
    found = (s.strip() for d in documents for s in _SENTENCE.split(d.translate(straight)))
    return [s for s in found if SHORTEST <= len(s) <= LONGEST and s.isascii()]


def damaged(sentence: str, rng: random.Random) -> str:
    """Return the sentence without most punctuation and capitals, about every fifth word misspelt."""
    words = [_misspelt(w, rng) if rng.random() < _WORD_DAMAGE else w for w in sentence.split()]
    text = " ".join(words)
    text = "".join(c for c in text if c not in ".,!?\"';:" or rng.random() > _PUNCTUATION_LOSS)
    return text.lower() if rng.random() < _LOWER_SHARE else text


def _misspelt(word: str, rng: random.Random) -> str:
    letters = [i for i, c in enumerate(word) if c.isalpha()]
    if len(letters) < 3:
        return word
    i = rng.choice(letters[1:-1] or letters)
    kind = rng.randrange(5)
    if kind == 0 and i + 1 < len(word):
        return word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    if kind == 1:
        return word[:i] + word[i + 1 :]
    if kind == 2:
        return word[:i] + word[i] + word[i:]
    if kind == 3:
        near = _NEIGHBOURS.get(word[i].lower(), word[i])
        return word[:i] + rng.choice(near) + word[i + 1 :]
    sounds = [(a, b) for a, b in _SOUNDS if a in word]
    return word.replace(*rng.choice(sounds), 1) if sounds else word[:i] + word[i + 1 :]
