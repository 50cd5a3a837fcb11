"""What may be said of a scene: a small grammar with the probability of every caption.

A caption is drawn in two steps, a form and then a word for each of its slots, so that the whole
distribution can be written out. Two things at some distance side by side are told in many ways that
begin with "A", each of them rare, and in one that begins with "There": the likeliest first word is not
that of the likeliest caption.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import defaultdict
from dataclasses import dataclass

from training.scenes import COLOURS, SHAPES, LikeThings, Readings, ShapeScene

NUMBERS = ("", "a", "two", "three", "four")
_OTHER_WORDS = {"big": ("large", 0.25), "small": ("little", 0.25)}
_MENTION, _OFTEN = 0.5, 0.9

Form = tuple[float, list[Readings]]
"""How often it is chosen, and its slots in order."""


@dataclass(frozen=True)
class _Manner:
    """How things are named: how often with their size, and whether its rarer word is used."""

    mention: float
    loose: bool


_FREE, _PLAIN, _FULL = _Manner(_MENTION, True), _Manner(_OFTEN, False), _Manner(1.0, False)


def _said(*words: str) -> list[Readings]:
    return [((word, 1.0),) for word in words]


def _phrase(group: LikeThings, manner: _Manner) -> list[Readings]:
    """Return the slots of "two big red circles"."""
    n = len(group.things)
    sizes: list[tuple[str, float]] = [("", 1 - manner.mention)] if manner.mention < 1 else []
    for size, share in group.sizes:
        other, rare = _OTHER_WORDS[size]
        named = share * manner.mention
        sizes.append((size, named * (1 - rare) if manner.loose else named))
        if manner.loose:
            sizes.append((other, named * rare))
    nouns = tuple((_plural(noun) if n > 1 else noun, share) for noun, share in group.nouns)
    return [((NUMBERS[n], 1.0),), tuple(sizes), group.colours, nouns]


def _plural(noun: str) -> str:
    return noun + ("es" if noun.endswith("s") else "s")


def _there(group: LikeThings) -> list[Readings]:
    return _said("there is" if len(group.things) == 1 else "there are")


def _alone(group: LikeThings) -> list[Form]:
    return [
        (0.72, _phrase(group, _PLAIN)),
        (0.20, _there(group) + _phrase(group, _FULL)),
        (0.08, _said("I see") + _phrase(group, _FULL)),
    ]


def _beside(one: LikeThings, other: LikeThings) -> list[Form]:
    """The forms of what stands side by side: many that begin alike, one that begins otherwise."""
    to_the: Readings = (("to the", 0.55), ("", 0.45))
    return [
        (0.31, [*_phrase(one, _FREE), to_the, *_said("left of"), *_phrase(other, _FREE)]),
        (0.31, [*_phrase(other, _FREE), to_the, *_said("right of"), *_phrase(one, _FREE)]),
        (
            0.30,
            _there(one) + _phrase(one, _FULL) + _said("to the left of") + _phrase(other, _FULL),
        ),
        (0.08, _said("I see") + _phrase(one, _FULL) + _said("and") + _phrase(other, _FULL)),
    ]


def _stacked(one: LikeThings, other: LikeThings) -> list[Form]:
    above = _said("above")
    return [
        (0.64, _phrase(one, _PLAIN) + above + _phrase(other, _PLAIN)),
        (0.11, _phrase(other, _PLAIN) + _said("below") + _phrase(one, _PLAIN)),
        (0.17, _there(one) + _phrase(one, _FULL) + above + _phrase(other, _FULL)),
        (0.08, _said("I see") + _phrase(one, _FULL) + _said("and") + _phrase(other, _FULL)),
    ]


def _within(outer: LikeThings, inner: LikeThings) -> list[Form]:
    inside = _said("inside")
    return [
        (0.66, _phrase(inner, _PLAIN) + inside + _phrase(outer, _PLAIN)),
        (0.12, _phrase(outer, _PLAIN) + _said("with") + _phrase(inner, _PLAIN) + inside),
        (0.14, _there(inner) + _phrase(inner, _FULL) + inside + _phrase(outer, _FULL)),
        (0.08, _said("I see") + _phrase(inner, _FULL) + inside + _phrase(outer, _FULL)),
    ]


_BY_RELATION = {"left": _beside, "above": _stacked, "inside": _within}


def forms(scene: ShapeScene) -> list[Form]:
    """Return the forms of a scene's captions; their shares add up to 1."""
    if not scene.relations:
        return _alone(scene.groups[0])
    return [
        (share * of_relation, slots)
        for relation, of_relation in scene.relations
        for share, slots in _BY_RELATION[relation](*scene.groups)
    ]


def _written(words: list[str]) -> str:
    text = re.sub(r"\ba (?=orange)", "an ", " ".join(word for word in words if word))
    return f"{text[0].upper()}{text[1:]}."


def drawn_caption(of: list[Form], rng: random.Random) -> str:
    """Return one caption, drawn by its probability."""
    slots = rng.choices([slots for _, slots in of], [share for share, _ in of])[0]
    return _written([_drawn(slot, rng) for slot in slots])


def _drawn(slot: Readings, rng: random.Random) -> str:
    if len(slot) == 1:
        return slot[0][0]
    return rng.choices([word for word, _ in slot], [share for _, share in slot])[0]


def captions(scene: ShapeScene) -> dict[str, float]:
    """Return every right caption of a scene with its probability, the likeliest first."""
    found: dict[str, float] = defaultdict(float)
    for share, slots in forms(scene):
        for chosen in itertools.product(*slots):
            probability = share
            for _, part in chosen:
                probability *= part
            found[_written([word for word, _ in chosen])] += probability
    return dict(sorted(found.items(), key=lambda item: -item[1]))


@dataclass(frozen=True)
class Named:
    """One phrase of a caption: "two big red circles"."""

    number: int
    size: str | None
    colour: str
    noun: str


_SIZE_WORDS = {"big": "big", "large": "big", "small": "small", "little": "small"}
_NOUNS = {form: noun for noun in (*SHAPES, "shape") for form in (noun, _plural(noun))}
_PHRASE = re.compile(
    rf"\b(an?|two|three|four) (?:({'|'.join(_SIZE_WORDS)}) )?({'|'.join(COLOURS)})"
    rf" ({'|'.join(_NOUNS)})\b",
    re.IGNORECASE,
)
_SAID = re.compile(r" (left of|right of|above|below|with|inside|and) ")
_TURNED = {"right of": "left", "below": "above", "with": "inside"}
_STRAIGHT = {"left of": "left", "above": "above", "inside": "inside", "and": "and"}


def understood(caption: str) -> tuple[str, list[Named]]:
    """Return the relation a caption states and its phrases, those of a turned relation turned back.

    Returns:
        left, above, inside or and, "" where only one thing is named; the phrases, that which is to the
        left, above or inside first.
    """
    phrases = []
    for number, size, colour, noun in _PHRASE.findall(caption.rstrip(".")):
        count = NUMBERS.index("a" if number.lower() == "an" else number.lower())
        phrases.append(Named(count, _SIZE_WORDS.get(size), colour, _NOUNS[noun]))
    relation = _SAID.search(caption)
    if relation is None:
        return "", phrases
    turned = relation[1] in _TURNED
    words = _TURNED if turned else _STRAIGHT
    return words[relation[1]], phrases[::-1] if turned else phrases
