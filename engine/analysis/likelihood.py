"""Teacher-forced scoring: the likelihood of a text under one model, whichever strategy wrote it."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from engine.declare.special_tokens import PARSE
from engine.errors import ModelError, ParameterError
from engine.loops.recorder import round_decimals
from engine.loops.teacher_forced import run_teacher_forced
from engine.messages import Message
from engine.models.context_check import check_fits_context
from engine.models.loading import LoadedModel, pin_models
from engine.models.text import decode_ids, encode_pair, tokenize_text
from engine.run.media_request import load_media_inputs
from engine.run.scheduler import EventCallback, ignore_event, wait_for_turn
from engine.sources.source import Endpoint, Source
from engine.trace.records import Trace
from engine.trace.served import ServedDetail

# math.exp overflows a little above 709.
_MAX_NATS = 700.0


@dataclass(frozen=True)
class Scores:
    """A model's scores of every token of a text, given the prompt and the tokens before."""

    model: str
    token_ids: tuple[int, ...]
    """Token ids in the vocabulary of the scoring model."""
    logprobs: tuple[float, ...]
    """Natural logarithm of each token's probability over the whole vocabulary."""
    entropies: tuple[float, ...]
    """Entropy in nats of the distribution at each token."""
    recut: bool = False
    """Whether the text was tokenized again because the writing model has another tokenizer."""

    @property
    def mean_logprob(self) -> float | None:
        """Mean log-probability in nats per token; None if the text is empty."""
        return round_decimals(sum(self.logprobs) / len(self.logprobs)) if self.logprobs else None

    @property
    def perplexity(self) -> float | None:
        """exp(-mean log-probability); None if the text is empty."""
        mean = self.mean_logprob
        return None if mean is None else round_decimals(math.exp(min(-mean, _MAX_NATS)))


def parse_judge(name: object) -> Source:
    """Return the source of a model that scores texts.

    Raises:
        EngineError: the name is no model's, or a server computes the model.
    """
    source = Source.parse(name)
    if isinstance(source, Endpoint):
        raise ParameterError(
            "base",
            Message("endpoint:…"),
            "a server does not score a text: choose a model on this machine",
        )
    return source


def score_trace(
    trace: Trace,
    base: LoadedModel,
    writer: LoadedModel | None = None,
    cancelled: threading.Event | None = None,
    tell: EventCallback = ignore_event,
) -> Scores:
    """Score the first output of a run under a base model.

    Args:
        trace: a finished run.
        base: the scoring model.
        writer: the model that wrote the text; None if it has the base model's tokenizer, or if a
            server decoded the run.
        cancelled: stops waiting for the model when set.
        tell: receives Waiting events.

    Raises:
        Cancelled: `cancelled` was set while waiting.
        EngineError: the text does not fit the base model's context, or the model is busy.
    """
    new = list(trace.outputs[0].token_ids) if trace.outputs else []
    if trace.media and base.reader is None:
        raise ModelError(
            "{name} is given text alone, and this text is about something else.", name=base.name
        )
    if trace.is_on_server:
        same = _reads_same_tokens(trace, base)
    else:
        same = writer is None or has_same_vocabulary(writer, base)
    if same:
        given = load_media_inputs(trace, base)
        return score_ids(base, list(trace.prompt_ids), new, cancelled, tell, given)
    prompt, new = _retokenize(trace, base, writer)
    scores = score_ids(base, prompt, new, cancelled, tell)
    return Scores(base.name, scores.token_ids, scores.logprobs, scores.entropies, recut=True)


def _reads_same_tokens(trace: Trace, base: LoadedModel) -> bool:
    """Return whether the ids of a run on a server stand for the same texts in a model here."""
    merged = any(isinstance(s.detail, ServedDetail) and s.detail.merged for s in trace.steps)
    ids = (*trace.prompt_ids, *(trace.outputs[0].token_ids if trace.outputs else ()))
    return (
        bool(trace.prompt_ids)
        and not merged
        and all(i < base.vocab_size and base.pieces[i] == trace.pieces.get(i) for i in ids)
    )


def _retokenize(
    trace: Trace, base: LoadedModel, writer: LoadedModel | None
) -> tuple[list[int], list[int]]:
    """Return prompt and text as ids of the scoring model."""
    if writer is None and trace.prompt is None:
        raise ModelError(
            "{name} cannot read this text: the server made its prompt of messages, and did not say it.",
            name=base.name,
        )
    if base.tokenizer is None or (writer is not None and writer.tokenizer is None):
        raise ModelError(
            "{name} cannot read a text of {model}: no tokenizer.",
            name=base.name,
            model=trace.model.id,
        )
    prompt = trace.prompt
    if prompt is None:
        assert writer is not None
        assert writer.tokenizer is not None
        prompt = decode_ids(writer.tokenizer, trace.prompt_ids)
    text = trace.outputs[0].text if trace.outputs else ""
    literal = trace.config.get("special_tokens") != PARSE
    if base.is_encoder_decoder or (writer is not None and writer.is_encoder_decoder):
        # With an encoder, the text is a sequence of its own and does not continue the prompt.
        ids = tokenize_text(base.tokenizer, prompt, split_special_tokens=literal)["input_ids"]
        return ids, encode_pair(base.tokenizer, "", text)[1]
    return encode_pair(base.tokenizer, prompt, text, literal=literal)


def score_ids(
    base: LoadedModel,
    prompt_ids: list[int],
    new_ids: list[int],
    cancelled: threading.Event | None = None,
    tell: EventCallback = ignore_event,
    given: Mapping[str, torch.Tensor] | None = None,
) -> Scores:
    """Score new tokens after a prompt with one forward pass.

    Args:
        base: the model; an encoder-decoder model reads the prompt with its encoder.
        prompt_ids: at least one id.
        new_ids: the tokens to score; an empty list gives empty scores.
        cancelled: stops waiting for the model when set.
        tell: receives Waiting events.
        given: further model inputs, such as a picture; see ``load_media_inputs``.

    Raises:
        Cancelled: `cancelled` was set while waiting.
        ModelError: the tokens do not fit the model.
    """
    if not new_ids:
        return Scores(base.name, (), (), ())
    length = len(prompt_ids) + len(new_ids)
    check_fits_context(base, (*prompt_ids, *new_ids), length)
    kind, size = ("score", base.name), float(length)
    line = wait_for_turn(cancelled or threading.Event(), base, tell=tell, kind=kind, size=size)
    with pin_models(base), line, torch.inference_mode():
        read = run_teacher_forced(base, prompt_ids, new_ids, media_inputs=given)
        logits = read.logits.to(torch.float32)
        logprobs = torch.log_softmax(logits, dim=-1)
        wanted = torch.tensor(new_ids, device=logprobs.device)[:, None]
        entropies = torch.special.entr(logprobs.exp()).sum(-1)
        rows: list[list[float]] = (
            # Stacked, so that both leave the device in one copy.
            torch.stack([logprobs.gather(-1, wanted)[:, 0], entropies]).cpu().tolist()
        )
    own, spread = (tuple(round_decimals(value) for value in row) for row in rows)
    return Scores(base.name, tuple(new_ids), own, spread)


def has_same_vocabulary(a: LoadedModel, b: LoadedModel) -> bool:
    """Return whether token ids stand for the same text in both models."""
    if a is b:
        return True
    if a.tokenizer is None or b.tokenizer is None:
        return False
    return a.tokenizer.get_vocab() == b.tokenizer.get_vocab()
