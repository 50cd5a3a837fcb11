"""Summary of the sentence: the reason for each step's word, as a kind of sentence and its values."""

from __future__ import annotations

from engine.trace.details import (
    BeamDetail,
    ContrastiveDetail,
    DraftDetail,
    ForwardDetail,
    LayerDetail,
    WatermarkDetail,
    find_draw,
)
from engine.trace.filling import FillDetail
from engine.trace.records import Candidate, Step, Trace, chosen_token_id
from engine.trace.served import ServedDetail
from visualizers.base import StepSummary, Visual, to_probability
from visualizers.sentence.beams import BeamSentences
from visualizers.watermark.summary import count_hits

RARE_SHARE = 0.1
"""A drawn token below this probability is called a rare one."""
CLOSE_SHARE = 0.05
"""Two probabilities that differ by less are called close."""


class SentenceSummary:
    """Finds the sentence of each step.

    Values per step: ``kind`` of the sentence, and what it names: token ids ``word`` (that the step
    chose) and ``other``, their probabilities ``share`` and ``other_share``, and numbers of its kind.
    On the last step of a search ``path`` has the sentence of every step of the text that won.
    """

    def __init__(self, run: Trace) -> None:
        self.sample = run.strategy == "sampling" or bool(run.config.get("do_sample"))
        self.marks: dict[int, list[int]] = {}
        self.beams = BeamSentences()

    def add(self, step: Step) -> StepSummary:
        """Return the sentence of a step."""
        detail = step.detail
        if isinstance(detail, ServedDetail):
            # This program's own draw has the probabilities after its filters.
            return describe_served(step, detail) if detail.draw is None else describe_draw(step)
        if isinstance(detail, BeamDetail):
            return self.beams.add(step, detail)
        if isinstance(detail, DraftDetail):
            return describe_round(detail)
        if isinstance(detail, WatermarkDetail):
            return self._count_mark(step, detail)
        if isinstance(detail, ForwardDetail):
            return describe_method(step)
        if isinstance(detail, ContrastiveDetail):
            return describe_contrast(detail)
        if isinstance(detail, FillDetail):
            return describe_pass(detail)
        if self.sample or find_draw(detail) is not None:
            return describe_draw(step)
        if isinstance(detail, LayerDetail):
            return describe_layers(step, detail)
        return describe_greedy(step)

    def _count_mark(self, step: Step, detail: WatermarkDetail) -> StepSummary:
        """Return how many scored trials so far are hits, and how many chance gives."""
        flips = max(1, len(detail.g_values))
        marks = self.marks.setdefault(step.sequence, [0, 0])
        marks[0] += count_hits(detail) if detail.scored else 0
        marks[1] += flips if detail.scored else 0
        if not marks[1]:
            return describe_draw(step)
        kind = "bits" if detail.g_values else "marked"
        chance = round(marks[1] * detail.chance)
        return {"kind": kind, "hits": marks[0], "count": marks[1], "expected": chance}


def _own(step: Step) -> Candidate | None:
    token = chosen_token_id(step)
    return next((c for c in step.candidates if c.token_id == token), None)


def _favourite(step: Step) -> Candidate | None:
    """Return the model's most probable token, None if it is not recorded."""
    return next((c for c in step.candidates if c.rank == 0), None)


def _name_word(step: Step, kind: str) -> StepSummary:
    return {"kind": kind, "word": chosen_token_id(step)}


def _describe_only(step: Step, favourite: Candidate | None) -> StepSummary:
    """Return the sentence of a step at which the filters left one token."""
    found = _name_word(step, "only")
    if favourite is None or favourite.removed_by is None:
        return found
    return {
        **found,
        "kind": "only_wanted",
        "filter": favourite.removed_by,
        "other": favourite.token_id,
        "other_share": to_probability(favourite.raw_logprob),
    }


def describe_draw(step: Step) -> StepSummary:
    """Return the sentence of a step whose token was drawn."""
    own, favourite = _own(step), _favourite(step)
    if own is None:
        return _name_word(step, "plain")
    if step.stages and step.stages[-1].kept == 1:
        return _describe_only(step, favourite)
    likeliest = max(step.candidates, key=lambda c: c.processed_logprob)
    share = to_probability(own.processed_logprob)
    found = {"word": own.token_id, "share": share}
    if favourite is not None and favourite.removed_by is not None:
        return {
            **found,
            "kind": "drawn_without",
            "other": favourite.token_id,
            "filter": favourite.removed_by,
        }
    if likeliest.processed_logprob <= own.processed_logprob:
        return {**found, "kind": "drawn_favourite"}
    return {
        **found,
        "kind": "drawn_rare" if share < RARE_SHARE else "drawn",
        "other": likeliest.token_id,
        "other_share": to_probability(likeliest.processed_logprob),
    }


def describe_greedy(step: Step) -> StepSummary:
    """Return the sentence of a step that took the most probable token."""
    own, favourite = _own(step), _favourite(step)
    best = max(step.candidates, key=lambda c: c.processed_logprob, default=None)
    if own is None or favourite is None or best is None or best.token_id != own.token_id:
        return _name_word(step, "plain")
    if step.stages and step.stages[-1].kept == 1:
        return _describe_only(step, favourite)
    if favourite.token_id != own.token_id:
        kind = "reordered" if favourite.removed_by is None else "removed"
        found = {"kind": kind, "word": own.token_id, "other": favourite.token_id}
        return found if kind == "reordered" else {**found, "filter": favourite.removed_by}
    rest = [c for c in step.candidates if c.token_id != own.token_id]
    second = max(rest, key=lambda c: c.processed_logprob, default=own)
    share, behind = (to_probability(c.processed_logprob) for c in (own, second))
    if second is own or share - behind >= CLOSE_SHARE:
        return _name_word(step, "favourite")
    return {
        "kind": "close",
        "word": own.token_id,
        "share": share,
        "other": second.token_id,
        "other_share": behind,
    }


def describe_served(step: Step, detail: ServedDetail) -> StepSummary:
    """Return the sentence of a token that a server chose from the candidates that it listed."""
    own = _own(step)
    if own is None:
        return _name_word(step, "plain")
    share = to_probability(own.raw_logprob)
    found = {"word": own.token_id, "share": share}
    if detail.merged:
        return {**found, "kind": "served_part"}
    likeliest = max(step.candidates, key=lambda c: c.raw_logprob)
    if likeliest.raw_logprob <= own.raw_logprob:
        # A list has the most probable tokens; one that has only the chosen token need not.
        only = len(step.candidates) == 1 and share < detail.unseen_high
        return {**found, "kind": "served_only" if only else "served_best"}
    return {
        **found,
        "kind": "served_other",
        "other": likeliest.token_id,
        "other_share": to_probability(likeliest.raw_logprob),
    }


def describe_contrast(detail: ContrastiveDetail) -> StepSummary:
    """Return the sentence of a contrastive search step."""
    first, chosen = detail.options[0], detail.options[detail.chosen]
    if chosen.token_id == first.token_id:
        return {"kind": "unlike", "word": chosen.token_id}
    return {"kind": "alike", "word": chosen.token_id, "other": first.token_id}


def describe_layers(step: Step, detail: LayerDetail) -> StepSummary:
    """Return the sentence of a DoLa step that took the token with the best score."""
    word, other = chosen_token_id(step), detail.final_top[0][0]
    found = {"word": word, "layer": detail.premature_layer}
    best = max(step.candidates, key=lambda c: c.processed_logprob, default=None)
    if best is None or best.token_id != word:
        return _name_word(step, "plain")
    if word == other:
        return {**found, "kind": "layers_same"}
    gained = dict(detail.contrast_top)
    grown = word in gained and gained[word] > gained.get(other, float("-inf"))
    return {**found, "kind": "layers_grown" if grown else "layers_other", "other": other}


def describe_round(detail: DraftDetail) -> StepSummary:
    """Return the sentence of a drafting round."""
    kept = sum(token.status == "accepted" for token in detail.tokens)
    count = detail.draft_length
    return {
        "kind": "no_guess" if not count else "tree" if detail.tree else "round",
        "drafter": detail.drafter,
        "count": count,
        "kept": kept,
        "end": _round_end(detail, kept),
        "word": detail.final_token_id,
        "layer": detail.exit_layer,
    }


def _round_end(detail: DraftDetail, kept: int) -> str:
    """Return how a round ended: with its text, its whole draft, some of it or none."""
    if detail.final_source == "ended":
        return "ended"
    if detail.tree and detail.final_source == "bonus":
        return "branch"
    if kept == len(detail.tokens):
        return "bonus"
    return "own" if kept else "none"


def describe_pass(detail: FillDetail) -> StepSummary:
    """Return the sentence of a pass of masked diffusion: its most and its least certain word."""
    written = sorted(detail.written, key=lambda guess: -guess.p)
    if not written:
        return {"kind": "filled_none"}
    first, last = written[0], written[-1]
    found: StepSummary = {"kind": "filled_one", "word": first.token_id, "share": first.p}
    if len(written) == 1:
        return found
    more = {"count": len(written), "other": last.token_id, "other_share": last.p}
    return {**found, **more, "kind": "filled"}


def describe_method(step: Step) -> StepSummary:
    """Return the sentence of a custom method's step."""
    favourite = _favourite(step)
    if not step.emit:
        return {"kind": "method_nothing"}
    if favourite is None:
        return _name_word(step, "method_unseen")
    if favourite.token_id == chosen_token_id(step):
        return _name_word(step, "method_same")
    return {**_name_word(step, "method_other"), "other": favourite.token_id}


VISUALS = (Visual("sentence", SentenceSummary, order=5),)
