"""Forward passes one by one: what the model read, what was taken back after it, and what was written."""

from __future__ import annotations

from engine.trace.details import ForwardDetail, ForwardPass
from engine.trace.records import Step, Trace
from visualizers.base import Shown


class Passes:
    """Adds up the forward passes of a run, and says after which of them tokens were taken back.

    Shows of a step: ``rows``, one for each of its passes, one without a pass where it has none, each
    with its ``number`` in the run from 1 (None without a pass), ``gone``, the tokens that were taken
    back after it and before the next, and ``took_s``, the seconds since the pass before had ended
    (None where no time is recorded). ``written``, the new tokens that stand after the step. ``start``,
    the tokens that stand before the new ones, and ``most``, the longest text so far, both of the text
    as the passes have it and None before the first.

    ``figures`` of the run so far: ``tokens`` that stand; ``passes``, those of them that read another
    text ``aside``, those ``without_ids``; tokens ``read`` in all rows, ``rows``, the most that were
    read at once, and the most tokens ``held`` in a cache; ``back``, tokens that a later pass misses, in
    so many ``rollbacks``, and ``left``, tokens that this step took back and no pass has missed yet;
    ``declared`` to the streamer; ``steps``, and those of them ``blind``: they wrote and have no
    candidates; ``tokens_per_pass``, None without a pass.
    """

    def __init__(self, run: Trace) -> None:
        del run
        self.texts: dict[int, list[int]] = {}
        self.start: int | None = None
        self.ended_s = 0.0
        self.left: list[int] = []
        self.figures = dict.fromkeys(
            (
                *("passes", "aside", "without_ids", "read", "rows", "held"),
                *("back", "rollbacks", "declared", "steps", "blind"),
            ),
            0,
        )
        self.most: int | None = None

    def add(self, step: Step) -> Shown | None:
        """Take a step."""
        text = self.texts.setdefault(step.sequence, [])
        detail = step.detail
        if not isinstance(detail, ForwardDetail):
            text[step.keep :] = step.emit
            return None
        figures = self.figures
        figures["steps"] += 1
        figures["declared"] += detail.declared
        figures["blind"] += bool(step.emit and not step.candidates)
        if self.left and detail.passes:
            self._count_back(len(self.left))
        rows = [self._row(text, place, detail.passes) for place in range(len(detail.passes))]
        rows = rows or [{"number": None, "took_s": None}]
        self.left = text[step.keep :]
        rows[-1]["gone"] = self.left
        text[step.keep :] = step.emit
        tokens = sum(map(len, self.texts.values()))
        if self.start is not None:
            self.most = max(self.most or 0, self.start + len(text))
        return {
            "rows": rows,
            "written": len(text),
            "start": self.start,
            "most": self.most,
            "figures": {
                **figures,
                "tokens": tokens,
                "left": len(self.left),
                "tokens_per_pass": tokens / figures["passes"] if figures["passes"] else None,
            },
        }

    def _row(self, text: list[int], place: int, passes: tuple[ForwardPass, ...]) -> Shown:
        """Return what is shown of a pass, and take back of the text what the next one misses."""
        seen, figures = passes[place], self.figures
        figures["passes"] += 1
        figures["aside"] += seen.aside and seen.read > 0
        figures["without_ids"] += not seen.read
        figures["read"] += seen.rows * seen.read
        figures["rows"] = max(figures["rows"], seen.rows)
        figures["held"] = max(figures["held"], seen.cached)
        if self.start is None:
            self.start = seen.length - len(text)
        self.most = max(self.most or 0, seen.length)
        gone: list[int] = []
        if place + 1 < len(passes) and passes[place + 1].dropped:
            stands = len(text) - passes[place + 1].dropped
            gone = text[stands:]
            del text[stands:]
            self._count_back(len(gone))
        took_s = seen.elapsed_s - self.ended_s if seen.elapsed_s else None
        self.ended_s = seen.elapsed_s or self.ended_s
        return {"number": figures["passes"], "took_s": took_s, "gone": gone}

    def _count_back(self, tokens: int) -> None:
        self.figures["back"] += tokens
        self.figures["rollbacks"] += 1
