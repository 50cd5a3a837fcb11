"""Tiny models that look at a picture or listen to a sound, made from configurations and seeds; nothing is fetched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image

from engine.media import to_picture, to_sound
from engine.models.loading import LoadedModel
from engine.models.model_views import copy_without_defaults
from tests.helpers.models import VOCAB, new_tokens, set_weights
from tests.helpers.tokenizers import make_tokenizer

_IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
_EYE = {**_SMALL, "image_size": 32, "patch_size": 8}
IMAGE_TOKEN = "<image>"
LANGUAGES = {"<|en|>": 91, "<|de|>": 92}
TASKS = {"transcribe": 93, "translate": 94}


def image(seed: int = 0, width: int = 48, height: int = 36) -> Image.Image:
    """Return a picture of coloured noise."""
    pixels = np.random.RandomState(seed).randint(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels, "RGB")


def wave(seed: int = 0, seconds: float = 1.0, rate: int = 16_000) -> tuple[np.ndarray, int]:
    """Return a sound of a few tones."""
    at = np.arange(int(seconds * rate)) / rate
    tones = np.random.RandomState(seed).uniform(200, 2000, 3)
    return sum(0.2 * np.sin(2 * np.pi * tone * at) for tone in tones).astype(np.float32), rate


@dataclass(frozen=True)
class Kind:
    """A model that reads more than text.

    Attributes:
        make: returns the model as transformers makes it, its processor and its tokenizer.
        native: (model, processor, prompt, arguments of generate()) -> (rows, length) ids that transformers' own
            generate() returns, and how many of them are no new ones.
        given: the field of a request: image or audio.
        prompt: text that goes along, None for none.
        refuses: strategies that it cannot serve.
    """

    make: Callable[[], tuple[Any, Any, Any]]
    native: Callable[..., tuple[torch.Tensor, int]]
    given: str = "image"
    prompt: str | None = None
    refuses: frozenset[str] = frozenset()


def _pictures(**more: Any) -> Any:
    return transformers.ViTImageProcessorPil(size={"height": 32, "width": 32}, **more)


def _captioner() -> tuple[Any, Any, Any]:
    eye = transformers.ViTConfig(**_EYE)
    mouth = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=64, n_embd=32, n_layer=2, n_head=4, **_IDS
    )
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(eye, mouth)
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = 1, 0, 2
    return transformers.VisionEncoderDecoderModel(config), _pictures(), make_tokenizer(70)


def _blip() -> tuple[Any, Any, Any]:
    text = {
        **_SMALL,
        "vocab_size": VOCAB,
        "max_position_embeddings": 64,
        "encoder_hidden_size": 32,
        "projection_dim": 32,
        **_IDS,
        "bos_token_id": 3,
        "sep_token_id": 2,
    }
    config = transformers.BlipConfig(text_config=text, vision_config=_EYE, projection_dim=32)
    return transformers.BlipForConditionalGeneration(config), _pictures(), make_tokenizer(70)


def _git() -> tuple[Any, Any, Any]:
    config = transformers.GitConfig(
        vision_config=_EYE, vocab_size=VOCAB, max_position_embeddings=64, **_SMALL, **_IDS
    )
    return transformers.GitForCausalLM(config), _pictures(), make_tokenizer(70)


def _llava() -> tuple[Any, Any, Any]:
    tokenizer = make_tokenizer(70)
    tokenizer.add_special_tokens({"additional_special_tokens": [IMAGE_TOKEN]})
    mark = tokenizer.convert_tokens_to_ids(IMAGE_TOKEN)
    config = transformers.LlavaConfig(
        text_config=transformers.LlamaConfig(
            vocab_size=VOCAB, num_key_value_heads=2, max_position_embeddings=256, **_SMALL, **_IDS
        ),
        vision_config=transformers.CLIPVisionConfig(**_EYE, projection_dim=32),
        image_token_index=mark,
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
        **_IDS,
    )
    eye = transformers.CLIPImageProcessorPil(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )
    processor = transformers.LlavaProcessor(
        eye,
        tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        image_token=IMAGE_TOKEN,
        num_additional_image_tokens=1,
    )
    return transformers.LlavaForConditionalGeneration(config), processor, tokenizer


def _whisper() -> tuple[Any, Any, Any]:
    config = transformers.WhisperConfig(
        vocab_size=VOCAB + 1510,
        num_mel_bins=16,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_target_positions=64,
        decoder_start_token_id=90,
        suppress_tokens=None,
        begin_suppress_tokens=None,
        **_IDS,
    )
    model = transformers.WhisperForConditionalGeneration(config)
    for name, value in {
        "lang_to_id": LANGUAGES,
        "task_to_id": TASKS,
        "no_timestamps_token_id": 95,
        "is_multilingual": True,
        "suppress_tokens": [5, 6, 7, 90, 91, 92, 93, 94, 95],
        "begin_suppress_tokens": [8, 2],
        "max_initial_timestamp_index": 50,
        "decoder_start_token_id": 90,
    }.items():
        setattr(model.generation_config, name, value)
    # Or transformers would take what it saved for a copy of config.json.
    model.generation_config._from_model_config = False
    return model, transformers.WhisperFeatureExtractor(feature_size=16), None


def _speech2text() -> tuple[Any, Any, Any]:
    config = transformers.Speech2TextConfig(
        vocab_size=VOCAB,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        input_feat_per_channel=16,
        max_source_positions=600,
        max_target_positions=64,
        decoder_start_token_id=2,
        **_IDS,
    )
    ear = transformers.Speech2TextFeatureExtractor(feature_size=16, num_mel_bins=16)
    return transformers.Speech2TextForConditionalGeneration(config), ear, make_tokenizer(70)


def _by_encoder(
    model: Any, processor: Any, tokenizer: Any, prompt: str | None, **kwargs: Any
) -> tuple[torch.Tensor, int]:
    start = model.generation_config.decoder_start_token_id
    start = model.config.decoder_start_token_id if start is None else start
    more = tokenizer(prompt, add_special_tokens=False)["input_ids"] if prompt else []
    ids = torch.tensor([[start, *more]])
    return model.generate(**processor, decoder_input_ids=ids, **kwargs), ids.shape[1]


def _by_blip(
    model: Any, processor: Any, tokenizer: Any, prompt: str | None, **kwargs: Any
) -> tuple[torch.Tensor, int]:
    more = tokenizer(prompt, add_special_tokens=False)["input_ids"] if prompt else []
    # The last of them is cut off: it is where a tokenizer puts the separator.
    ids = torch.tensor([[0, *more, 2]])
    kwargs.pop("pad_token_id", None)
    return model.generate(**processor, input_ids=ids, **kwargs), ids.shape[1] - 1


def _by_prompt(
    model: Any, processor: Any, tokenizer: Any, prompt: str | None, **kwargs: Any
) -> tuple[torch.Tensor, int]:
    ids = torch.tensor([tokenizer(prompt)["input_ids"]])
    mask = torch.ones_like(ids)
    return model.generate(ids, attention_mask=mask, **processor, **kwargs), ids.shape[1]


def _by_processor(
    model: Any, processor: Any, tokenizer: Any, prompt: str | None, **kwargs: Any
) -> tuple[torch.Tensor, int]:
    del tokenizer, prompt
    return model.generate(**processor, **kwargs), processor["input_ids"].shape[1]


def _by_whisper(
    model: Any, processor: Any, tokenizer: Any, prompt: str | None, **kwargs: Any
) -> tuple[torch.Tensor, int]:
    del tokenizer, prompt
    rows = model.generate(**processor, force_unique_generate_call=True, **kwargs)
    forced = {90, 95, *LANGUAGES.values(), *TASKS.values()}
    return rows, next(n for n, token in enumerate(rows[0].tolist()) if token not in forced)


def by_common_generate(seed: int, **kwargs: Any) -> list[list[int]]:
    """Return the new tokens of the common generate() for the tiny Whisper, whose own draws no beams.

    Its rules are written down here as the paper's code has them: suppressed tokens, and those at the beginning.
    """
    model, processor, _ = _made("whisper")
    samples, rate = wave()
    features = processor(
        to_sound((samples, rate)).resample(rate), sampling_rate=rate, return_tensors="pt"
    )
    begin = [90, LANGUAGES["<|en|>"], TASKS["transcribe"], 95]
    own = model.generation_config
    rules = [
        transformers.SuppressTokensAtBeginLogitsProcessor(own.begin_suppress_tokens, len(begin)),
        transformers.SuppressTokensLogitsProcessor(own.suppress_tokens),
    ]
    torch.manual_seed(seed)
    rows = transformers.GenerationMixin.generate(
        copy_without_defaults(model),
        **features,
        decoder_input_ids=torch.tensor([begin]),
        logits_processor=transformers.LogitsProcessorList(rules),
        **kwargs,
    )
    return [new_tokens(row[len(begin) :], (2,)) for row in rows.tolist()]


ENCODER_DECODER = frozenset({"speculative", "early_exit", "universal_assisted", "dola"})
KINDS = {
    "vit-gpt2": Kind(_captioner, _by_encoder, prompt="the little", refuses=ENCODER_DECODER),
    "blip": Kind(_blip, _by_blip, prompt="a red ball"),
    "git": Kind(_git, _by_prompt, prompt="the little bear"),
    "llava": Kind(_llava, _by_processor, prompt="the little bear"),
    "whisper": Kind(_whisper, _by_whisper, "audio", refuses=ENCODER_DECODER),
    "speech2text": Kind(_speech2text, _by_encoder, "audio", refuses=ENCODER_DECODER),
}


@lru_cache(maxsize=8)
def _made(name: str) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    model, processor, tokenizer = KINDS[name].make()
    set_weights(model, 0.3, 5)
    return model.eval(), processor, tokenizer


@lru_cache(maxsize=8)
def media_model(name: str) -> LoadedModel:
    """Return a shared tiny model of KINDS."""
    model, processor, tokenizer = _made(name)
    return LoadedModel(model, tokenizer, name, processor=processor)


def given(name: str, seed: int = 0) -> dict[str, Any]:
    """Return the field of a request that gives a model a picture or a sound."""
    kind = KINDS[name]
    return {"image": image(seed)} if kind.given == "image" else {"audio": wave(seed)}


def native(name: str, seed: int = 0, of: int = 0, **kwargs: Any) -> list[list[int]]:
    """Return the new tokens of transformers' own generate(), padding after the end cut.

    Args:
        name: of KINDS.
        seed: of what is drawn.
        of: seed of the picture or the sound.
        kwargs: of generate().
    """
    kind, (model, processor, tokenizer) = KINDS[name], _made(name)
    if kind.given == "image":
        own = to_picture(image(of)).image
        text = {"text": f"{IMAGE_TOKEN}{kind.prompt}"} if name == "llava" else {}
        inputs = processor(images=own, return_tensors="pt", **text)
    else:
        samples, rate = wave(of)
        heard = to_sound((samples, rate)).resample(rate)
        inputs = processor(heard, sampling_rate=rate, return_tensors="pt")
    torch.manual_seed(seed)
    with torch.no_grad():
        rows, start = kind.native(model, dict(inputs), tokenizer, kind.prompt, **kwargs)
    return [new_tokens(row[start:], (2,)) for row in rows.tolist()]


def saved(name: str, folder: Path) -> str:
    """Write a tiny model of KINDS as transformers does; return the folder."""
    model, processor, tokenizer = _made(name)
    for part in (model, processor, tokenizer):
        if part is not None:
            part.save_pretrained(folder)
    return str(folder)
