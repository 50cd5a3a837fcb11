"""What a model can do while it decodes, read off its class and its configuration.

No weights are looked at, so a model that was only described (torch's meta device) will do. What
transformers does not say of itself was found by trying: the lists below are tried by the tests.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from engine.models.hooks import wired_to_itself
from engine.models.readers.families import decoding_part, family_of

CACHES = ("past_key_values", "cache_params")
"""What models call transformers' own Cache."""
OWN_CACHES = ("state", "mems", "past_buckets_states")
"""What some older models call a cache of their own making."""
RESUMES = frozenset(
    {
        "bamba",
        "deepseek_v4",
        "falcon_h1",
        "granitemoehybrid",
        "kimi_linear",
        "mamba2",
        "nemotron_h",
        "olmo_hybrid",
        "qwen3_5_moe_text",
        "qwen3_5_text",
        "qwen3_next",
        "zamba2",
    }
)
"""Model types with a running state that several new tokens at once continue rightly. Others, such
as Jamba and Mamba, begin anew with every pass over more than one token."""
_STATE_IN_LAYERS = frozenset({"recurrent_gemma"})
"""Model types whose running state is held by the layers and not by the cache."""
_ONE_TOKEN_AT_A_TIME = frozenset({"cpmant", "prophetnet"})
"""Model types without a running state that cannot read several new tokens after cached ones."""
_HIDES_LAYERS = frozenset({"deepseek_v4"})
"""Model types whose hidden states are not those of their layers, one after the other."""
_NORM_NAMES = ("norm", "ln_f", "final_layer_norm", "final_layernorm", "norm_f")
_READS = {
    "input_ids": "text",
    "input_features": "sound",
    "input_values": "sound",
    "audio_values": "sound",
    "pixel_values": "pictures",
    "flattened_patches": "pictures",
}


@dataclass(frozen=True)
class Capabilities:
    """What a strategy may ask of a model.

    Attributes:
        reads: text, sound, pictures, or the name of the input its class declares.
        own_generate: whether its class replaces transformers' generate().
        is_encoder_decoder: whether it has an encoder.
        cache_name: what the model calls transformers' Cache, None where it uses none.
        has_cache: whether anything is kept from step to step; else every step reads the whole text.
        can_crop: whether the cache can forget its last positions.
        can_restore: whether a copy of the cache, put back, goes on with several tokens at once.
        can_step: whether the cache alone is enough to read one more token.
        can_reorder: whether the rows of the cache can be rearranged.
        exits: whether its layers stand in a list that can be left early.
        layers_without_state: whether no layer keeps anything from one pass to the next.
        shows_layers: whether one matrix turns the hidden state of any layer into scores.
        takes: what it can be given besides text: image, audio.
        needs: which of them it must be given, None where text alone will do.
        attention: which implementation of its attention is asked for: sdpa where its class has it, else eager.
    """

    reads: str
    own_generate: bool
    is_encoder_decoder: bool
    cache_name: str | None
    has_cache: bool
    can_crop: bool
    can_restore: bool
    can_step: bool
    can_reorder: bool
    exits: bool
    layers_without_state: bool
    shows_layers: bool
    takes: frozenset[str] = frozenset()
    needs: str | None = None
    attention: str = "sdpa"

    @property
    def can_rewind(self) -> bool:
        """Whether rejected tokens can be taken back: by cropping, or by putting a copy back."""
        return not self.has_cache or self.can_crop or self.can_restore


def capabilities_of(model: Any) -> Capabilities:
    """Return what a transformers generation model can do; its weights are not looked at."""
    family, attention = family_of(model), attention_of(model)
    model = decoding_part(model)
    kind: Any = type(model)
    types = _types(model)
    arguments = inspect.signature(model.forward).parameters
    cache_name = _cache_name(model, arguments)
    stateless = not types & _STATE_IN_LAYERS
    stateful = bool(getattr(kind, "_is_stateful", False))
    alone = bool(types & _ONE_TOKEN_AT_A_TIME)
    crop = cache_name is not None and not stateful and not alone and _layers_crop(model)
    main = getattr(kind, "main_input_name", "input_ids")
    return Capabilities(
        reads=_READS.get(main, main),
        # What Whisper's own does around the decode is done by its reader.
        own_generate=getattr(kind, "generate", None)
        is not vars(transformers.GenerationMixin)["generate"]
        and not (family is not None and family.speaks),
        is_encoder_decoder=bool(model.config.is_encoder_decoder),
        cache_name=cache_name,
        has_cache=cache_name is not None
        or any(name in arguments for name in (*CACHES, *OWN_CACHES)),
        can_crop=crop,
        can_restore=cache_name is not None and stateless and bool(types & RESUMES),
        can_step=cache_name is not None and stateless and not alone,
        can_reorder=(cache_name is not None and stateless) or hasattr(model, "_reorder_cache"),
        exits=layer_stack(model) is not None,
        layers_without_state=stateless,
        shows_layers=model.get_output_embeddings() is not None and not types & _HIDES_LAYERS,
        takes=frozenset() if family is None else family.takes,
        needs=None if family is None else family.needs,
        attention=attention,
    )


def attention_of(model: Any) -> str:
    """Return which implementation of its attention a model is loaded with; some classes have no fused one."""
    return "sdpa" if getattr(model, "_supports_sdpa", False) else "eager"


def layer_stack(model: Any) -> tuple[str, torch.nn.ModuleList] | None:
    """Return the name and the list of a decoder's layers, None where they are not found."""
    base = getattr(model, model.base_model_prefix, None)
    for name in ("layers", "h"):
        layers = getattr(base, name, None)
        own = wired_to_itself(model) or wired_to_itself(base) if base is not None else False
        if isinstance(layers, torch.nn.ModuleList) and not own:
            return name, layers
    return None


def final_norm(model: Any) -> Any | None:
    """Return the module that normalises the last layer before the head, None if unknown."""
    base = getattr(model, model.base_model_prefix, model)
    for owner in (base, getattr(base, "decoder", None)):
        for name in _NORM_NAMES:
            if isinstance(getattr(owner, name, None), torch.nn.Module):
                return getattr(owner, name)
    return None


def _types(model: Any) -> set[str]:
    """Return the model types of a configuration and of its decoder."""
    config = model.config
    return {config.model_type, config.get_text_config(decoder=True).model_type}


def _cache_name(model: Any, arguments: Any) -> str | None:
    if not model._supports_default_dynamic_cache():
        return None
    name = CACHES["mamba" in type(model).__name__.lower()]  # as generate() chooses it
    return name if name in arguments else None


def _layers_crop(model: Any) -> bool:
    """Whether every layer of the cache that the configuration asks for can forget positions.

    A convolution alone can; an empty layer cannot say so yet, so its declared kind is asked.
    """
    from transformers import DynamicCache

    if model.config.is_encoder_decoder:
        return True
    config = model.config.get_text_config(decoder=True)
    layers = DynamicCache(config=config).layers
    kinds = getattr(config, "layer_types", None) or [""] * len(layers)
    return all(
        layer.is_croppable or kind == "conv" for layer, kind in zip(layers, kinds, strict=True)
    )
