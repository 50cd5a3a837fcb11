"""Every text that a small grammar allows: what the model gives it, and what removing tokens makes of it.

Removing forbidden tokens step by step draws from another distribution than choosing among whole
texts by the model's own probabilities (grammar-aligned decoding, 2405.21047). Both are computed here
from every way to write every allowed text.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from engine.analysis.captured_loop import capture_loop
from engine.analysis.dial_map.passes import BatchedPasses
from engine.errors import Cancelled, EngineError, ParameterError
from engine.grammar.compile import make_byte_matcher, next_bytes
from engine.models.loading import pin_models
from engine.models.structured_outputs import NAME, compile_structured_outputs
from engine.models.text import encode_after
from engine.one_shot_thread import run_in_thread
from engine.run.preparation import ModelLoader, Prepared, parse_models, prepare
from engine.run.request import CheckedRequest, DecodeRequest, check_request
from engine.run.scheduler import EventCallback, ignore_event, wait_for_turn
from engine.run.stop_criterion import time_limit_error
from engine.settings import SETTINGS
from engine.timing_noise import work_time

MAX_TEXTS = 200
BRANCH_REFUSED = "The texts of a branch cannot be listed. Ask about the run it continues."
_MAX_BYTES = 20_000
"""Most beginnings of texts, in bytes, that are looked at to count the texts."""
_MAX_OPEN = 10 * MAX_TEXTS
"""Most beginnings of the same length; each of them goes on to a text, but for rare dead ends."""
_MAX_BEGINNINGS = 12_000
"""Most beginnings, in tokens, that the model reads."""
_MAX_CACHED = 30_000
"""Most tokens that one pass has in its cache: 1.4 GB for SmolLM2 135M."""
_LEAST = 1e-6
"""A way to write a text is left out if it has less than this share of all allowed texts."""


class TooManyTextsError(EngineError):
    """A grammar has too many texts, or too many ways to write them, for a list; draws estimate it."""


@dataclass(frozen=True)
class AllowedText:
    """One text of a grammar.

    Attributes:
        text: the text.
        own: its probability under the model, among the allowed texts alone.
        masked: its probability when forbidden tokens are removed at each step.
    """

    text: str
    own: float
    masked: float


@dataclass(frozen=True)
class AllowedTexts:
    """All texts of a grammar after one prompt, the most probable first.

    Attributes:
        texts: the texts; both probabilities add up to 1.
        valid: probability that the model writes one of them without a grammar.
        divergence: KL(masked || own), in nats.
        greedy: the text that removing tokens gives under greedy search.
        missed: most by which a probability may be too small, as ways to write a text that add less than
            a millionth are left out.
        rows: tokens that the model read.
    """

    texts: tuple[AllowedText, ...]
    valid: float
    divergence: float
    greedy: str
    missed: float
    rows: int


def list_allowed_texts(
    request: DecodeRequest,
    cancelled: threading.Event | None = None,
    tell: EventCallback = ignore_event,
) -> AllowedTexts:
    """Return the texts that a request's grammar allows, with both of their probabilities.

    Probabilities are the model's own: temperature 1, without any other setting.

    Args:
        request: a request with ``structured_outputs`` of at most MAX_TEXTS texts.
        cancelled: stops between two passes when set.
        tell: receives Waiting and Loading events.

    Raises:
        Cancelled: it was stopped.
        TooManyTextsError: the grammar has more texts, or too many ways to write them.
        DecodeError: it took longer than a run may.
        EngineError: the request is invalid, or the model cannot serve it.
    """
    cancelled = cancelled or threading.Event()
    checked = check_grammar_request(request)
    grammar = compile_structured_outputs(checked.config.structured_outputs)
    texts = _enumerate_texts(grammar, cancelled)
    run = prepare(checked, ModelLoader(cancelled, tell))
    loaded = run.target
    line = wait_for_turn(cancelled, loaded, tell=tell, kind=("texts", loaded.name), size=1.0)
    with pin_models(loaded), line:
        return run_in_thread(lambda: _read_texts(run, texts, cancelled))


def check_grammar_request(request: DecodeRequest) -> CheckedRequest:
    """Return the checked request of a run with a grammar.

    Raises:
        EngineError: it is invalid, has no grammar, or continues a branch.
    """
    checked = parse_models(check_request(request))
    if checked.config.structured_outputs is None:
        raise ParameterError(NAME, None, "a list of allowed texts needs a grammar")
    if request.parent is not None:
        raise EngineError(BRANCH_REFUSED)
    return checked


def _enumerate_texts(grammar: str, cancelled: threading.Event) -> list[str]:
    """Return the texts that a grammar allows.

    Raises:
        Cancelled: it was stopped.
        TooManyTextsError: they are too many to list.
    """
    texts: list[str] = []
    looked, open_ones = 0, deque([(make_byte_matcher(grammar), b"")])
    while open_ones:
        if cancelled.is_set():
            raise Cancelled
        # The shortest first: the other way an endless grammar would be followed to ever longer texts.
        matcher, so_far = open_ones.popleft()
        looked += 1
        if matcher.is_accepting():
            texts.append(so_far.decode("utf-8", "replace"))
        if len(texts) > MAX_TEXTS or looked > _MAX_BYTES or len(open_ones) > _MAX_OPEN:
            raise TooManyTextsError(
                "This grammar allows more than {most} texts, too many to list.", most=MAX_TEXTS
            )
        following: list[int] = next_bytes(matcher).nonzero()[0].tolist()
        for byte in following:
            # consume_tokens changes the matcher, which has to go on with the other bytes, too.
            after = matcher.deep_copy()
            after.consume_tokens([byte])
            open_ones.append((after, so_far + bytes([byte])))
    return texts


def _tokenize_texts(run: Prepared, texts: Iterable[str]) -> set[tuple[int, ...]]:
    """Return the beginnings of texts in the tokenizer's own way to write them."""
    tokenizer = run.target.tokenizer
    assert tokenizer is not None  # a grammar is refused without one
    before = "" if run.target.is_encoder_decoder else run.request.prompt or ""
    found = [tuple(encode_after(tokenizer, before, text)) for text in texts]
    return {ids[:n] for ids in found for n in range(len(ids) + 1)}


@dataclass
class _Beginning:
    """The beginning of allowed texts, in one of the ways to write it."""

    ids: tuple[int, ...]
    own: float
    """Natural logarithm of its probability under the model."""
    masked: float
    """The same when forbidden tokens are removed."""


class _Reader:
    """Reads the ways to write the allowed texts, one token a pass.

    Args:
        run: the prepared run.
        cancelled: stops between two passes when set.
        follow: whether a beginning is read on; the others are left out.

    Attributes:
        own: text -> its probability under the model.
        masked: text -> its probability when forbidden tokens are removed.
        missed: the same two sums of what was left out.
        greedy: the text of greedy search when forbidden tokens are removed.
    """

    def __init__(
        self, run: Prepared, cancelled: threading.Event, follow: Callable[[_Beginning], bool]
    ) -> None:
        self.cancelled, self.follow = cancelled, follow
        [self.processor] = run.grammars
        forward, _, ids = capture_loop(run, run.config)
        self.passes = BatchedPasses(forward, ids, 0.0)
        self.own: dict[bytes, float] = {}
        self.masked: dict[bytes, float] = {}
        self.missed = [0.0, 0.0]
        self.greedy = b""

    def read(self) -> _Reader:
        """Read all of them; return itself."""
        # Not as a decorator, which would import torch with this module.
        with torch.inference_mode():
            return self._read()

    def _read(self) -> _Reader:
        open_ones, read = [_Beginning((), 0.0, 0.0)], 0
        until = work_time() + SETTINGS.max_runtime_s
        best: tuple[int, ...] | None = ()
        while open_ones:
            read += len(open_ones)
            if self.cancelled.is_set():
                raise Cancelled
            if work_time() > until:
                raise time_limit_error(SETTINGS.max_runtime_s)
            cached = len(open_ones) * self.passes.ids.shape[1]
            if read > _MAX_BEGINNINGS or cached > _MAX_CACHED:
                raise TooManyTextsError(
                    "The texts of this grammar can be written in too many ways to read them all."
                )
            logprobs = self.passes.read().double().log_softmax(-1)
            found: list[tuple[int, int, _Beginning]] = []
            for row, one in enumerate(open_ones):
                following = self._continue(one, logprobs[row])
                if one.ids == best:
                    best = self._follow_greedy(one, following)
                found += [(row, more.ids[-1], more) for more in following if more.ids != one.ids]
            if found:
                self.passes.branch([row for row, _, _ in found], [token for _, token, _ in found])
            open_ones = [one for _, _, one in found]
        return self

    def _follow_greedy(
        self, one: _Beginning, following: list[_Beginning]
    ) -> tuple[int, ...] | None:
        """Return the most probable beginning after one, None where the text ends."""
        first = max(following, key=lambda more: more.masked, default=one)
        if first.ids != one.ids:
            return first.ids
        self.greedy = self._bytes_of(one.ids)
        return None

    def _continue(self, one: _Beginning, logprobs: torch.Tensor) -> list[_Beginning]:
        """Return the beginnings that follow one; an end is the same beginning again."""
        allowed = torch.from_numpy(self.processor.allowed(one.ids, len(logprobs)))
        kept = float(logprobs.masked_fill(~allowed, -math.inf).logsumexp(-1))
        tokens: list[int] = allowed.nonzero().flatten().tolist()
        found: list[_Beginning] = []
        for token in tokens:
            share = float(logprobs[token])
            # Removing tokens renormalises at every step: p(token) / Σ p(allowed tokens).
            own, masked = one.own + share, one.masked + share - kept
            if token in self.processor.eos:
                text = self._bytes_of(one.ids)
                self.own[text] = self.own.get(text, 0.0) + math.exp(own)
                self.masked[text] = self.masked.get(text, 0.0) + math.exp(masked)
                found.append(_Beginning(one.ids, own, masked))
                continue
            more = _Beginning((*one.ids, token), own, masked)
            if self.follow(more):
                found.append(more)
            else:
                self.missed[0] += math.exp(own)
                self.missed[1] += math.exp(masked)
        return found

    def _bytes_of(self, ids: tuple[int, ...]) -> bytes:
        return b"".join(self.processor.table.tokens[i] for i in ids)


def _read_texts(run: Prepared, texts: list[str], cancelled: threading.Event) -> AllowedTexts:
    known = _tokenize_texts(run, texts)
    usual = _Reader(run, cancelled, lambda one: one.ids in known).read()
    if not usual.own:
        raise EngineError("No text of this grammar can be written in the tokenizer's own way.")
    # Ways to write a text that add too little to be seen are left out, and counted.
    least = math.log(_LEAST), math.log(_LEAST * sum(usual.own.values()))
    found = _Reader(
        run,
        cancelled,
        lambda one: one.ids in known or one.masked > least[0] or one.own > least[1],
    ).read()
    valid = sum(found.own.values())
    table = tuple(
        AllowedText(text.decode("utf-8", "replace"), own / valid, found.masked[text])
        for text, own in sorted(found.own.items(), key=lambda pair: -pair[1])
    )
    return AllowedTexts(
        table,
        valid,
        sum(one.masked * math.log(one.masked / one.own) for one in table),
        found.greedy.decode("utf-8", "replace"),
        max(found.missed[0] / valid, found.missed[1]),
        usual.passes.rows + found.passes.rows,
    )
