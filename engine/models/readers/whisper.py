"""Whisper: its forced beginning and its rules for tokens, as WhisperGenerationMixin.generate() makes them.

What that method does around the decode of one window (languages, tasks, timestamps, suppressed tokens) is asked of
the model's own methods, so that it is done as transformers does it. Sounds longer than the window, 30 seconds in
OpenAI's models, are refused: there it decodes several texts and joins them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from engine.errors import ParameterError
from engine.media import Media
from engine.models.readers.encoded import EncodedReader
from engine.models.readers.families import Family
from engine.models.readers.processors import Processors

_OWN_CHOICE = ("suppress_tokens", "begin_suppress_tokens")
"""Fields of a request that stand in place of the model's own."""


class WhisperReader(EncodedReader):
    """Begins with language, task and whether times are written, and keeps the model's own rules."""

    def __init__(self, family: Family, processors: Processors, model: Any) -> None:
        super().__init__(family, processors, model)
        # Loading leaves special ids alone in it; here the rest is the model's grammar and no default.
        self.own = copy.deepcopy(model.generation_config)

    def check(self, name: str, media: Media, speech: Mapping[str, Any]) -> None:
        """Refuse what the base class refuses, and a sound that goes on behind the model's window."""
        super().check(name, media, speech)
        window = self.processors.sounds.chunk_length
        if media.sound is not None and media.sound.seconds > window:
            raise ParameterError(
                "audio",
                f"{media.sound.seconds:.3g} seconds",
                f"{name} hears one window of {window:g} seconds",
                "give a shorter one",
            )

    def begins(
        self,
        loaded: Any,
        inputs: Mapping[str, torch.Tensor],
        prompt: str | None,
        speech: Mapping[str, Any],
    ) -> tuple[int, ...]:
        """Return the tokens of what was said before, if anything, and the forced beginning.

        A language that is not told is heard: one more pass.
        """
        model, own = loaded.model, self._settled(speech)
        encoder = model.get_encoder()
        stride = encoder.conv1.stride[0] * encoder.conv2.stride[0]
        try:
            with torch.no_grad():
                forced = model._retrieve_init_tokens(
                    inputs["input_features"].to(model.device, model.dtype),
                    batch_size=1,
                    generation_config=own,
                    config=model.config,
                    num_segment_frames=stride * model.config.max_source_positions,
                    kwargs={},
                )
        except (ValueError, KeyError):
            raise _refused(speech) from None
        return (*self._said(loaded, prompt), *forced[0].tolist())

    def rules(
        self,
        config: Any,
        ids: Sequence[int],
        speech: Mapping[str, Any] | None = None,
        device: Any = "cpu",
    ) -> list[Any]:
        """Return its processors for suppressed tokens and times; see the base class."""
        from transformers import WhisperForConditionalGeneration

        own = self._settled(speech or {})
        for name in _OWN_CHOICE:
            if getattr(config, name, None):
                setattr(own, name, None)
        # It finds windows to skip in a long sound, and here is one window.
        own.no_speech_threshold = None
        made: Any = WhisperForConditionalGeneration._retrieve_logit_processors(
            SimpleNamespace(),  # pyright: ignore[reportArgumentType] only the search for silence asks the model
            generation_config=own,
            logits_processor=None,
            begin_index=self._text_begins(ids, own),
            num_beams=1,
            device=device,
        )
        return list(made or [])

    def _settled(self, speech: Mapping[str, Any]) -> Any:
        """Return the model's own configuration with what it is told.

        Raises:
            ParameterError: the model knows no languages, or no times.
        """
        from transformers import WhisperForConditionalGeneration as Whisper

        own = copy.deepcopy(self.own)
        times = bool(speech.get("return_timestamps", False))
        # Of the model it wants to know how many tokens there are, where times have none of their own.
        asked: Any = SimpleNamespace(config=SimpleNamespace(vocab_size=0))
        try:
            Whisper._set_return_timestamps(asked, times, is_shortform=True, generation_config=own)
            Whisper._set_language_and_task(
                language=speech.get("language"),
                task=speech.get("task"),
                is_multilingual=None,
                generation_config=own,
            )
        except ValueError:
            raise _refused(speech) from None
        return own

    def _said(self, loaded: Any, prompt: str | None) -> list[int]:
        if not prompt:
            return []
        if not hasattr(loaded.tokenizer, "get_prompt_ids"):
            raise ParameterError(
                "prompt", prompt, "the model has no tokenizer of Whisper's, so it takes none"
            )
        try:
            return loaded.tokenizer.get_prompt_ids(prompt).tolist()
        except ValueError:
            what = "it spells a token of the model's own, and what was said before is plain text"
            raise ParameterError("prompt", prompt, what) from None

    @staticmethod
    def _text_begins(ids: Sequence[int], own: Any) -> int:
        """Return the place of the first token of the text among ids that may go on after it."""
        forced = {
            own.decoder_start_token_id,
            getattr(own, "no_timestamps_token_id", None),
            *(getattr(own, "lang_to_id", None) or {}).values(),
            *(getattr(own, "task_to_id", None) or {}).values(),
        }
        start = list(ids).index(own.decoder_start_token_id)
        return next((n for n in range(start, len(ids)) if ids[n] not in forced), len(ids))


def _refused(speech: Mapping[str, Any]) -> ParameterError:
    """Return one sentence about what a model's own generate() refuses."""
    language, task, times = (speech.get(n) for n in ("language", "task", "return_timestamps"))
    if language is not None:
        what = "the model does not know it, or knows one language alone"
        return ParameterError("speech.language", language, what)
    if task is not None:
        return ParameterError("speech.task", task, "the model knows one task alone")
    if times:
        return ParameterError(
            "speech.return_timestamps", times, "the model has no tokens for times"
        )
    return ParameterError("speech", None, "the model has to be told a language")
