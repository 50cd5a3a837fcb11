"""Reader for models with the picture among the prompt's tokens; the processor inserts its placeholder tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from engine.declare.special_tokens import PARSE, TEXT
from engine.errors import ModelError, ParameterError
from engine.media import Media
from engine.messages import Message
from engine.models.chat import ChatPrompt
from engine.models.readers import picture_chat
from engine.models.readers.base import MediaInputs, MediaReader
from engine.models.readers.token_type_padding import pad_token_types
from engine.models.special_tokens import encode_prompt, find_special_tokens

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel


class PromptReader(MediaReader):
    """Puts the picture before the text, or at the image token if the text contains it."""

    def read(
        self,
        loaded: LoadedModel,
        media: Media,
        prompt: str | None = None,
        ids: Sequence[int] | None = None,
        speech: Mapping[str, object] | None = None,
        special_tokens: str = TEXT,
    ) -> MediaInputs:
        """Return the prompt's ids with the picture's placeholder tokens, and the picture; see the base class."""
        del speech
        if media.picture is None:
            return MediaInputs(tuple(ids or self._encode_alone(loaded, prompt, special_tokens)))
        found = self._process_picture(loaded, media.picture.image, prompt or "", special_tokens)
        own = found.pop("input_ids")[0].tolist()
        found.pop("attention_mask", None)
        if ids is None:
            return MediaInputs(tuple(own), found)
        return MediaInputs(tuple(ids), pad_token_types(found, len(ids)))

    def read_chat(
        self,
        loaded: LoadedModel,
        media: Media,
        messages: Sequence[Mapping[str, object]],
        template: Mapping[str, object],
        chat: ChatPrompt,
    ) -> tuple[MediaInputs, ChatPrompt]:
        """Return the inputs and tokens of a conversation with the picture; see the base class."""
        assert media.picture is not None
        text = picture_chat.render_with_picture(
            self.processors.whole, loaded.name, messages, template
        )
        found = self._run_processor(media.picture.image, text)
        own = found.pop("input_ids")[0].tolist()
        found.pop("attention_mask", None)
        return MediaInputs(tuple(own), found), picture_chat.insert_picture(chat, text, own)

    def _encode_alone(
        self, loaded: LoadedModel, prompt: str | None, special_tokens: str
    ) -> list[int]:
        if loaded.tokenizer is None:
            raise ModelError("{name} has no tokenizer: give input_ids.", name=loaded.name)
        return encode_prompt(loaded.tokenizer, prompt or "", special_tokens)

    def _process_picture(
        self, loaded: LoadedModel, image: object, prompt: str, special_tokens: str
    ) -> dict[str, torch.Tensor]:
        whole = self.processors.whole
        if whole is None:
            # Models like GIT: the picture comes before all tokens, without placeholder tokens.
            found = self.processors.pictures(images=image, return_tensors="pt")
            own = self._encode_alone(loaded, prompt, special_tokens)
            ids = torch.tensor([own or [_first_token_id(loaded)]])
            return {"input_ids": ids, **_tensor_values(found)}
        mark = getattr(whole, "image_token", None)
        if special_tokens != PARSE:
            self._check_no_control_tokens(loaded, prompt, mark)
        tensors = self._run_processor(
            image, f"{mark}{prompt}" if mark and mark not in prompt else prompt
        )
        if "input_ids" not in tensors:
            tensors["input_ids"] = torch.tensor([[_first_token_id(loaded)]])
        return tensors

    def _run_processor(self, image: object, text: str) -> dict[str, torch.Tensor]:
        try:
            found = self.processors.whole(images=image, text=text or None, return_tensors="pt")
        except (ValueError, TypeError, IndexError) as error:
            words = " ".join(str(error).split()) or type(error).__name__
            what = Message(
                "the model's processor cannot put the picture into it ({words})", words=words[:120]
            )
            raise ParameterError("prompt", text, what) from None
        return _tensor_values(found)

    @staticmethod
    def _check_no_control_tokens(loaded: LoadedModel, prompt: str, mark: str | None) -> None:
        """Raise ParameterError if the text spells a control token, since the processor would read it as one."""
        if loaded.tokenizer is None:
            return
        found = find_special_tokens(loaded.tokenizer, prompt)
        spelled = next((token for token in found if token != mark), None)
        if spelled is not None:
            what = "with a picture it may spell no control token of the model"
            raise ParameterError("prompt", spelled, what)


def _first_token_id(loaded: LoadedModel) -> int:
    """Return the first token of an empty text.

    Raises:
        ModelError: the model declares none.
    """
    tokenizer, config = loaded.tokenizer, loaded.model.config
    for found in (
        getattr(tokenizer, "cls_token_id", None),
        getattr(tokenizer, "bos_token_id", None),
        getattr(config.get_text_config(decoder=True), "bos_token_id", None),
    ):
        if found is not None:
            return int(found)
    raise ModelError("{name} does not say with which token a text begins.", name=loaded.name)


def _tensor_values(found: Mapping[str, object]) -> dict[str, torch.Tensor]:
    return {name: value for name, value in found.items() if torch.is_tensor(value)}
