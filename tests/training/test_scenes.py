"""Scenes and their captions: repeatable, and true of the pixels."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest

from training.captions import captions, drawn_caption, forms, understood
from training.scenes import COLOURS, HELD_OUT_FROM, SHAPES, SIDE, ShapeScene, drawn, owners, scene

SEEDS = [*range(150), *range(HELD_OUT_FROM, HELD_OUT_FROM + 50)]
SCENES = [scene(seed) for seed in SEEDS]
SMALLEST_BIG, LARGEST_SMALL = 17.0, 11.5


def group_of(of: ShapeScene, number: int) -> int:
    """Return the group of a thing, both counted from 0."""
    sizes = [len(group.things) for group in of.groups]
    return next(i for i in range(len(sizes)) if number < sum(sizes[: i + 1]))


def test_a_seed_is_a_scene():
    for seed in SEEDS[::10]:
        again = scene(seed)
        assert again == scene(seed)
        assert np.array_equal(np.asarray(drawn(again)), np.asarray(drawn(scene(seed))))
        assert captions(again) == captions(scene(seed))
    assert len({drawn(s).tobytes() for s in SCENES}) == len(SCENES)


def test_a_picture_is_small_and_coloured():
    for s in SCENES[:20]:
        image = drawn(s)
        assert (image.mode, image.size) == ("RGB", (SIDE, SIDE))


def test_every_kind_of_scene_and_every_ambiguity_comes_up():
    kinds = Counter(s.kind for s in SCENES)
    assert set(kinds) == {"one", "count", "pair", "groups", "inside"}
    assert min(kinds.values()) >= 10
    assert {s.ambiguous for s in SCENES} == {None, "size", "colour", "shape", "relation"}
    assert {t.shape for s in SCENES for t in s.things} == set(SHAPES)
    assert {c for s in SCENES for g in s.groups for c, _ in g.colours} == set(COLOURS)
    assert {len(s.things) for s in SCENES} == {1, 2, 3, 4}


def test_what_is_seen_at_a_centre_has_the_colour_it_is_called():
    checked = 0
    for s in SCENES:
        seen, image = owners(s), np.asarray(drawn(s)).astype(int)
        for number, thing in enumerate(s.things):
            x, y = round(thing.x), round(thing.y)
            if seen[y, x] != number + 1:  # another thing lies on it
                assert s.kind == "inside" or s.ambiguous == "shape"
                continue
            group = s.groups[group_of(s, number)]
            pixel = image[y - 1 : y + 2, x - 1 : x + 2].mean((0, 1))
            nearest = sorted(COLOURS, key=lambda c: math.dist(COLOURS[c], pixel))
            assert {c for c, _ in group.colours} <= set(nearest[: len(group.colours) + 1]), s.seed
            if len(group.colours) == 1:
                assert nearest[0] == group.colours[0][0], s.seed
            checked += 1
    assert checked > 300


def test_sizes_counts_and_relations_are_those_of_the_pixels():
    for s in SCENES:
        seen = owners(s)
        for number, thing in enumerate(s.things):
            sizes = {size for size, _ in s.groups[group_of(s, number)].sizes}
            big, small = thing.radius >= SMALLEST_BIG, thing.radius <= LARGEST_SMALL
            assert sizes == ({"big"} if big else {"small"} if small else {"small", "big"})
            assert (seen == number + 1).sum() > 60
        if len(s.groups) < 2:
            continue
        split = len(s.groups[0].things)
        first, second = (seen > 0) & (seen <= split), seen > split
        (y1, x1), (y2, x2) = (np.argwhere(mask).mean(0) for mask in (first, second))
        relations = {relation for relation, _ in s.relations}
        if s.kind != "inside":
            assert ("left" in relations) <= (x1 < x2), s.seed
            assert ("above" in relations) <= (y1 < y2), s.seed
        else:
            rows, columns = np.argwhere(second).T
            for y, x in zip(rows, columns, strict=True):
                assert first[y, :x].any(), s.seed
                assert first[y, x:].any(), s.seed


def test_captions_say_what_the_scene_holds():
    for s in SCENES:
        told = captions(s)
        assert sum(told.values()) == pytest.approx(1)
        assert list(told.values()) == sorted(told.values(), reverse=True)
        groups = list(s.groups)[:: -1 if s.kind == "inside" else 1]
        for caption in told:
            assert caption[0].isupper()
            assert caption.endswith(".")
            assert " a orange" not in caption.lower()
            relation, phrases = understood(caption)
            assert relation in ("" if len(groups) == 1 else "and", *dict(s.relations))
            for group, named in zip(groups, phrases, strict=True):
                assert named.number == len(group.things)
                assert named.colour in dict(group.colours)
                assert named.size is None or named.size in dict(group.sizes)
                assert named.noun in dict(group.nouns)


def test_understood_by_hand():
    relation, (one, other) = understood("An orange heart to the right of two little red crosses.")
    assert relation == "left"
    assert (one.number, one.size, one.colour, one.noun) == (2, "small", "red", "cross")
    assert (other.number, other.size, other.colour, other.noun) == (1, None, "orange", "heart")


def test_drawn_captions_come_as_often_as_they_are_likely():
    s = next(s for s in SCENES if s.kind == "pair" and dict(s.relations).keys() == {"above"})
    told, rng, n = captions(s), random.Random(0), 3000
    counts = Counter(drawn_caption(forms(s), rng) for _ in range(n))
    assert set(counts) <= set(told)
    for caption, probability in told.items():
        assert counts[caption] / n == pytest.approx(probability, abs=0.04)


def test_the_likeliest_first_word_is_not_always_that_of_the_likeliest_caption():
    garden_paths = 0
    for s in SCENES:
        told, first = captions(s), Counter()
        for caption, probability in told.items():
            first[caption.split()[0]] += probability
        garden_paths += first.most_common(1)[0][0] != next(iter(told)).split()[0]
    assert 0.05 < garden_paths / len(SCENES) < 0.4
