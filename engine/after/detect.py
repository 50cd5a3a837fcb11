"""Is there a watermark? Detection in a text, in token ids or in a trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from engine.aside import aside
from engine.declare.config import as_dict
from engine.declare.params import build, params_of
from engine.errors import EngineError, ParameterError
from engine.models.text import encode_after, encode_both, encode_inside
from engine.reading.watermark_statistics import Verdict
from engine.settings import SETTINGS
from engine.strategies.watermark import WatermarkConfig, check_vocabulary
from engine.trace.records import Trace
from engine.watermark import processors
from engine.watermark.marks import (
    START,
    Chances,
    Tally,
    TokenMark,
    chances_of,
    curve_of,
    judge,
    marks_of,
    weighted_mean_g,
)
from engine.watermark.schemes import GreenList, Scheme, scheme_of


class DetectError(EngineError):
    """A text cannot be judged; the message says why."""

    code = "detect"


@dataclass(frozen=True)
class Detection:
    """A text judged: the verdict and what every token contributes."""

    scheme: Scheme
    device: str
    """Kind of device whose random numbers chose the lists; another kind chooses others."""
    ignore_repeated_ngrams: bool
    ids: tuple[int, ...]
    marks: tuple[TokenMark, ...]
    curve: tuple[float | None, ...]
    """z after every token; None before the first that counts."""
    verdict: Verdict
    weighted_mean_g: float | None

    def to_dict(self, pieces: Mapping[int, str] | None = None) -> dict[str, Any]:
        """Return JSON values; tokens carry their text when pieces are given."""
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
def _processor(scheme: Scheme, vocab_size: int, device: str) -> Any:
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
    """Judge a text given as ids, without its prompt.

    Args:
        ids: at least the scheme's shortest text; cut before the first end-of-sequence id.
        config: the mark looked for, with its key, and how it is counted.
        vocab_size: of the model that wrote the text.
        device: kind of device the text was marked on.
        bos_token_id: a leading one is set aside.
        eos_token_ids: ids that end a text.

    Raises:
        DetectError: too short, or the device is not there.
        ParameterError: an id outside the vocabulary, or nothing would be green.
    """
    _check_device(device)
    scheme = scheme_of(as_dict(config))
    check_vocabulary(scheme, vocab_size)
    outside = next((i for i in ids if not 0 <= i < vocab_size), None)
    if outside is not None:
        raise ParameterError(
            "ids", outside, f"token ids of this model go from 0 to {vocab_size - 1}"
        )

    def count() -> tuple[int, tuple[TokenMark, ...], Chances]:
        processor = _processor(scheme, vocab_size, device)
        tally = Tally(processor, config.ignore_repeated_ngrams, bos_token_id, eos_token_ids)
        marks = marks_of(list(ids), tally)
        return len(tally.ids), marks, chances_of(processor)

    length, marks, chances = aside(count)
    if length < scheme.shortest:
        raise DetectError(
            f"The text has {length} tokens; {scheme.name} with this context needs at least "
            f"{scheme.shortest} to judge."
        )
    verdict = judge(marks, chances, config.z_threshold)
    assert verdict is not None, "a text of the shortest length has a token that counts"
    curve = tuple(curve_of(marks, chances))
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


def _check_device(device: str) -> None:
    """Refuse to look with another device's random numbers: it would find nothing and say so."""
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if not there.get(device, False):
        raise DetectError(
            f"This watermark was made with the random numbers of {device[:20]!r}, which is not on "
            "this machine: another device draws other lists and would call any text unmarked."
        )


def detect_trace(
    trace: Trace,
    overrides: Mapping[str, Any] | None = None,
    *,
    sequence: int = 0,
    device: str | None = None,
) -> Detection:
    """Judge one output of a run, its prompt left out.

    Args:
        trace: of any strategy; one that is not a watermark's is judged with the defaults.
        overrides: watermark parameters other than those of the run: a wrong key, a threshold.
        sequence: which output.
        device: None is the run's own; another kind is refused.

    Raises:
        DetectError: another device, no such output, or too short.
        ParameterError: an override out of range.
    """
    own = trace.model.device
    if device is not None and device != own:
        raise DetectError(
            f"This text was marked on {own!r}; lists drawn on {device[:20]!r} are others, so a "
            "detection there would call it unmarked."
        )
    if not 0 <= sequence < len(trace.outputs):
        raise DetectError(f"The trace has {len(trace.outputs)} outputs; there is no {sequence}.")
    known = params_of(WatermarkConfig)
    values = {n: v for n, v in trace.config.items() if n in known and n not in _NOT_ASKED}
    config = watermark_config({**values, **(overrides or {})})
    ids = trace.outputs[sequence].token_ids
    steps = trace.steps_of(sequence)
    # Whether the first token is the model's start token is known to its first step alone.
    starts = bool(steps) and getattr(steps[0].detail, "reason", "") == START
    return detect_ids(
        ids,
        config,
        trace.model.vocab_size,
        device=own,
        bos_token_id=ids[0] if starts else None,
        eos_token_ids=trace.eos_token_ids,
    )


_NOT_ASKED = ("prefix_allowed_tokens_fn", "max_new_tokens", "min_new_tokens", "max_time")


def detect_text(
    text: str,
    loaded: Any,
    config: WatermarkConfig,
    *,
    prompt: str | None = None,
    device: str | None = None,
) -> Detection:
    """Judge a text, read with a model's own tokenizer.

    Args:
        text: what is judged, spaces at its start included.
        loaded: models.LoadedModel with a tokenizer: the one that is taken to have written it.
        config: the mark looked for.
        prompt: left out when the text starts with it.
        device: kind of device the text was marked on; None is the model's.

    Raises:
        DetectError: no tokenizer, too short, or the device is not there.
        ParameterError: the text is empty or too long.
    """
    if loaded.tokenizer is None:
        raise DetectError("The model has no tokenizer, so a text cannot be read.")
    limit = SETTINGS.max_prompt_chars
    if not isinstance(text, str) or not text.strip() or len(text) > limit:
        got = text if not isinstance(text, str) else f"{len(text)} characters"
        raise ParameterError("text", got, f"write 1 to {limit} characters")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ParameterError("text", text, "it holds half a surrogate pair") from None
    ids = _ids_of(text, loaded.tokenizer, prompt)
    return detect_ids(
        ids,
        config,
        loaded.vocab_size,
        device=device or loaded.device.type,
        eos_token_ids=loaded.eos_token_ids,
    )


def _ids_of(text: str, tokenizer: Any, prompt: str | None) -> list[int]:
    if prompt and text.startswith(prompt):
        return encode_after(tokenizer, prompt, text[len(prompt) :])
    # A text that begins with a space was taken out of another one.
    return (
        encode_inside(tokenizer, text) if text[0].isspace() else encode_both(tokenizer, "", text)[1]
    )


def watermark_config(values: Mapping[str, Any]) -> WatermarkConfig:
    """Return a checked config from names and values of the watermark strategy."""
    return build(WatermarkConfig, values, "watermark")
