"""Summary of a custom method's forward passes: tokens read, rolled back and written."""

from __future__ import annotations

from engine.trace.details import ForwardDetail, ForwardPass
from engine.trace.records import Step, Trace
from visualizers.base import StepSummary, Visual, has_detail


class ForwardSummary:
    """Accumulates the forward passes of a run and locates its rollbacks.

    Values per step:

    - ``rows``: one row per pass, or a single one for a step without passes: ``number`` of the pass
      in the run from 1 (None without one), ``gone``, the tokens rolled back between it and the
      next, ``took_s``, the seconds since the end of the previous pass (None if not recorded).
    - ``written``: new tokens after the step.
    - ``start``: prompt tokens. ``most``: longest text so far. Both are None before the first pass.

    ``figures`` are totals of the run so far: ``tokens`` of all texts; ``passes``, of them ``aside``
    (on another text) and ``without_ids``; tokens ``read`` in all rows; ``rows``, the largest batch;
    ``held``, most cached tokens; ``back``, rolled back tokens, in ``rollbacks``; ``left``, tokens
    that this step rolled back and the next pass has not dropped yet; tokens ``declared`` to the
    streamer; ``steps``, of them ``blind`` (tokens without candidates); ``tokens_per_pass``, None
    without passes.
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

    def add(self, step: Step) -> StepSummary | None:
        """Add a step and return its values; None without a forward detail."""
        text = self.texts.setdefault(step.sequence, [])
        detail = step.detail
        if not isinstance(detail, ForwardDetail):
            text[step.keep :] = step.emit
            return None
        figures = self.figures
        figures["steps"] += 1
        figures["declared"] += detail.declared
        figures["blind"] += bool(step.emit and not step.candidates)
        # A rollback counts once a pass has dropped its tokens.
        if self.left and detail.passes:
            self._count_rollback(len(self.left))
        rows = [self._pass_row(text, place, detail.passes) for place in range(len(detail.passes))]
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

    def _pass_row(
        self, text: list[int], place: int, passes: tuple[ForwardPass, ...]
    ) -> StepSummary:
        """Return the row of a pass, and remove from the text what the next pass drops."""
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
            self._count_rollback(len(gone))
        took_s = seen.elapsed_s - self.ended_s if seen.elapsed_s else None
        self.ended_s = seen.elapsed_s or self.ended_s
        return {"number": figures["passes"], "took_s": took_s, "gone": gone}

    def _count_rollback(self, tokens: int) -> None:
        self.figures["back"] += tokens
        self.figures["rollbacks"] += 1


VISUALS = (Visual("forward_timeline", ForwardSummary, has_detail(ForwardDetail), order=51),)
