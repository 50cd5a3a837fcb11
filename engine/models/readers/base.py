"""What every reader of pictures or sounds has in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from engine.errors import ParameterError
from engine.media import Media
from engine.models.chat import ChatPrompt
from engine.models.readers.families import Family
from engine.models.readers.processors import Processors


@dataclass(frozen=True)
class MediaInputs:
    """What was given to a model, as generate() takes it.

    Attributes:
        ids: what the decoder begins with, its start token included where it has one of its own.
        inputs: further inputs of generate(), such as pixel_values; on the CPU.
    """

    ids: tuple[int, ...]
    inputs: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def on(self, device: Any, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """Return the inputs on a device, numbers with a point as a model's own kind."""
        kinds = {
            name: dtype if v.is_floating_point() else v.dtype for name, v in self.inputs.items()
        }
        return {name: value.to(device, kinds[name]) for name, value in self.inputs.items()}


class MediaReader:
    """Turns pictures and sounds into inputs of one model.

    Args:
        family: what kind of model it is.
        processors: of its folder.
        model: as transformers loads it, whole.

    Attributes:
        takes: "image" or "audio".
        needs: which of them must be given, None where text alone will do.
        encodes: whether an encoder reads them, so that the prompt is what the decoder begins with.
    """

    def __init__(self, family: Family, processors: Processors, model: Any) -> None:
        self.family, self.processors = family, processors
        self.takes, self.needs, self.encodes = family.takes, family.needs, family.encodes
        del model

    def read(
        self,
        loaded: Any,
        media: Media,
        prompt: str | None = None,
        ids: Sequence[int] | None = None,
        speech: Mapping[str, Any] | None = None,
    ) -> MediaInputs:
        """Return what a model begins with.

        Args:
            loaded: the LoadedModel.
            media: what it is given.
            prompt: text that the output continues, None for none.
            ids: in place of a prompt: what the decoder begins with, as an earlier ``read`` returned it and with
                more tokens after it.
            speech: what a speech model is told, see SPEECH; None for nothing.
        """
        raise NotImplementedError

    def converse(
        self,
        loaded: Any,
        media: Media,
        messages: Sequence[Mapping[str, Any]],
        template: Mapping[str, Any],
        chat: ChatPrompt,
    ) -> tuple[MediaInputs, ChatPrompt]:
        """Return what a model begins with in a conversation, and that conversation with the picture in it.

        Args:
            loaded: the LoadedModel.
            media: what it is given.
            messages: each with role and content.
            template: the other arguments of apply_chat_template.
            chat: the conversation without the picture.

        Raises:
            ParameterError: the model is not talked to about pictures or sounds.
        """
        del loaded, media, template, chat
        what = "this model is given a prompt beside a picture or a sound"
        raise ParameterError("messages", f"{len(messages)} messages", what)

    def rules(
        self,
        config: Any,
        ids: Sequence[int],
        speech: Mapping[str, Any] | None = None,
        device: Any = "cpu",
    ) -> list[Any]:
        """Return the logits processors that the model's own generate() adds.

        Args:
            config: a strategy's config.
            ids: what the decoder begins with.
            speech: as in ``read``.
            device: where scores are.
        """
        del config, ids, speech, device
        return []

    def check(self, name: str, media: Media, speech: Mapping[str, Any]) -> None:
        """Refuse what the model cannot be given, or lacks.

        Raises:
            ParameterError: one sentence.
        """
        check_media(name, media, self.takes)
        for told in speech if not self.family.speaks else ():
            raise ParameterError(
                f"speech.{told}", speech[told], f"{name} is not told any such thing"
            )
        if self.needs == "image" and media.picture is None:
            raise ParameterError("image", None, f"{name} needs a picture", "give one")
        if self.needs == "audio" and media.sound is None:
            raise ParameterError("audio", None, f"{name} needs a sound", "give one")


def check_media(name: str, media: Media, takes: frozenset[str] = frozenset()) -> None:
    """Refuse a picture or a sound that a model does not take.

    Raises:
        ParameterError: one sentence.
    """
    other = "choose a model that does"
    if media.picture is not None and "image" not in takes:
        raise ParameterError("image", "…", f"{name} reads no pictures", other)
    if media.sound is not None and "audio" not in takes:
        raise ParameterError("audio", "…", f"{name} reads no sounds", other)
