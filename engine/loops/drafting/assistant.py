"""Drafting with a smaller model of the same vocabulary, or with the target's first layers."""

from __future__ import annotations

import copy
from typing import Any

import torch

from engine.errors import ModelError
from engine.loops.drafting.confidence import CONSTANT
from engine.loops.drafting.drafter import (
    Draft,
    ModelDrafter,
    RunContext,
    is_sampling_filter,
    with_drafted_tokens,
)
from engine.loops.recorder import run_processors
from engine.models.capabilities import layer_stack
from engine.models.hooks import rewire_hooks
from engine.models.layer_types import WITHOUT_KEYS, layer_types
from engine.models.model_types import Model, Processors


class AssistantDrafter(ModelDrafter):
    """Drafts token by token with a draft model.

    Args:
        context: the run.
        model: a decoder-only model with the target's vocabulary.
        exit_layer: recorded if the model is the target's own first layers.
        cached: whether the model may use its cache.
        confidence: see ``ModelDrafter``.
    """

    name = "assistant"

    def __init__(
        self,
        context: RunContext,
        model: Model,
        exit_layer: int | None = None,
        *,
        cached: bool = True,
        confidence: str = CONSTANT,
    ) -> None:
        super().__init__(context, model, cached=cached, confidence=confidence)
        self.exit_layer = exit_layer
        self.processors = draft_processors(context.processors)
        self.vocab = context.model.config.get_text_config(decoder=True).vocab_size

    def draft(self, input_ids: torch.Tensor) -> Draft:
        """Return up to ``num_assistant_tokens`` tokens, leaving one of the budget to the target."""

        def scores_after(tokens: list[int]) -> torch.Tensor:
            ids = with_drafted_tokens(input_ids, tokens)
            logits = fit_vocabulary(self.forward.logits(ids), self.vocab)
            return run_processors(self.processors, ids, logits)[0]

        draft = self._draft_for_target(input_ids, input_ids.shape[1], scores_after)
        draft.exit_layer = self.exit_layer
        return draft


class EarlyExitDrafter(AssistantDrafter):
    """Drafts with the target's own first layers (LayerSkip, 2404.16710)."""

    name = "early_exit"

    def __init__(self, context: RunContext) -> None:
        model, layer = context.model, context.generation_config.assistant_early_exit
        # The cache of a hybrid model counts positions in its attention layers. Before the first of
        # them, every draft pass reads the whole text again.
        kinds = layer_types(model.config)
        cached = WITHOUT_KEYS.issuperset(kinds) or not WITHOUT_KEYS.issuperset(kinds[:layer])
        super().__init__(context, view_first_layers(model, layer), layer, cached=cached)


def draft_processors(processors: Processors) -> list[Any]:
    """Return the processors of the draft model: the target's, with the warpers twice.

    Any draft distribution is lossless; the one of transformers gives the same rounds as generate().
    """
    # transformers passes the target's list to the draft's generate(), which adds its own warpers
    # again, not those it was given, and drops the minimum length.
    own = [p for p in processors if type(p).__name__ != "MinLengthLogitsProcessor"]
    return own + [p for p in own if _is_added_again(p)]


def _is_added_again(processor: object) -> bool:
    kind = type(processor)
    warper = is_sampling_filter(processor) or kind.__name__ == "LogitNormalization"
    return warper and kind.__module__.startswith("transformers.")


def view_first_layers(model: Model, layers: int) -> Any:
    """Return a view of a decoder-only model with its first layers, norm and head.

    The view shares every parameter but has its own list of layers and configuration. The model
    itself is not changed, so an error during a run cannot leave it truncated.

    Raises:
        ModelError: the model has no known layer stack, or too few layers.
    """
    name = model.base_model_prefix
    base: Any = getattr(model, name, None)
    found = layer_stack(model)
    if found is None:
        raise ModelError(
            "{model} has no layers that could be left early.", model=type(model).__name__
        )
    stack, whole = found
    if not 1 <= layers < len(whole):
        raise ModelError(
            "assistant_early_exit = {layer}: the model has {n} layers.", layer=layers, n=len(whole)
        )
    config: Any = copy.copy(model.config)
    for field in ("num_hidden_layers", "n_layer"):
        if field in vars(config):
            setattr(config, field, layers)
    # Some configs derive layer_types from the number of layers; only a stored list is cut.
    if kinds := config.__dict__.get("layer_types"):
        config.layer_types = list(kinds)[:layers]
    short_base = _shallow_view(base, config, **{stack: torch.nn.ModuleList(list(whole)[:layers])})
    view = _shallow_view(model, config, **{name: short_base})
    if hasattr(model, "graphs"):
        view.graphs = model.graphs.first_layers(layers)
    return view


def _shallow_view(module: torch.nn.Module, config: Any, **children: torch.nn.Module) -> Any:
    """Return a shallow copy of a module with its own configuration and the given children."""
    shell = rewire_hooks(copy.copy(module))
    shell.__dict__["_modules"] = module.__dict__["_modules"] | children
    shell.__dict__["config"] = config
    return shell


def fit_vocabulary(logits: torch.Tensor, vocab: int) -> torch.Tensor:
    """Return (1, vocab) logits: cut the padding of the draft model's output, or pad with -inf."""
    have = logits.shape[-1]
    if have >= vocab:
        return logits[:, :vocab]
    return torch.nn.functional.pad(logits, (0, vocab - have), value=-torch.inf)
