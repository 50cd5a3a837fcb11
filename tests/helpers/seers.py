"""Tiny models that read a picture or listen, in folders of their own, for whoever names one on the page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from engine.sources.catalogue import MODEL_DIR

SIDE = 32


def seer(folder: Path) -> str:
    """Write a vision encoder-decoder with the words of the embedded model; return its folder."""
    from transformers import (
        AutoTokenizer,
        GPT2Config,
        VisionEncoderDecoderConfig,
        VisionEncoderDecoderModel,
        ViTConfig,
        ViTImageProcessorPil,
    )

    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR / "storyteller")
    start = tokenizer.bos_token_id or tokenizer.eos_token_id or 0
    ends = {"bos_token_id": start, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": start}
    sees = ViTConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=SIDE,
        patch_size=8,
    )
    writes = GPT2Config(
        vocab_size=len(tokenizer), n_positions=64, n_embd=32, n_layer=1, n_head=2, **ends
    )
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(sees, writes)
    config.decoder_start_token_id = start
    torch.manual_seed(0)
    model = VisionEncoderDecoderModel(config)
    model.generation_config.update(decoder_start_token_id=start, **ends)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    ViTImageProcessorPil(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)
    return str(folder)


LANGUAGES = ("en", "de", "ja")
"""Of a listener that knows several, one token each, before its tasks and its times."""
TASKS = ("transcribe", "translate")
_TIMES = 1501


def listener(
    folder: Path,
    languages: tuple[str, ...] = (),
    tasks: tuple[str, ...] = (),
    times: bool = False,
    window: int = 30,
) -> str:
    """Write a tiny Whisper with the words of the embedded model; return its folder.

    Args:
        folder: takes it.
        languages: codes of those that it knows, none where it knows one alone.
        tasks: that it can be told.
        times: whether it has tokens for times.
        window: seconds that it hears.
    """
    from transformers import (
        AutoTokenizer,
        WhisperConfig,
        WhisperFeatureExtractor,
        WhisperForConditionalGeneration,
    )

    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR / "storyteller")
    start = tokenizer.bos_token_id or tokenizer.eos_token_id or 0
    own = _told_of(tokenizer, languages, tasks, times)
    config = WhisperConfig(
        vocab_size=len(tokenizer),
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_source_positions=50 * window,
        max_target_positions=64,
        bos_token_id=start,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=start,
        decoder_start_token_id=start,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    torch.manual_seed(0)
    model = WhisperForConditionalGeneration(config)
    for name, value in own.items():
        setattr(model.generation_config, name, value)
    # Or transformers would take what it saved for a copy of config.json.
    model.generation_config._from_model_config = False
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    ear = WhisperFeatureExtractor(feature_size=config.num_mel_bins, chunk_length=window)
    ear.save_pretrained(folder)
    return str(folder)


def _told_of(
    tokenizer: Any, languages: tuple[str, ...], tasks: tuple[str, ...], times: bool
) -> dict[str, Any]:
    """Give a tokenizer the tokens of what a Whisper can be told; return how its generation_config names them."""

    def added(names: Iterable[str]) -> dict[str, int]:
        marks = [f"<|{name}|>" for name in names]
        tokenizer.add_tokens(marks, special_tokens=True)
        return dict(zip(marks, tokenizer.convert_tokens_to_ids(marks), strict=True))

    own: dict[str, Any] = {"is_multilingual": bool(languages)}
    if languages:
        own["lang_to_id"] = added(languages)
    if tasks:
        own["task_to_id"] = dict(zip(tasks, added(tasks).values(), strict=True))
    if times:
        own["no_timestamps_token_id"] = added(["notimestamps"])["<|notimestamps|>"]
        added(f"{n * 0.02:.2f}" for n in range(_TIMES))
    return own
