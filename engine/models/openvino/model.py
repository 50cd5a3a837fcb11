"""A model of a transformers class whose forward passes run on an OpenVINO graph."""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import transformers
from transformers.modeling_outputs import CausalLMOutputWithPast

from engine.errors import ModelError
from engine.models.capabilities import final_norm
from engine.models.model_types import Model
from engine.models.openvino.cache import GraphCache
from engine.models.openvino.graphs import ModelGraphs
from engine.trace.records import Agreement


class GraphModelMixin:
    """Mixin for a transformers model class that runs its passes on graphs.

    Attributes:
        graphs: the compiled graphs.
        hides: whether cropped positions of its cache may stay in the state, hidden by the mask.
        agreement: agreement with the original model, if its weights are quantised; else None.
    """

    graphs: ModelGraphs
    hides: bool
    agreement: Agreement | None = None
    config: Any

    @property
    def device(self) -> torch.device:
        """Device that inputs must be on."""
        return torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the outputs."""
        return torch.float32

    def new_cache(self) -> GraphCache:
        """Return an empty cache for this model."""
        return GraphCache(self.graphs.whole, hides=self.hides)

    def _prepare_cache_for_generation(
        self,
        generation_config: transformers.GenerationConfig,
        model_kwargs: dict[str, Any],
        *rest: Any,
    ) -> None:
        """Override transformers' hook: give generate() a GraphCache instead of a tensor cache."""
        del rest
        if model_kwargs.get("past_key_values") is None and generation_config.use_cache is not False:
            model_kwargs["past_key_values"] = self.new_cache()

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        output_hidden_states: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        **other: Any,
    ) -> CausalLMOutputWithPast:
        """Run the graph on new tokens; arguments and outputs are those of the class's own forward.

        Raises:
            ModelError: another kind of cache, a mask that is not (rows, positions), or embeddings
                instead of ids.
        """
        if input_ids is None or other.get("inputs_embeds") is not None:
            raise ModelError("On openvino a model reads token ids only.")
        if attention_mask is not None and attention_mask.dim() != 2:
            raise ModelError("On openvino a model takes a mask of (rows, positions) only.")
        cache = self.new_cache() if past_key_values is None else past_key_values
        if not isinstance(cache, GraphCache):
            raise ModelError(
                "On OpenVINO a model has its own cache, not a {kind}.",
                kind=type(cache).__name__,
            )
        new = np.arange(input_ids.shape[1])
        # 0 stands for all positions, as in transformers.
        kept = new[-logits_to_keep:] if isinstance(logits_to_keep, int) else logits_to_keep.numpy()
        shown = new if output_hidden_states else new[:0]
        logits, states = cache.read(input_ids, attention_mask, position_ids, kept, shown)
        return CausalLMOutputWithPast(
            logits=logits,
            past_key_values=cache if use_cache is not False else None,
            hidden_states=tuple(states) if output_hidden_states else None,
        )


@lru_cache(maxsize=64)
def graph_model_class(kind: type) -> type:
    """Return a subclass of a transformers class with ``GraphModelMixin`` mixed in; name and forward signature stay."""
    own: Any = type(kind.__name__, (GraphModelMixin, kind), {"__module__": kind.__module__})

    def forward(self: Any, *given: Any, **named: Any) -> CausalLMOutputWithPast:
        return GraphModelMixin.forward(self, *given, **named)

    # transformers inspects this signature to decide which arguments to pass.
    forward.__signature__ = inspect.signature(kind.forward)  # type: ignore[attr-defined]
    own.forward = forward
    return own


def to_graph_model(described: Any, graphs: ModelGraphs) -> Any:
    """Turn a model without weights into one that runs on graphs, and return it.

    Args:
        described: the model on torch's meta device; changed in place.
        graphs: its compiled graphs.
    """
    described.__class__ = graph_model_class(type(described))
    described.graphs = graphs
    described.hides = can_hide_positions(described)
    head, norm = described.get_output_embeddings(), final_norm(described)
    # DoLa calls head and norm on their own.
    if head is not None:
        head.forward = graphs.head
    if norm is not None:
        norm.forward = graphs.norm
    return described.eval()


def can_hide_positions(model: Model) -> bool:
    """Return True if the mask alone can hide a position, so that cropping need not rewrite the state.

    Not if a layer counts positions itself: sliding windows, chunks, GPT-Neo's local attention, or
    ALiBi without ``position_ids``.
    """
    config = model.config.get_text_config(decoder=True)
    kinds = getattr(config, "layer_types", None) or ()
    windows = getattr(config, "sliding_window", None) or getattr(
        config, "attention_chunk_size", None
    )
    local = "local" in (getattr(config, "attention_layers", None) or ())
    if local or "position_ids" not in inspect.signature(model.forward).parameters:
        return False
    return all(kind == "full_attention" for kind in kinds) if kinds else not windows
