"""A part of the programme: what it measures, which goals its figures have, and what a reader is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.about import Goal


@dataclass(frozen=True)
class Measured:
    """What a part found.

    Attributes:
        n: how many of what it counts were tried.
        figures: numbers by their names; a unit is in the name.
        examples: a few sentences about what went wrong.
    """

    n: int
    figures: Mapping[str, Any]
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """One part of the programme.

    Attributes:
        name: what it is asked for by.
        title: one line for readers, with what its ``n`` counts.
        goals: by the names of figures.
        measure: given ``n`` and a seed.
        short: ``n`` of the short form.
        nightly: that of the long one.
        short_s: seconds after which the short form is ended from outside.
        nightly_s: the same of the long one.
    """

    name: str
    title: str
    goals: Mapping[str, Goal]
    measure: Callable[[int, int], Measured]
    short: int
    nightly: int
    short_s: float = 900.0
    nightly_s: float = 7200.0

    def judged(self, found: Measured, seconds: float) -> dict[str, Any]:
        """Return the part's JSON line, but for what is known of the machine and the code."""
        missed = [
            name for name, goal in self.goals.items() if not goal.met(found.figures.get(name))
        ]
        slow = [name for name in missed if self.goals[name].of_speed]
        return {
            "part": self.name,
            "title": self.title,
            "n": found.n,
            "figures": dict(found.figures),
            "goals": {name: str(goal) for name, goal in self.goals.items()},
            "held": len(slow) == len(missed) and found.n > 0,
            "missed": missed,
            "slow": slow,
            "of_speed": [name for name, goal in self.goals.items() if goal.of_speed],
            "examples": list(found.examples[:5]),
            "seconds": round(seconds, 1),
        }


def card(result: Mapping[str, Any]) -> str:
    """Return what a reader is told of a part: one line of what it is, one of its figures."""
    verdict = (
        "held" if result["held"] else f"NOT HELD: {', '.join(result['missed']) or 'no figures'}"
    )
    if result["held"] and result["slow"]:
        verdict = f"held, but slow: {', '.join(result['slow'])}"
    goals = result["goals"]
    figures = [
        f"{name} {value}" + (f" (goal {goals[name]})" if name in goals else "")
        for name, value in result["figures"].items()
    ]
    lines = [
        f"{result['part']}: {result['title']}, n = {result['n']}, {result['seconds']:g} s: {verdict}",
        "  " + ", ".join(figures),
    ]
    return "\n".join([*lines, *(f"  e.g. {text}" for text in result["examples"])])
