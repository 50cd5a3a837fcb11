"""Small models that read text or a picture, a text for each, and transformers' own account of it."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import torch
import transformers

from engine.inspection.target_token import TargetToken
from engine.loops.teacher_forced import teacher_forced_inputs
from engine.models.loading import LoadedModel, load
from tests.helpers.models import VOCAB, fresh_model, golden_model, tiny_llama, weight_of
from tests.helpers.zoo import zoo_model

PROMPT, NEW = (5, 9, 11, 4, 30, 41), (17, 5, 23, 8)
DECIDED = TargetToken(PROMPT, NEW[:-1], NEW[-1])
TEXT_MODELS = ("gpt2", "llama", "qwen2", "t5", "Bart", "storyteller", "storyfixer")
PICTURE = 8
PATCH = 2
PART = VOCAB - 1
READ = TargetToken((1, 5, *[PART] * 16, 7), NEW[:2], NEW[2])
"""A picture within a prompt."""


@cache
def model_of(name: str) -> LoadedModel:
    """Return a shared model by its name here, which is as models are loaded: without eager attention."""
    if name.startswith("story"):
        return load(name)
    if name == "captioner":
        return LoadedModel(captioner(), None, name)
    if name == "reader":
        return LoadedModel(reader(), None, name)
    return golden_model(name) if name.islower() else zoo_model(name)


def captioner() -> Any:
    """Return a tiny model whose encoder reads a picture of 3 x 8 x 8 values in 4 x 4 patches."""
    vision = transformers.ViTConfig(
        image_size=PICTURE,
        patch_size=PATCH,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
    )
    words = transformers.GPT2Config(
        vocab_size=VOCAB,
        n_positions=64,
        n_embd=16,
        n_layer=3,
        n_head=2,
        add_cross_attention=True,
        is_decoder=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(vision, words)
    torch.manual_seed(0)
    model = transformers.VisionEncoderDecoderModel(config)
    model.config.decoder_start_token_id = 1
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim > 1:
                p.copy_(0.4 * weight_of(name, p, 3))
    return model.eval()


def reader() -> Any:
    """Return a tiny model whose prompt has a picture's 4 x 4 parts in it, each as the token ``PART``."""
    vision = transformers.CLIPVisionConfig(
        image_size=PICTURE,
        patch_size=PATCH,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
    )
    words = tiny_llama(2).config
    torch.manual_seed(0)
    config = transformers.LlavaConfig(vision_config=vision, text_config=words, image_token_id=PART)
    return transformers.LlavaForConditionalGeneration(config).eval()


def picture() -> dict[str, torch.Tensor]:
    """Return a picture as the captioner reads it."""
    return {"pixel_values": weight_of("picture", torch.empty(1, 3, PICTURE, PICTURE), 5)}


def eager(loaded: LoadedModel, media: Any = None, decided: TargetToken = DECIDED) -> Any:
    """Return the outputs of a copy of a model that computes attention as transformers does to show it."""
    model = copy.deepcopy(loaded.model)
    model.set_attn_implementation("eager")
    new = [*decided.before, decided.token_id]
    with torch.no_grad():
        return model(
            **teacher_forced_inputs(loaded, decided.prompt_ids, new, media),
            use_cache=False,
            output_attentions=True,
        )


def plain(loaded: LoadedModel, token_id: int, **inputs: Any) -> float:
    """Return the log-probability of a token at the end of one forward pass."""
    with torch.no_grad():
        logits = loaded.model(**inputs, use_cache=False).logits[0, -1]
    return float(torch.log_softmax(logits.double(), -1)[token_id])


def doubled(name: str) -> LoadedModel:
    """Return a new model in double precision, for differences that are small."""
    model = captioner() if name == "captioner" else fresh_model(name)
    return LoadedModel(model.double(), None, name)
