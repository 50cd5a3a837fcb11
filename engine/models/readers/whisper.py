"""Reader for Whisper: its forced first tokens and logits processors, as WhisperGenerationMixin.generate() sets them.

What that method does for one window (languages, tasks, timestamps, suppressed tokens) is done here by calling
the model's own methods, so the results equal those of transformers. A sound longer than the model's window is
refused, since generate() would decode several windows and join their texts.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from engine.errors import ParameterError
from engine.media import Media
from engine.messages import Message
from engine.models.model_types import Model
from engine.models.readers.encoder_reader import EncoderReader
from engine.models.readers.families import Family
from engine.models.readers.processors import Processors

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel

_REQUEST_FIELDS = ("suppress_tokens", "begin_suppress_tokens")
"""Fields of a request that replace the model's own values."""


class WhisperReader(EncoderReader):
    """Starts with the tokens for language, task and timestamps, and applies the model's own logits processors."""

    def __init__(self, family: Family, processors: Processors, model: Model) -> None:
        super().__init__(family, processors, model)
        # Copied before loading reduces it to special ids: for Whisper the rest is grammar, not defaults.
        self.own = copy.deepcopy(model.generation_config)

    def check(self, name: str, media: Media, speech: Mapping[str, object]) -> None:
        """Check the inputs; a sound longer than the window is refused, since the processor would cut it silently."""
        super().check(name, media, speech)
        window = getattr(self.processors.sounds, "chunk_length", None)
        if media.sound is not None and window is not None and media.sound.seconds > window:
            allowed = Message("{name} hears up to {n} seconds", name=name, n=f"{window:g}")
            seconds = Message("{max_check_s} seconds", max_check_s=f"{media.sound.seconds:.3g}")
            raise ParameterError("audio", seconds, allowed, "give a shorter one")

    def decoder_start_ids(
        self,
        loaded: LoadedModel,
        inputs: Mapping[str, torch.Tensor],
        prompt: str | None,
        speech: Mapping[str, object],
        special_tokens: str,
    ) -> tuple[int, ...]:
        """Return the tokens of the previous text, if any, and the forced first tokens.

        Without a language setting the model detects it, which costs one more pass.
        """
        del special_tokens  # its tokenizer refuses a previous text that spells any
        model, own = loaded.model, self._configure(speech)
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
            raise _refusal_error(speech) from None
        return (*self._encode_previous_text(loaded, prompt), *forced[0].tolist())

    def logits_processors(
        self,
        config: Any,
        ids: Sequence[int],
        speech: Mapping[str, object] | None = None,
        device: torch.device | str = "cpu",
    ) -> list[Any]:
        """Return its logits processors for suppressed tokens and timestamps; see the base class."""
        from transformers import WhisperForConditionalGeneration

        own = self._configure(speech or {})
        for name in _REQUEST_FIELDS:
            if getattr(config, name, None):
                setattr(own, name, None)
        # The threshold skips silent windows of a long sound; here there is only one window.
        own.no_speech_threshold = None
        processors: Any = WhisperForConditionalGeneration._retrieve_logit_processors(
            SimpleNamespace(),  # pyright: ignore[reportArgumentType] only the search for silence asks the model
            generation_config=own,
            logits_processor=None,
            begin_index=self._text_start(ids, own),
            num_beams=1,
            device=device,
        )
        return list(processors or [])

    def _configure(self, speech: Mapping[str, object]) -> Any:
        """Return the model's own generation configuration with the speech settings applied.

        Raises:
            ParameterError: the model does not support one of the settings.
        """
        from transformers import WhisperForConditionalGeneration as Whisper

        own = copy.deepcopy(self.own)
        times = bool(speech.get("return_timestamps", False))
        # transformers reads only the vocabulary size of the model here, if there are no timestamp tokens.
        model: Any = SimpleNamespace(config=SimpleNamespace(vocab_size=0))
        try:
            Whisper._set_return_timestamps(model, times, is_shortform=True, generation_config=own)
            Whisper._set_language_and_task(
                language=speech.get("language"),
                task=speech.get("task"),
                is_multilingual=None,
                generation_config=own,
            )
        except ValueError:
            raise _refusal_error(speech) from None
        return own

    def _encode_previous_text(self, loaded: LoadedModel, prompt: str | None) -> list[int]:
        if not prompt:
            return []
        tokenizer = loaded.tokenizer
        if tokenizer is None or not hasattr(tokenizer, "get_prompt_ids"):
            raise ParameterError(
                "prompt", prompt, "the model has no tokenizer of Whisper's, so it takes none"
            )
        try:
            return tokenizer.get_prompt_ids(prompt).tolist()
        except ValueError:
            what = "it spells a token of the model's own, and what was said before is plain text"
            raise ParameterError("prompt", prompt, what) from None

    @staticmethod
    def _text_start(ids: Sequence[int], own: Any) -> int:
        """Return the index of the first text token; the ids may continue after it."""
        forced = {
            own.decoder_start_token_id,
            getattr(own, "no_timestamps_token_id", None),
            *(getattr(own, "lang_to_id", None) or {}).values(),
            *(getattr(own, "task_to_id", None) or {}).values(),
        }
        start = list(ids).index(own.decoder_start_token_id)
        return next((n for n in range(start, len(ids)) if ids[n] not in forced), len(ids))


def _refusal_error(speech: Mapping[str, object]) -> ParameterError:
    """Return the error for settings that the model's own generate() refuses."""
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
    return ParameterError("speech", None, "the model needs a language")
