"""What a model can do while decoding, read from its class and configuration.

Weights are not needed, so a model on torch's meta device works too. The lists of model types below
hold what transformers does not declare; they were found by trying and are covered by tests.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from engine.models.hooks import has_own_forward
from engine.models.layer_types import WITHOUT_KEYS, layer_types
from engine.models.model_types import Model
from engine.models.readers.families import decoding_part, family_of

CACHE_ARGUMENTS = ("past_key_values", "cache_params")
"""Names of the forward argument that takes transformers' Cache."""
CUSTOM_CACHE_ARGUMENTS = ("state", "mems", "past_buckets_states")
"""Names of the forward argument that takes an older model's own kind of cache."""
RESUMABLE_STATE_TYPES = frozenset(
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
"""Model types whose running state continues correctly over several new tokens in one pass.

Others, such as Jamba and Mamba, silently reset the state in every pass over more than one token."""
FILLER = "storyteller-diffusion"
"""Folder of the embedded masked diffusion model, which the configuration of its main model names."""
_STATEFUL_LAYER_TYPES = frozenset({"recurrent_gemma"})
"""Model types whose layers hold the running state, out of the cache's reach."""
_SINGLE_TOKEN_TYPES = frozenset({"blt", "cpmant", "prophetnet"})
"""Model types without a running state that read only one new token after cached ones."""
_NO_LAYER_STATES_TYPES = frozenset({"deepseek_v4", "hy_v4"})
"""Model types whose hidden states are not the outputs of their layers in order."""
_NORM_NAMES = ("norm", "ln_f", "final_layer_norm", "final_layernorm", "norm_f")
_POSITION_NAMES = (
    "max_position_embeddings",
    "n_positions",
    "max_target_positions",
    "max_seq_len",
    "max_decoder_position_embeddings",
)
_INPUT_KINDS = {
    "input_ids": "text",
    "input_features": "sound",
    "input_values": "sound",
    "audio_values": "sound",
    "pixel_values": "pictures",
    "flattened_patches": "pictures",
}


@dataclass(frozen=True)
class Capabilities:
    """What a strategy may require of a model.

    Attributes:
        reads: text, sound, pictures, or the main input's name if it is none of these.
        own_generate: whether its class replaces transformers' generate().
        is_encoder_decoder: whether it has an encoder.
        cache_name: forward argument that takes transformers' Cache; None if it uses none.
        has_cache: whether any state is stored between steps. If not, each step reads the whole text.
        can_crop: whether the last positions can be cut off the cache.
        can_restore: whether a restored copy of the cache continues with several tokens in one pass.
        can_step: whether the cache alone is enough to read one more token.
        can_reorder: whether the rows of the cache can be rearranged.
        exits: whether its layers are a list that can be exited early.
        layers_without_state: whether no layer stores state between passes.
        names_encoder_depth: whether its configuration gives the depth of an encoder that it lacks, by which
            transformers would size its cache.
        shows_layers: whether one matrix turns the hidden state of any layer into logits.
        positions: how many positions the decoder has; None if they are relative.
        takes: accepted inputs besides text: image, audio.
        needs: which of them is required; None if text alone is enough.
        heads: how many heads it has that guess further tokens (multi-token prediction).
        fills: whether a masked diffusion model of the same tokens comes with it.
        attention: attention implementation to load it with: sdpa if its class supports it, else eager.
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
    names_encoder_depth: bool
    shows_layers: bool
    positions: int | None = None
    takes: frozenset[str] = frozenset()
    needs: str | None = None
    heads: int = 0
    fills: bool = False
    attention: str = "sdpa"

    @property
    def can_rewind(self) -> bool:
        """Whether rejected tokens can be removed, by cropping or by restoring a copy."""
        return not self.has_cache or self.can_crop or self.can_restore


def writes_tokens(kind: type) -> bool:
    """Return whether models of a class write one token after another, as transformers' generate() does.

    Others fill whole blocks in any order (DiffusionGemma), or write no text.
    """
    return issubclass(kind, transformers.GenerationMixin)


def capabilities_of(model: Model) -> Capabilities:
    """Return the capabilities of a transformers generation model; its weights are not used."""
    family, attention = family_of(model), attention_implementation(model)
    model = decoding_part(model)
    kind: Any = type(model)
    types = _model_types(model)
    arguments = inspect.signature(model.forward).parameters
    cache_name = _cache_name(model, arguments)
    stateless = not types & _STATEFUL_LAYER_TYPES
    stateful = bool(getattr(kind, "_is_stateful", False))
    alone = bool(types & _SINGLE_TOKEN_TYPES)
    crop = cache_name is not None and not stateful and not alone and _can_crop_layers(model)
    main = getattr(kind, "main_input_name", "input_ids")
    return Capabilities(
        reads=_INPUT_KINDS.get(main, main),
        # Whisper's own generate() does not count: its reader does what that adds to the decode.
        own_generate=getattr(kind, "generate", None)
        is not vars(transformers.GenerationMixin)["generate"]
        and not (family is not None and family.is_speech_model),
        is_encoder_decoder=bool(model.config.is_encoder_decoder),
        cache_name=cache_name,
        has_cache=cache_name is not None or (takes_cache(model) and not _cannot_count(model)),
        can_crop=crop,
        can_restore=cache_name is not None and stateless and bool(types & RESUMABLE_STATE_TYPES),
        can_step=cache_name is not None and stateless and not alone,
        can_reorder=(cache_name is not None and stateless) or hasattr(model, "_reorder_cache"),
        exits=layer_stack(model) is not None,
        layers_without_state=stateless,
        names_encoder_depth=names_encoder_depth(model),
        shows_layers=_can_read_layers(model) and not types & _NO_LAYER_STATES_TYPES,
        heads=head_count(model),
        fills=getattr(model.config, "masked_diffusion_model", None) == FILLER,
        positions=position_count(model),
        takes=frozenset() if family is None else family.takes,
        needs=None if family is None else family.needs,
        attention=attention,
    )


def computes_exactly(model: Model) -> bool:
    """Return whether sums of other passes differ in last digits only: full precision, no quantised weights."""
    exact = model.dtype in (torch.float32, torch.float64)
    # Quantised weights may scale all rows of a pass together.
    return exact and getattr(model, "hf_quantizer", None) is None


def attention_implementation(model: Model) -> str:
    """Return the attention implementation to load a model with: some classes do not support sdpa."""
    return "sdpa" if getattr(model, "_supports_sdpa", False) else "eager"


def position_count(model: Model) -> int | None:
    """Return how many positions a decoder has, None if they are relative or without a limit."""
    config = model.config.get_text_config(decoder=True)
    lengths = (getattr(config, name, None) for name in _POSITION_NAMES)
    # XLNet has -1: its positions are relative.
    return next((n for n in lengths if isinstance(n, int) and n > 0), None)


def layer_count(model: Model) -> int:
    """Return the number of decoder layers, 0 if the configuration names none."""
    config, stack = model.config.get_text_config(decoder=True), layer_stack(model)
    own = (getattr(config, name, None) for name in ("num_decoder_layers", "decoder_layers"))
    # LongcatFlash counts two hidden layers in each of its layers.
    counts = (*own, len(stack[1]) if stack else None, getattr(config, "num_hidden_layers", None))
    return int(next((n for n in counts if n), 0))


def names_encoder_depth(model: Model) -> bool:
    """Return True for the decoder alone of Bart and others, whose num_hidden_layers is the encoder's."""
    config = model.config.get_text_config(decoder=True)
    own = getattr(config, "decoder_layers", None)
    named = getattr(config, "num_hidden_layers", own)
    return not config.is_encoder_decoder and own not in (None, named)


def head_count(model: Model) -> int:
    """Return how many heads for further tokens the configuration names; 0 without layers of torch."""
    if layer_stack(model) is None:
        return 0
    config = model.config.get_text_config(decoder=True)
    return int(getattr(config, "num_mtp_layers", None) or 0)


def layer_stack(model: Model) -> tuple[str, torch.nn.ModuleList] | None:
    """Return the attribute name and the list of a decoder's layers; None if not found."""
    base = getattr(model, model.base_model_prefix, None)
    for name in ("layers", "h"):
        layers = getattr(base, name, None)
        # A forward bound to its instance would run the original's layers in a copy with fewer layers.
        own = has_own_forward(model) or has_own_forward(base) if base is not None else False
        if isinstance(layers, torch.nn.ModuleList) and not own:
            return name, layers
    return None


def final_norm(model: Model) -> Any | None:
    """Return the norm between the last layer and the head; None if not found."""
    base = getattr(model, model.base_model_prefix, model)
    for owner in (base, getattr(base, "decoder", None)):
        for name in _NORM_NAMES:
            if isinstance(getattr(owner, name, None), torch.nn.Module):
                return getattr(owner, name)
    return None


def _can_read_layers(model: Model) -> bool:
    """Return True if the output head can read the states between layers."""
    head = model.get_output_embeddings()
    width = getattr(model.config.get_text_config(decoder=True), "hidden_size", None)
    fits = head is not None and width in (None, getattr(head, "in_features", width))
    return fits and layer_count(model) > 0


def _model_types(model: Model) -> set[str]:
    """Return the model types of the configuration and of its decoder part."""
    config = model.config
    return {config.model_type, config.get_text_config(decoder=True).model_type}


def _cache_name(model: Model, arguments: Any) -> str | None:
    if not model._supports_default_dynamic_cache():
        return None
    name = CACHE_ARGUMENTS["mamba" in type(model).__name__.lower()]  # as generate() chooses it
    return name if name in arguments and not _cannot_count(model) else None


def takes_cache(model: Model) -> bool:
    """Return True if a model's forward has an argument for a cache of any kind."""
    arguments = inspect.signature(model.forward).parameters
    return any(name in arguments for name in (*CACHE_ARGUMENTS, *CUSTOM_CACHE_ARGUMENTS))


def _cannot_count(model: Model) -> bool:
    """Return True for a hybrid without a single attention layer, with which generate() fails.

    Its cache counts the tokens that it holds in its attention layers. Mamba's, an argument of another
    name, is never asked for their number.
    """
    if "past_key_values" not in inspect.signature(model.forward).parameters:
        return False
    kinds = layer_types(model.config) if model._supports_default_dynamic_cache() else ()
    return bool(kinds) and WITHOUT_KEYS.issuperset(kinds)


def _can_crop_layers(model: Model) -> bool:
    """Return True if every cache layer of the configuration can be cropped."""
    from transformers import DynamicCache

    if model.config.is_encoder_decoder:
        return True
    config = model.config.get_text_config(decoder=True)
    layers = DynamicCache(config=config).layers
    kinds = getattr(config, "layer_types", None) or [""] * len(layers)
    # A convolution layer can be cropped, but reports so only once it is filled. A configuration may list more
    # kinds than it has layers, when early exit has cut its number of layers alone.
    return all(
        layer.is_croppable or kind == "conv" for layer, kind in zip(layers, kinds, strict=False)
    )
