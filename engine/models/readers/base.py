"""Base class of the readers of pictures and sounds, and the inputs they return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from engine.declare.special_tokens import TEXT
from engine.errors import ParameterError
from engine.media import Media
from engine.messages import Message
from engine.models.chat import ChatPrompt
from engine.models.model_types import Model
from engine.models.readers.families import Family
from engine.models.readers.processors import Processors

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel


@dataclass(frozen=True)
class MediaInputs:
    """A model's inputs, in the form generate() takes.

    Attributes:
        ids: the decoder's first token ids, including its start token if it has one.
        inputs: further inputs of generate(), such as pixel_values; on the CPU.
    """

    ids: tuple[int, ...]
    inputs: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def to_device(self, device: torch.device | str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """Return the inputs on a device, with floating-point tensors in the model's dtype."""
        kinds = {
            name: dtype if v.is_floating_point() else v.dtype for name, v in self.inputs.items()
        }
        return {name: value.to(device, kinds[name]) for name, value in self.inputs.items()}


class MediaReader:
    """Turns pictures and sounds into inputs of one model.

    Args:
        family: the model's family.
        processors: the processors of its folder.
        model: the complete transformers model.

    Attributes:
        takes: accepted inputs besides text: "image" or "audio".
        needs: the required one, None if text alone is enough.
        encodes: whether an encoder reads them, so that the prompt is the start of the decoder's text.
    """

    def __init__(self, family: Family, processors: Processors, model: Model) -> None:
        self.family, self.processors = family, processors
        self.takes, self.needs, self.encodes = family.takes, family.needs, family.encodes
        del model

    def read(
        self,
        loaded: LoadedModel,
        media: Media,
        prompt: str | None = None,
        ids: Sequence[int] | None = None,
        speech: Mapping[str, object] | None = None,
        special_tokens: str = TEXT,
    ) -> MediaInputs:
        """Return the inputs for a prompt with a picture or a sound.

        Args:
            loaded: the LoadedModel.
            media: the picture or sound.
            prompt: text that the output continues, None for none.
            ids: instead of a prompt: the decoder's ids of an earlier ``read``, with more tokens after them.
            speech: settings of a speech model, see SPEECH; None for none.
            special_tokens: how special tokens are read that the prompt spells.
        """
        raise NotImplementedError

    def read_chat(
        self,
        loaded: LoadedModel,
        media: Media,
        messages: Sequence[Mapping[str, object]],
        template: Mapping[str, object],
        chat: ChatPrompt,
    ) -> tuple[MediaInputs, ChatPrompt]:
        """Return the inputs for a conversation with a picture, and that conversation as tokens.

        Args:
            loaded: the LoadedModel.
            media: the picture or sound.
            messages: each with role and content.
            template: the other arguments of apply_chat_template.
            chat: the conversation without the picture.

        Raises:
            ParameterError: the model does not support conversations with pictures or sounds.
        """
        del loaded, media, template, chat
        what = "this model takes a prompt with a picture or a sound"
        raise ParameterError("messages", Message("{n} messages", n=len(messages)), what)

    def logits_processors(
        self,
        config: Any,
        ids: Sequence[int],
        speech: Mapping[str, object] | None = None,
        device: torch.device | str = "cpu",
    ) -> list[Any]:
        """Return the logits processors that the model's own generate() adds.

        Args:
            config: a strategy's config.
            ids: the decoder's first token ids.
            speech: as in ``read``.
            device: device of the scores.
        """
        del config, ids, speech, device
        return []

    def check(self, name: str, media: Media, speech: Mapping[str, object]) -> None:
        """Check that the model takes the given media and settings, and that required ones are there.

        Raises:
            ParameterError: an input is missing or not supported.
        """
        check_media(name, media, self.takes)
        for setting in speech if not self.family.is_speech_model else ():
            raise ParameterError(
                f"speech.{setting}",
                speech[setting],
                Message("{name} gets no such information", name=name),
            )
        if self.needs == "image" and media.picture is None:
            raise ParameterError(
                "image", None, Message("{name} needs a picture", name=name), "give one"
            )
        if self.needs == "audio" and media.sound is None:
            raise ParameterError(
                "audio", None, Message("{name} needs a sound", name=name), "give one"
            )


def check_media(name: str, media: Media, takes: frozenset[str] = frozenset()) -> None:
    """Check that a model takes the given picture or sound.

    Raises:
        ParameterError: it does not.
    """
    other = "choose a model that does"
    if media.picture is not None and "image" not in takes:
        raise ParameterError("image", "…", Message("{name} reads no pictures", name=name), other)
    if media.sound is not None and "audio" not in takes:
        raise ParameterError("audio", "…", Message("{name} reads no sounds", name=name), other)
