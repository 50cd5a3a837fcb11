"""Validates the images, sounds and speech options of a request, and encodes them for the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.errors import ModelError, ParameterError
from engine.media import Media, load_trace_media, to_picture, to_sound
from engine.messages import Message
from engine.model_code import PROCESSOR, ModelCall
from engine.models.chat import ChatPrompt
from engine.models.readers.base import MediaInputs, check_media
from engine.models.readers.speech import MAX_LANGUAGE_CHARS, TASKS
from engine.run.chat_request import resolve_template
from engine.run.prompt_request import check_prompt_length
from engine.trace.records import Trace

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel
    from engine.run.request import CheckedRequest, DecodeRequest

SPEECH_FIELDS = ("language", "task", "return_timestamps")
"""Options of Whisper's generate(), by their names in transformers."""


def open_media(request: DecodeRequest) -> Media:
    """Open the image and the sound of a request.

    Raises:
        ParameterError: one sentence with parameter, value and range.
    """
    check_speech(request.speech)
    picture = None if request.image is None else to_picture(request.image)
    sound = None if request.audio is None else to_sound(request.audio)
    return Media(picture, sound)


def check_speech(speech: object) -> None:
    """Check speech options without a model; whether the model has them is checked later.

    Raises:
        ParameterError: one sentence with name, value and range.
    """
    if not isinstance(speech, Mapping):
        raise ParameterError("speech", speech, "it must be an object of names and values")
    for name, value in speech.items():
        if name not in SPEECH_FIELDS:
            raise ParameterError(
                "speech",
                name,
                Message("it has {names} and nothing else", names=", ".join(SPEECH_FIELDS)),
            )
        if name == "return_timestamps" and not isinstance(value, bool):
            raise ParameterError(f"speech.{name}", value, "it must be true or false")
        if name == "task" and value not in TASKS:
            raise ParameterError(
                f"speech.{name}",
                value,
                Message("it must be one of {choices}", choices=", ".join(TASKS)),
            )
        text = isinstance(value, str) and 1 <= len(value) <= MAX_LANGUAGE_CHARS
        if name == "language" and not text:
            raise ParameterError(f"speech.{name}", value, "it must be a language, such as en")


def load_media_fields(trace: Trace) -> dict[str, Any]:
    """Return the request fields (image, audio, speech) of a recorded run.

    Raises:
        EngineError: its image or sound is not in memory any more.
    """
    media, speech = load_trace_media(trace), trace.speech
    given = {"image": media.picture, "audio": media.sound, "speech": speech}
    return {name: value for name, value in given.items() if value is not None}


def load_media_inputs(trace: Trace, loaded: LoadedModel) -> dict[str, Any]:
    """Return a recorded run's further model inputs, on the model's device; empty for text alone.

    Args:
        trace: the run.
        loaded: a LoadedModel that reads the same inputs.

    Raises:
        EngineError: its image or sound is not in memory any more.
    """
    media = load_trace_media(trace)
    if not media or loaded.reader is None:
        return {}
    encoded = loaded.reader.read(loaded, media, ids=trace.prompt_ids, speech=trace.speech)
    return encoded.to_device(loaded.device, loaded.model.dtype)


def encode_media_prompt(
    checked: CheckedRequest, loaded: LoadedModel
) -> tuple[MediaInputs, ChatPrompt | None] | None:
    """Return the inputs and prompt ids of an image or a sound, and the conversation if any.

    None if the request has neither.

    Args:
        checked: a CheckedRequest, fitted to the model.
        loaded: the LoadedModel.

    Raises:
        ModelError: the model was loaded without its processor.
        ParameterError: the model does not accept the input, or lacks one that it needs.
    """
    request, media, reader = checked.request, checked.media, loaded.reader
    if reader is None and media and media.kinds() & loaded.capabilities.takes:
        raise ModelError(
            "{name} was loaded without its processor: give LoadedModel one.", name=loaded.name
        )
    if reader is None:
        check_media(loaded.name, media)
        return None
    reader.check(loaded.name, media, request.speech)
    if not media:
        return None
    chat, ids, messages = checked.chat, request.input_ids, request.messages
    with ModelCall(PROCESSOR, loaded.name):
        if chat is None or messages is None:
            reading = checked.special_tokens
            encoded = reader.read(loaded, media, request.prompt, ids, request.speech, reading)
        else:
            template = resolve_template(messages, request.template)
            encoded, chat = reader.read_chat(loaded, media, messages, template, chat)
    given = ("messages", chat), ("input_ids", ids), ("prompt", request.prompt or None)
    name = next((n for n, value in given if value is not None), min(media.kinds()))
    check_prompt_length(name, len(encoded.ids), loaded)
    most = loaded.vocab_size - 1
    beyond = next((i for i in encoded.ids if i > most), None)
    if beyond is not None:
        allowed = Message("token ids of this model go from 0 to {last}", last=most)
        raise ParameterError("input_ids", beyond, allowed)
    return encoded, chat
