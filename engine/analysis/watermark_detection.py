"""Watermark detection in a text, in token ids or in a trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from engine.declare.config import config_to_dict
from engine.declare.params import build_config, params_of
from engine.declare.special_tokens import TEXT
from engine.errors import EngineError, ParameterError
from engine.messages import Message
from engine.models.model_types import Tokenizer
from engine.models.special_tokens import encode_continuation
from engine.models.text import encode_pair
from engine.one_shot_thread import run_in_thread
from engine.run.prompt_request import default_special_tokens
from engine.settings import SETTINGS
from engine.statistics.watermark_statistics import Verdict
from engine.strategies.watermark import WatermarkConfig, check_greenlist_ratio
from engine.trace.records import Trace
from engine.trace.served_checks import require_whole_record
from engine.watermark import processors
from engine.watermark.marks import (
    START_TOKEN,
    NullHypothesis,
    Tally,
    TokenMark,
    judge_marks,
    mark_tokens,
    null_hypothesis,
    weighted_mean_g,
    z_score_curve,
)
from engine.watermark.schemes import GreenList, Scheme, scheme_from_config

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel


class DetectError(EngineError):
    """Detection is impossible for this text; the message says why."""

    code = "detect"


@dataclass(frozen=True)
class Detection:
    """The result of detection: the verdict and the contribution of every token."""

    scheme: Scheme
    device: str
    """Kind of device whose random numbers chose the lists; another kind chooses different lists."""
    ignore_repeated_ngrams: bool
    ids: tuple[int, ...]
    marks: tuple[TokenMark, ...]
    curve: tuple[float | None, ...]
    """z-score after every token; None before the first token that counts."""
    verdict: Verdict
    weighted_mean_g: float | None

    def to_dict(self, pieces: Mapping[int, str] | None = None) -> dict[str, Any]:
        """Return the detection as JSON values; tokens have a text if `pieces` is given."""
        green = isinstance(self.scheme, GreenList)
        verdict = dataclasses.asdict(self.verdict)
        hits, fraction = verdict.pop("hits"), verdict.pop("fraction")
        own = (
            {"num_green_tokens": hits, "green_fraction": fraction}
            if green
            else {"g_ones": hits, "mean_g": fraction, "weighted_mean_g": self.weighted_mean_g}
        )
        tokens = [
            {
                "token_id": token,
                **({"text": pieces[token]} if pieces else {}),
                **dataclasses.asdict(mark),
                "z_score": z,
            }
            for token, mark, z in zip(self.ids, self.marks, self.curve, strict=True)
        ]
        return {
            "scheme": {"name": self.scheme.name, **dataclasses.asdict(self.scheme)},
            "device": self.device,
            "ignore_repeated_ngrams": self.ignore_repeated_ngrams,
            "num_tokens": len(self.ids),
            **verdict,
            **own,
            "tokens": tokens,
        }


@lru_cache(maxsize=8)
def _cached_processor(scheme: Scheme, vocab_size: int, device: str) -> Any:
    return processors.make_processor(scheme, vocab_size, device)


def detect_ids(
    ids: Sequence[int],
    config: WatermarkConfig,
    vocab_size: int,
    *,
    device: str = "cpu",
    bos_token_id: int | None = None,
    eos_token_ids: tuple[int, ...] = (),
) -> Detection:
    """Detect a watermark in token ids, without the prompt.

    Args:
        ids: at least the scheme's shortest text; cut before the first end-of-sequence id.
        config: the watermark to detect, with its key, and how tokens are counted.
        vocab_size: vocabulary size of the model that wrote the text.
        device: kind of device that generated the text.
        bos_token_id: ignored at the start of `ids`.
        eos_token_ids: ids that end a text.

    Raises:
        DetectError: the text is too short, or this machine has no such device.
        ParameterError: an id is outside the vocabulary, or the green list would be empty.
    """
    _check_device(device)
    scheme = scheme_from_config(config_to_dict(config))
    check_greenlist_ratio(scheme, vocab_size)
    _check_ids(ids, vocab_size)

    def count() -> tuple[int, tuple[TokenMark, ...], NullHypothesis]:
        processor = _cached_processor(scheme, vocab_size, device)
        tally = Tally(processor, config.ignore_repeated_ngrams, bos_token_id, eos_token_ids)
        marks = mark_tokens(list(ids), tally)
        return len(tally.ids), marks, null_hypothesis(processor)

    # In a thread that ends: one that stayed would slow down every later run of the process.
    length, marks, chances = run_in_thread(count)
    if length < scheme.min_tokens:
        raise DetectError(
            "The text has {length} tokens; {scheme} with this context needs at least "
            "{shortest} to judge.",
            length=length,
            scheme=scheme.name,
            shortest=scheme.min_tokens,
        )
    verdict = judge_marks(marks, chances, config.z_threshold)
    assert verdict is not None, "a text of the shortest length has a token that counts"
    curve = tuple(z_score_curve(marks, chances))
    return Detection(
        scheme,
        device,
        config.ignore_repeated_ngrams,
        tuple(ids),
        marks,
        curve,
        verdict,
        weighted_mean_g(marks),
    )


def _check_ids(ids: Sequence[int], vocab_size: int) -> None:
    outside = next((i for i in ids if not 0 <= i < vocab_size), None)
    if outside is not None:
        allowed = Message("token ids of this model go from 0 to {last}", last=vocab_size - 1)
        raise ParameterError("ids", outside, allowed)


def _check_device(device: str) -> None:
    """Raise DetectError for a device that is missing here: its random lists cannot be drawn."""
    # Lists of another device are different ones, so any text would count as unmarked.
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if not there.get(device, False):
        raise DetectError(
            "This watermark was made with the random numbers of {device}, which is not "
            "on this machine: another device draws other lists and would call any text "
            "unmarked.",
            device=repr(device[:20]),
        )


def detect_trace(
    trace: Trace,
    overrides: Mapping[str, object] | None = None,
    *,
    sequence: int = 0,
    device: str | None = None,
) -> Detection:
    """Detect a watermark in one output of a run, without the prompt.

    Args:
        trace: a run of any strategy; without watermark parameters the defaults apply.
        overrides: watermark parameters that replace the run's, such as a wrong key or a threshold.
        sequence: index of the output.
        device: None is the run's device; another kind is refused.

    Raises:
        DetectError: the device differs, the output does not exist, or it is too short.
        ParameterError: an override is out of range.
    """
    require_whole_record(trace)
    own = trace.model.device
    if device is not None and device != own:
        raise DetectError(
            "This text was marked on {own}; lists drawn on {device} are others, so a "
            "detection there would call it unmarked.",
            own=repr(own),
            device=repr(device[:20]),
        )
    if not 0 <= sequence < len(trace.outputs):
        raise DetectError(
            "The trace has {outputs} outputs; there is no {sequence}.",
            outputs=len(trace.outputs),
            sequence=sequence,
        )
    known = params_of(WatermarkConfig)
    values = {n: v for n, v in trace.config.items() if n in known and n not in _IGNORED_SETTINGS}
    config = build_watermark_config({**values, **(overrides or {})})
    ids = trace.outputs[sequence].token_ids
    steps = trace.steps_of(sequence)
    # Only the first step records whether the first token is the model's start token.
    starts = bool(steps) and getattr(steps[0].detail, "reason", "") == START_TOKEN
    return detect_ids(
        ids,
        config,
        trace.model.vocab_size,
        device=own,
        bos_token_id=ids[0] if starts else None,
        eos_token_ids=trace.eos_token_ids,
    )


# Detection does not depend on them, and a recorded function cannot be built again.
_IGNORED_SETTINGS = (
    "prefix_allowed_tokens_fn",
    "structured_outputs",
    "max_new_tokens",
    "min_new_tokens",
    "max_time",
)


def detect_text(
    text: object,
    loaded: LoadedModel,
    config: WatermarkConfig,
    *,
    prompt: str | None = None,
    device: str | None = None,
) -> Detection:
    """Detect a watermark in a text, tokenized by the model that presumably wrote it.

    Args:
        text: the text, including leading spaces.
        loaded: models.LoadedModel with a tokenizer.
        config: the watermark to detect. Its ``special_tokens`` says how special tokens are read
            that the text spells.
        prompt: removed if the text starts with it.
        device: kind of device that generated the text; None is the model's.

    Raises:
        DetectError: the model has no tokenizer, the text is too short, or the device is missing.
        ParameterError: the text is empty or too long.
    """
    if loaded.tokenizer is None:
        raise DetectError("The model has no tokenizer, so a text cannot be read.")
    limit = SETTINGS.max_prompt_chars
    if not isinstance(text, str) or not text.strip() or len(text) > limit:
        got = text if not isinstance(text, str) else Message("{n} characters", n=len(text))
        raise ParameterError("text", got, Message("write 1 to {limit} characters", limit=limit))
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ParameterError("text", text, "it holds half a surrogate pair") from None
    reading = config.special_tokens or default_special_tokens(chat=False)
    ids = _encode_text(text, loaded.tokenizer, prompt, reading)
    return detect_ids(
        ids,
        config,
        loaded.vocab_size,
        device=device or loaded.device.type,
        eos_token_ids=loaded.eos_token_ids,
    )


def _encode_text(
    text: str, tokenizer: Tokenizer, prompt: str | None, special_tokens: str
) -> list[int]:
    if prompt and text.startswith(prompt):
        return encode_continuation(tokenizer, text[len(prompt) :], prompt, special_tokens)
    # A leading space means that the text was copied out of a longer one.
    if text[0].isspace():
        return encode_continuation(tokenizer, text, None, special_tokens)
    return encode_pair(tokenizer, "", text, literal=special_tokens == TEXT)[1]


def build_watermark_config(values: Mapping[str, object]) -> WatermarkConfig:
    """Return a validated config from parameters of the watermark strategy."""
    return build_config(WatermarkConfig, values, "watermark")
