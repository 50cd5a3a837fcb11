"""What a large grammar does to a text, estimated from many draws instead of from all of its texts.

A draw that removes forbidden tokens has the weight Z1 · Z2 · …, the model's probabilities of all allowed
tokens at each step. The mean weight of all draws is the probability that the model writes an allowed
text by itself, and a text's share of all weights is what the model would choose among allowed texts.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.analysis.allowed_texts import AllowedText, check_grammar_request
from engine.analysis.captured_loop import capture_loop
from engine.analysis.dial_map.passes import BatchedPasses
from engine.errors import Cancelled, EngineError, ParameterError
from engine.messages import Message
from engine.models.loading import pin_models
from engine.one_shot_thread import run_in_thread
from engine.run.preparation import ModelLoader, Prepared, prepare
from engine.run.request import DecodeRequest
from engine.run.scheduler import EventCallback, ignore_event, wait_for_turn
from engine.run.stop_criterion import time_limit_error
from engine.settings import SETTINGS
from engine.timing_noise import work_time

DRAWS = 1000
MIN_DRAWS, MAX_DRAWS = 100, 4000
MIN_EFFECTIVE = 20
"""With fewer effective draws a handful of texts decides everything."""
_BATCH = 64
"""Texts that are read at once: at most so many rows of a pass, as each keeps a cache."""
_Z95 = 1.96


@dataclass(frozen=True)
class GrammarEstimate:
    """An estimate of both distributions over the texts of a grammar.

    Attributes:
        texts: the texts that were drawn, the most probable first. Both shares are estimates.
        valid: probability that the model writes an allowed text of at most ``max_new_tokens`` tokens
            without a grammar.
        low: lower end of its interval: it covers the truth in about 95 of 100 estimates.
        high: upper end.
        effective: number of equally weighted draws that would be as exact, (Σw)² / Σw².
        draws: number of draws.
        complete: draws that ended within ``max_new_tokens``; the others have the weight 0.
        rows: tokens that the model read.
    """

    texts: tuple[AllowedText, ...]
    valid: float
    low: float
    high: float
    effective: float
    draws: int
    complete: int
    rows: int


def estimate_allowed_texts(
    request: DecodeRequest,
    draws: int = DRAWS,
    cancelled: threading.Event | None = None,
    tell: EventCallback = ignore_event,
) -> GrammarEstimate:
    """Return what draws say about the texts that a request's grammar allows.

    Probabilities are the model's own: temperature 1, without any other setting. A text that no draw
    found is unknown to the estimate and to its interval.

    Args:
        request: a request with ``structured_outputs``; its seed is that of the draws.
        draws: MIN_DRAWS to MAX_DRAWS.
        cancelled: stops between two passes when set.
        tell: receives Waiting and Loading events. Every batch queues again, so that other runs get
            their turn in between.

    Raises:
        Cancelled: it was stopped.
        EngineError: the request is invalid, or fewer than MIN_EFFECTIVE draws count.
    """
    cancelled = cancelled or threading.Event()
    if isinstance(draws, bool) or not MIN_DRAWS <= draws <= MAX_DRAWS:
        allowed = Message(
            "it must be a whole number from {low} to {high}", low=MIN_DRAWS, high=MAX_DRAWS
        )
        raise ParameterError("draws", draws, allowed)
    run = prepare(check_grammar_request(request), ModelLoader(cancelled, tell))
    loaded, drawer = run.target, _Drawer(run, cancelled)
    left, batch = draws, _BATCH
    while left:
        count = min(batch, left)
        kind = ("texts", loaded.name)
        line = wait_for_turn(cancelled, loaded, tell=tell, kind=kind, size=float(count))
        with pin_models(loaded), line:
            widest = run_in_thread(lambda count=count: drawer.draw(count))
        left -= count
        # Draws of a narrow grammar share their beginnings, so that more of them fit in a pass.
        batch = max(_BATCH, min(4 * count, count * _BATCH // widest // 2))
    return weigh_draws(drawer.found, draws, drawer.rows)


def weigh_draws(found: Sequence[tuple[str, float]], draws: int, rows: int = 0) -> GrammarEstimate:
    """Return the estimate of draws.

    Args:
        found: text and natural logarithm of the weight of every draw that ended.
        draws: number of all draws.
        rows: tokens that the model read.

    Raises:
        EngineError: too few of them count.
    """
    most = max((weight for _, weight in found), default=0.0)
    # Weights of 1e-300 and less would vanish, so they are compared with the largest one.
    relative = [math.exp(weight - most) for _, weight in found]
    total = math.fsum(relative)
    effective = total**2 / math.fsum(one**2 for one in relative) if found else 0.0
    if effective < MIN_EFFECTIVE:
        raise EngineError(
            "The {draws} draws count like {effective} equal ones, too few to say anything: at least {least} are "
            "needed.",
            draws=draws,
            effective=int(effective),
            least=MIN_EFFECTIVE,
        )
    own: dict[str, float] = {}
    masked: dict[str, int] = {}
    for (text, _), weight in zip(found, relative, strict=True):
        own[text] = own.get(text, 0.0) + weight / total
        masked[text] = masked.get(text, 0) + 1
    valid = total / draws * math.exp(most)
    # Of the logarithm, as no probability is below 0 and weights spread over powers of ten.
    # draws / effective - 1 is the squared coefficient of variation of the weights.
    spread = math.exp(_Z95 * math.sqrt((draws / effective - 1) / (draws - 1)))
    return GrammarEstimate(
        tuple(
            AllowedText(text, share, masked[text] / draws)
            for text, share in sorted(own.items(), key=lambda pair: -pair[1])
        ),
        valid,
        valid / spread,
        min(valid * spread, 1.0),
        effective,
        draws,
        len(found),
        rows,
    )


@dataclass
class _Beginning:
    """The beginning of ``count`` draws, with the natural logarithm of their weight so far."""

    ids: tuple[int, ...]
    weight: float
    count: int


class _Drawer:
    """Draws texts at temperature 1 with forbidden tokens removed; equal beginnings are read once.

    Args:
        run: the prepared run.
        cancelled: stops between two passes when set.

    Attributes:
        found: text and natural logarithm of the weight of every draw that ended.
        rows: tokens that the model read.
    """

    def __init__(self, run: Prepared, cancelled: threading.Event) -> None:
        self.run, self.cancelled = run, cancelled
        [self.processor] = run.grammars
        self.generator = torch.Generator().manual_seed(run.request.seed)
        self.found: list[tuple[str, float]] = []
        self.rows, self.seconds = 0, 0.0

    def draw(self, count: int) -> int:
        """Draw ``count`` texts and return how many rows the widest pass had.

        Raises:
            Cancelled: it was stopped.
            DecodeError: all draws together took longer than a run may.
        """
        # Not as a decorator, which would import torch with this module.
        with torch.inference_mode():
            return self._draw(count)

    def _draw(self, count: int) -> int:
        began = work_time()
        forward, _, ids = capture_loop(self.run, self.run.config)
        passes = BatchedPasses(forward, ids, 0.0)
        open_ones, widest = [_Beginning((), 0.0, count)], 1
        for _ in range(self.run.config.max_new_tokens):
            if self.cancelled.is_set():
                raise Cancelled
            if self.seconds + work_time() - began > SETTINGS.max_runtime_s:
                raise time_limit_error(SETTINGS.max_runtime_s)
            logprobs = passes.read().double().cpu().log_softmax(-1)
            following = [
                (row, more)
                for row, one in enumerate(open_ones)
                for more in self._continue(one, logprobs[row])
            ]
            if not following:
                break
            passes.branch([row for row, _ in following], [more.ids[-1] for _, more in following])
            open_ones = [more for _, more in following]
            widest = max(widest, len(open_ones))
        self.rows += passes.rows
        self.seconds += work_time() - began
        return widest

    def _continue(self, one: _Beginning, logprobs: torch.Tensor) -> list[_Beginning]:
        """Return the beginnings that the draws of one go on with; those that end are found."""
        allowed = torch.from_numpy(self.processor.allowed(one.ids, len(logprobs)))
        kept = logprobs.masked_fill(~allowed, -math.inf)
        share = float(kept.logsumexp(-1))
        drawn = torch.multinomial(
            (kept - share).exp(), one.count, replacement=True, generator=self.generator
        )
        tokens: list[int] = drawn.tolist()
        weight, following = one.weight + share, list[_Beginning]()
        for token, count in sorted(Counter(tokens).items()):
            if token in self.processor.eos:
                pieces = b"".join(self.processor.table.tokens[i] for i in one.ids)
                self.found += [(pieces.decode("utf-8", "replace"), weight)] * count
            else:
                following.append(_Beginning((*one.ids, token), weight, count))
        return following
