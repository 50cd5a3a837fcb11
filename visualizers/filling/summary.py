"""Summary of masked diffusion: for every place, the pass that wrote it and how sure it was."""

from __future__ import annotations

from engine.trace.filling import FillDetail, PlaceGuess
from engine.trace.records import Step, Trace
from visualizers.base import StepSummary, Visual, has_detail


class FillingSummary:
    """Tracks every place of the text after the prompt.

    Values per step, each a list with one value per place: ``ids``, the token written there, else the
    guess of this pass, else None; ``passes``, the number of the pass that wrote it, from 1, 0 for a
    given token, None while it is hidden; ``p`` and ``entropy`` of that token when it was written or
    guessed; ``changes``, how often the guess changed. ``hidden`` counts the hidden places.
    """

    def __init__(self, run: Trace) -> None:
        del run
        self.count = 0
        self.given: dict[int, int] = {}
        self.known: dict[int, tuple[int, PlaceGuess]] = {}
        self.last: dict[int, int] = {}
        self.changes: dict[int, int] = {}

    def add(self, step: Step) -> StepSummary | None:
        """Add a pass and return its values; None without a pass of masked diffusion."""
        detail = step.detail
        if not isinstance(detail, FillDetail):
            return None
        self.count += 1
        self.given = dict(detail.given)
        for guess in detail.guesses:
            place, before = guess.position, self.last.get(guess.position, guess.token_id)
            self.changes[place] = self.changes.get(place, 0) + (before != guess.token_id)
            self.last[place] = guess.token_id
        self.known |= {guess.position: (self.count, guess) for guess in detail.written}
        open_guesses = {guess.position: guess for guess in detail.guesses if not guess.written}
        places = [self._describe(place, open_guesses) for place in range(detail.length)]
        columns = zip(*places, strict=True)
        names = ("ids", "passes", "p", "entropy", "changes")
        shown: StepSummary = dict(zip(names, map(list, columns), strict=True))
        return {**shown, "hidden": shown["passes"].count(None)}

    def _describe(self, place: int, guesses: dict[int, PlaceGuess]) -> tuple[object, ...]:
        """Return token, pass, probability, entropy and changes of a place."""
        if place in self.given:
            return self.given[place], 0, None, None, 0
        number, guess = self.known.get(place, (None, guesses.get(place)))
        changes = self.changes.get(place, 0)
        if guess is None:
            return None, None, None, None, changes
        return guess.token_id, number, guess.p, guess.entropy, changes


VISUALS = (
    Visual("filling", FillingSummary, has_detail(FillDetail), order=49),
    Visual("filling_compared", None, has_detail(FillDetail), order=50),
)
