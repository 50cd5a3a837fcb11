"""Many draws from a model behind an address: this program draws, one request for each beginning of a text.

Texts that begin alike share the request, since the distribution after the same tokens is the same.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Iterator

from engine.endpoints.probe import ServerReport
from engine.endpoints.server_lookup import ModelServer
from engine.endpoints.token_names import UNKNOWN_TEXT
from engine.errors import Cancelled, EngineError
from engine.live.end_tokens import EndTokens
from engine.live.open_server import open_server
from engine.live.own_draw import OwnSampler
from engine.live.plan import OWN, SAMPLER, LivePlan, make_plan
from engine.live.token_by_token import DrawnToken, NextToken, ask_next_token, draw_tokens
from engine.loops.recorder import round_decimals
from engine.run.request import DecodeRequest
from engine.run.stop_criterion import time_limit_error
from engine.settings import SETTINGS
from engine.statistics.prefix_tree import DrawBatch, SampledText

_TOLD_EVERY_S = 0.5


def draw_many_on_server(
    request: DecodeRequest, count: int, cancelled: threading.Event
) -> Iterator[DrawBatch]:
    """Draw ``count`` texts with the seeds seed, seed + 1, …; each equals a run with ``sampler = own``.

    Args:
        request: a request of the strategy ``sampling`` whose model is behind an address.
        count: number of texts.
        cancelled: ends the request that is under way when set; the unfinished text is left out.

    Yields:
        What was drawn since the last batch, at most about twice a second.

    Raises:
        EngineError: the server cannot do it, or its answer cannot be used.
    """
    plan = make_plan(dataclasses.replace(request, params={**request.params, SAMPLER: OWN}))
    try:
        with open_server(request, plan, cancelled) as (server, able, tokens):
            assert tokens is not None
            draws = _ServerDraws(server, able, plan, tokens.ids)
            yield from draws.batches(count, cancelled)
    except Cancelled:
        return


class _ServerDraws:
    def __init__(
        self, server: ModelServer, able: ServerReport, plan: LivePlan, prompt_ids: tuple[int, ...]
    ) -> None:
        self.server, self.able, self.plan, self.prompt_ids = server, able, plan, prompt_ids
        self.ends = EndTokens(server, plan.end_ids or able.end_ids)
        self.began = time.monotonic()
        self.known: dict[tuple[int, ...], NextToken] = {}
        self.names: dict[int, bytes] = {}
        self.error = 0.0

    def batches(self, count: int, cancelled: threading.Event) -> Iterator[DrawBatch]:
        """Yield finished texts."""
        done: list[SampledText] = []
        told = self.began
        for seed in range(self.plan.sampler.seed, self.plan.sampler.seed + count):
            try:
                done.append(self._draw(seed, cancelled))
            except (Cancelled, EngineError):
                if done:
                    yield self._batch(done)
                raise
            now = time.monotonic()
            if now - told >= _TOLD_EVERY_S:
                told = now
                yield self._batch(done)
                done = []
        if done:
            yield self._batch(done)

    def _batch(self, done: list[SampledText]) -> DrawBatch:
        named = {i for draw in done for i in draw.token_ids}
        pieces = {i: self.names.get(i, b"").decode(errors="replace") for i in named}
        seconds = round_decimals(time.monotonic() - self.began)
        return DrawBatch(tuple(done), self.prompt_ids, pieces, seconds, round_decimals(self.error))

    def _draw(self, seed: int, cancelled: threading.Event) -> SampledText:
        values = dataclasses.replace(self.plan.sampler, seed=seed)
        sampler = OwnSampler(values, self.able.vocab_size)
        ids, logprobs = list[int](), list[float]()
        for new in draw_tokens(self._ask, sampler, self.plan, self.prompt_ids, self.ends):
            ids.append(self._remember(new))
            logprobs.append(round_decimals(math.log(new.drawn.probability)))
            if cancelled.is_set():
                raise Cancelled
            if time.monotonic() > self.began + SETTINGS.max_runtime_s:
                raise time_limit_error(SETTINGS.max_runtime_s)
        return SampledText(seed, tuple(ids), tuple(logprobs))

    def _remember(self, new: DrawnToken) -> int:
        """Keep a token's bytes and the error of its draw; return its id."""
        token = new.drawn.token
        assert token.id is not None
        self.names[token.id] = UNKNOWN_TEXT.encode() if token.raw is None else token.raw
        self.error = max(self.error, min(1.0, new.drawn.kept.error))
        return token.id

    def _ask(self, ids: tuple[int, ...]) -> NextToken:
        if ids not in self.known:
            self.known[ids] = ask_next_token(self.server, self.able, ids)
        return self.known[ids]
