"""Scenes of coloured shapes with everything that may rightly be said of them; drawn, never photographed.

A scene is made from its seed alone. Seeds from ``HELD_OUT_FROM`` on are never trained on.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

SIDE = 96
PATCH = 16
FINER = 2
HELD_OUT_FROM = 1_000_000_000
SHAPES = ("circle", "square", "triangle", "star", "heart", "cross")
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (212, 36, 40),
    "orange": (245, 132, 24),
    "yellow": (248, 214, 40),
    "green": (40, 156, 72),
    "blue": (36, 92, 220),
    "purple": (124, 48, 172),
    "pink": (246, 136, 190),
    "black": (24, 24, 28),
}
SIZES = ("small", "big")
_NEXT_TO = (("red", "orange"), ("orange", "yellow"), ("red", "pink"), ("green", "blue"),
            ("blue", "purple"), ("purple", "pink"))  # fmt: skip
_RADII = {"small": (8.5, 11.5), "between": (13.2, 14.8), "big": (17.0, 22.0)}
_MANY = {"small": (8.5, 11.5), "between": (13.2, 14.8), "big": (17.0, 19.0)}
_OUTER, _INNER = (28.0, 35.0), (8.5, 10.5)
_HOLLOW = ("circle", "square", "triangle", "star", "heart")
_KINDS = {"one": 0.12, "count": 0.13, "pair": 0.45, "groups": 0.15, "inside": 0.15}
_CLEAR_ANGLE, _DIAGONAL = 18.0, (38.0, 52.0)
_TURN = 13.0
_REACH = 1.15
"""No shape of radius 1 reaches further from its centre."""

Readings = tuple[tuple[str, float], ...]
"""What something may be called, with the share of people who would."""


@dataclass(frozen=True)
class Thing:
    """One drawn shape: centre and radius in pixels, turn in degrees."""

    shape: str
    rgb: tuple[int, int, int]
    x: float
    y: float
    radius: float
    turn: float


@dataclass(frozen=True)
class LikeThings:
    """Things alike in shape, colour and size, and what each of these may be called."""

    things: tuple[Thing, ...]
    sizes: Readings
    colours: Readings
    nouns: Readings


@dataclass(frozen=True)
class ShapeScene:
    """Groups in order of drawing, relations between the first and the second, and the ground."""

    seed: int
    kind: str
    """one, count, pair, groups or inside."""
    groups: tuple[LikeThings, ...]
    relations: Readings
    """left or above: where the first group is to the second; inside: the second is inside the first."""
    ambiguous: str | None
    """size, colour, shape or relation where it has two readings."""
    ground: tuple[int, int, int]
    slope: tuple[float, float]
    """By how much the ground grows lighter from left to right and from top to bottom."""
    noise: float

    @property
    def things(self) -> list[Thing]:
        """All things in order of drawing."""
        return [thing for group in self.groups for thing in group.things]


class _Crowded(Exception):
    """The things drawn by lot do not fit."""


def scene(seed: int) -> ShapeScene:
    """Return the scene of a seed."""
    rng = random.Random(seed)
    while True:
        try:
            return _attempt(seed, rng)
        except _Crowded:
            continue


def _attempt(seed: int, rng: random.Random) -> ShapeScene:
    kind = _one_of(rng, _KINDS)
    ambiguous = _one_of(rng, _AMBIGUITIES[kind])
    groups, relations = _MAKERS[kind](rng, ambiguous)
    light = rng.uniform(205, 250)
    ground = tuple(round(min(255.0, light + rng.uniform(-8, 8))) for _ in range(3))
    sloping = rng.random() < 0.45
    slope = (rng.uniform(-30, 30), rng.uniform(-30, 30)) if sloping else (0.0, 0.0)
    noise = rng.uniform(1, 6) if rng.random() < 0.5 else 0.0
    reading = None if ambiguous == "none" else ambiguous
    return ShapeScene(seed, kind, tuple(groups), relations, reading, ground, slope, noise)  # pyright: ignore


_AMBIGUITIES = {
    "one": {"none": 0.7, "size": 0.15, "colour": 0.15},
    "count": {"none": 0.76, "size": 0.12, "colour": 0.12},
    "pair": {"none": 0.62, "size": 0.1, "colour": 0.1, "shape": 0.08, "relation": 0.1},
    "groups": {"none": 0.84, "size": 0.08, "colour": 0.08},
    "inside": {"none": 0.88, "colour": 0.12},
}


def _one_of(rng: random.Random, weights: dict[str, float]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]


@dataclass(frozen=True)
class _Look:
    """What the things of a group share."""

    shape: str
    rgb: tuple[int, int, int]
    size: str
    sizes: Readings
    colours: Readings
    nouns: Readings

    def thing(self, rng: random.Random, radius: float) -> Thing:
        return Thing(self.shape, self.rgb, 0.0, 0.0, radius, rng.uniform(-_TURN, _TURN))

    def group(self, things: list[Thing]) -> LikeThings:
        return LikeThings(tuple(things), self.sizes, self.colours, self.nouns)


def _look(rng: random.Random, ambiguous: str, size: str | None = None) -> _Look:
    shape, size = rng.choice(SHAPES), size or rng.choice(SIZES)
    colour = rng.choice(list(COLOURS))
    rgb, colours, sizes = COLOURS[colour], ((colour, 1.0),), ((size, 1.0),)
    nouns: Readings = ((shape, 1.0),)
    if ambiguous == "size":
        size, sizes = "between", (("small", 0.5), ("big", 0.5))
    if ambiguous == "colour":
        one, other = rng.choice(_NEXT_TO)
        t = rng.uniform(0.4, 0.6)
        rgb = tuple(  # pyright: ignore
            round(a + (b - a) * t) for a, b in zip(COLOURS[one], COLOURS[other], strict=True)
        )
        colours = ((one, round(1 - t, 3)), (other, round(t, 3)))
    if ambiguous == "shape":
        nouns = ((shape, 0.65), ("shape", 0.35))
    rgb = tuple(min(255, max(0, c + rng.randint(-9, 9))) for c in rgb)
    return _Look(shape, rgb, size, sizes, colours, nouns)  # pyright: ignore


def _two_looks(rng: random.Random, ambiguous: str, sizes: tuple[str | None, ...]) -> list[_Look]:
    """Return two looks that differ in shape or in every colour either may have; one is ambiguous."""
    chosen = rng.randrange(2) if ambiguous != "shape" else 0
    while True:
        looks = [_look(rng, ambiguous if i == chosen else "none", sizes[i]) for i in range(2)]
        one, other = ({name for name, _ in look.colours} for look in looks)
        if looks[0].shape != looks[1].shape or not one & other:
            return looks


def _placed(
    rng: random.Random, things: list[Thing], box: tuple[float, float, float, float]
) -> list[Thing]:
    """Return the things within a box (left, top, right, bottom), none touching another."""
    done: list[Thing] = []
    for thing in things:
        reach = thing.radius * _REACH + 1
        if box[2] - box[0] < 2 * reach or box[3] - box[1] < 2 * reach:
            raise _Crowded
        for _ in range(30):
            x = rng.uniform(box[0] + reach, box[2] - reach)
            y = rng.uniform(box[1] + reach, box[3] - reach)
            if all(
                math.hypot(x - o.x, y - o.y) > (thing.radius + o.radius) * _REACH + 2 for o in done
            ):
                break
        else:
            raise _Crowded
        done.append(Thing(thing.shape, thing.rgb, x, y, thing.radius, thing.turn))
    return done


def _several(rng: random.Random, look: _Look, n: int) -> list[Thing]:
    low, high = (_RADII if n == 1 else _MANY)[look.size]
    radius = rng.uniform(low, high)
    return [
        look.thing(rng, min(high, max(low, radius * rng.uniform(0.96, 1.04)))) for _ in range(n)
    ]


_Made = tuple[list[LikeThings], Readings]


def _one(rng: random.Random, ambiguous: str) -> _Made:
    look = _look(rng, ambiguous)
    return [look.group(_placed(rng, _several(rng, look, 1), (0, 0, SIDE, SIDE)))], ()


def _count(rng: random.Random, ambiguous: str) -> _Made:
    look = _look(rng, ambiguous)
    n = rng.choice((2, 2, 3, 3, 4))
    return [look.group(_placed(rng, _several(rng, look, n), (0, 0, SIDE, SIDE)))], ()


def _groups(rng: random.Random, ambiguous: str) -> _Made:
    """Two groups of three or four things in all, one group in each half of the picture."""
    numbers = rng.choice(((2, 1), (1, 2), (2, 2), (3, 1), (1, 3)))
    looks = _two_looks(rng, ambiguous, tuple("small" if n == 3 else None for n in numbers))
    relation = rng.choice(("left", "above"))
    cut = SIDE / 2 + rng.uniform(-2, 2)
    boxes = ((0, 0, cut, SIDE), (cut, 0, SIDE, SIDE))
    if relation == "above":
        boxes = ((0, 0, SIDE, cut), (0, cut, SIDE, SIDE))
    groups = [
        look.group(_placed(rng, _several(rng, look, n), box))
        for look, n, box in zip(looks, numbers, boxes, strict=True)
    ]
    return groups, ((relation, 1.0),)


def _pair(rng: random.Random, ambiguous: str) -> _Made:
    """Two things, the first to the left of the second or above it; a hidden shape lies below."""
    looks = _two_looks(rng, ambiguous, ("big" if ambiguous == "shape" else None, None))
    first, second = (_several(rng, look, 1)[0] for look in looks)
    relation = rng.choice(("left", "above"))
    angle = rng.uniform(-_CLEAR_ANGLE, _CLEAR_ANGLE) + (0 if relation == "left" else 90)
    relations: Readings = ((relation, 1.0),)
    if ambiguous == "relation":
        angle = rng.uniform(*_DIAGONAL)
        relations = (("left", 0.5), ("above", 0.5))
    touching = (first.radius + second.radius) * _REACH
    distance = touching + rng.uniform(2, 30)
    if ambiguous == "shape":
        distance = max(second.radius * 0.6, first.radius * rng.uniform(0.75, 1.0))
    dx, dy = (distance * f(math.radians(angle)) for f in (math.cos, math.sin))
    spans = []
    for step in (dx, dy):
        low = max(first.radius * _REACH, second.radius * _REACH - step) + 1
        high = SIDE - max(first.radius * _REACH, second.radius * _REACH + step) - 1
        if low > high:
            raise _Crowded
        spans.append(rng.uniform(low, high))
    placed = [
        Thing(t.shape, t.rgb, spans[0] + x, spans[1] + y, t.radius, t.turn)
        for t, x, y in ((first, 0, 0), (second, dx, dy))
    ]
    return [look.group([t]) for look, t in zip(looks, placed, strict=True)], relations


def _inside(rng: random.Random, ambiguous: str) -> _Made:
    """The second group, a small thing, lies in the middle of the first, a big one."""
    looks = _two_looks(rng, ambiguous, ("big", "small"))
    apart = math.dist(looks[0].rgb, looks[1].rgb)
    if looks[0].shape not in _HOLLOW or apart < 90:
        raise _Crowded
    radius = rng.uniform(*_OUTER)
    (outer,) = _placed(rng, [looks[0].thing(rng, radius)], (-2, -2, SIDE + 2, SIDE + 2))
    inner = looks[1].thing(rng, rng.uniform(*_INNER))
    x, y = (c + rng.uniform(-2, 2) for c in (outer.x, outer.y))
    inner = Thing(inner.shape, inner.rgb, x, y, inner.radius, inner.turn)
    return [looks[0].group([outer]), looks[1].group([inner])], (("inside", 1.0),)


_MAKERS = {
    "one": _one,
    "count": _count,
    "pair": _pair,
    "groups": _groups,
    "inside": _inside,
}


def _heart(n: int = 32) -> list[tuple[float, float]]:
    angles = [2 * math.pi * i / n for i in range(n)]
    return [
        (
            16 * math.sin(a) ** 3 / 16,
            -(13 * math.cos(a) - 5 * math.cos(2 * a) - 2 * math.cos(3 * a) - math.cos(4 * a)) / 16,
        )
        for a in angles
    ]


def _round(n: int, radii: tuple[float, ...], start: float = -90.0) -> list[tuple[float, float]]:
    angles = [math.radians(start + 360 * i / n) for i in range(n)]
    return [
        (radii[i % len(radii)] * math.cos(a), radii[i % len(radii)] * math.sin(a))
        for i, a in enumerate(angles)
    ]


_ARM = 0.36
_CORNERS = ((-_ARM, -1), (_ARM, -1), (_ARM, -_ARM), (1, -_ARM), (1, _ARM), (_ARM, _ARM),
            (_ARM, 1), (-_ARM, 1), (-_ARM, _ARM), (-1, _ARM), (-1, -_ARM), (-_ARM, -_ARM))  # fmt: skip
_OUTLINES: dict[str, list[tuple[float, float]]] = {
    "circle": _round(40, (1.0,)),
    "square": _round(4, (1.15,), 45.0),
    "triangle": _round(3, (1.15,)),
    "star": _round(10, (1.12, 0.47)),
    "heart": _heart(),
    "cross": list(_CORNERS),
}


def _outline(thing: Thing, scale: float) -> list[tuple[float, float]]:
    turn = math.radians(thing.turn)
    c, s = math.cos(turn) * thing.radius, math.sin(turn) * thing.radius
    return [
        ((thing.x + x * c - y * s) * scale, (thing.y + x * s + y * c) * scale)
        for x, y in _OUTLINES[thing.shape]
    ]


def drawn(of: ShapeScene) -> Image.Image:
    """Return the picture: RGB, ``SIDE`` pixels each way; the same for the same seed."""
    steps = np.linspace(-0.5, 0.5, SIDE)
    rise = steps[None, :] * of.slope[0] + steps[:, None] * of.slope[1]
    whole = np.clip(np.asarray(of.ground) + rise[..., None], 0, 255).round().astype(np.uint8)
    finer = Image.fromarray(whole.repeat(FINER, 0).repeat(FINER, 1))
    pen = ImageDraw.Draw(finer)
    for thing in of.things:
        pen.polygon(_outline(thing, FINER), fill=thing.rgb)
    image = finer.reduce(FINER)
    if not of.noise:
        return image
    grain = np.random.default_rng(of.seed).normal(0, of.noise, (SIDE, SIDE, 3))
    return Image.fromarray(np.clip(np.asarray(image) + grain, 0, 255).round().astype(np.uint8))


def owners(of: ShapeScene) -> np.ndarray:
    """Return (SIDE, SIDE): the number of the thing seen at each pixel, from 1; 0 is the ground."""
    mask = Image.new("L", (SIDE, SIDE))
    pen = ImageDraw.Draw(mask)
    for i, thing in enumerate(of.things, 1):
        pen.polygon(_outline(thing, 1), fill=i)
    return np.asarray(mask)
